"""Two processes that talk to each other, and the lines of JSON that they print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CACHE = "TWO_RANKS_CACHE"
"""Variable with the folder of a rank's compile cache, if it keeps one."""


def run_ranks(
    module: str, folder: Path, *arguments: str, caches: Sequence[Path] = ()
) -> list[list[dict[str, Any]]]:
    """Return the rows that both ranks print.

    `module` is run as `python -m MODULE FILE RANK ARGUMENT...`; the ranks meet at the file.
    `caches`: a folder for the compile cache of each rank, which keeps it.
    """
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", module, str(folder / "store")]
    running = [
        subprocess.Popen(
            [*command, str(rank), *arguments],
            cwd=ROOT,
            env={**environment, **({CACHE: str(caches[rank])} if caches else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        texts = [process.communicate(timeout=500) for process in running]
    finally:
        for process in running:
            process.kill()
    found = []
    for printed, errors in texts:
        lines = [line for line in printed.splitlines() if line.startswith("{")]
        # The process of a rank that is to die prints nothing.
        assert lines or "dead" in arguments, errors[-2000:]
        found.append([json.loads(line) for line in lines])
    return found
