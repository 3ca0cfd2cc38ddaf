"""Bytes that a compiled model holds, without and with our plugin in its compiler.

The ops of such a model exist only inside its compiler, which fuses and splits those of the file. So
the plan is made there, by the plugin, and no plan file is needed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from optsched.errors import FormatError, MissingDependencyError
from optsched.formats.source import label_of
from optsched.measure.result import Held, Measurement
from optsched.measure.runtimes import RUNTIMES


def measure_compiled(path: str, runtime: str, seconds: float) -> Measurement:
    """Compile and run a model without and with the plugin.

    Raise `FormatError` if the runtime does not compile or run the model. Raise
    `MissingDependencyError` if the runtime is not installed.

    `path`: path of an exported program of PyTorch, or of HLO text. `runtime`: name of a compiler in
    :data:`optsched.measure.runtimes.RUNTIMES`. `seconds`: time limit of the plugin, per graph.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        command = [sys.executable, "-m", "optsched.measure.compiled_child", runtime, path]
        ran = subprocess.run(
            [*command, str(seconds), str(answer)], capture_output=True, text=True, check=False
        )
        # The answer is in a file, since compilers print on both streams.
        found = json.loads(answer.read_text("utf-8")) if answer.exists() else _aborted(ran.stderr)
    if "missing" in found:
        raise MissingDependencyError(found["missing"], RUNTIMES[runtime].extra)
    if "error" in found:
        raise FormatError(
            f"{label_of(path)}: {RUNTIMES[runtime].title} does not run it: {found['error']}"
        )
    sides = {side: Held(**found[side]) for side in ("before", "after")}
    return Measurement(**{**found, **sides, "notes": tuple(found["notes"])})


def _aborted(printed: str) -> dict[str, Any]:
    """Return the error of a process that ended without an answer: its first fatal line."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    # As XLA and ExecuTorch log: `F0107 12:00:00.1 33 file.cc:12] Check failed: ...`.
    fatal = [line.partition("] ")[2] for line in lines if line.startswith("F") and "] " in line]
    return {"error": (fatal or lines[-1:] or ["the process ended without a message"])[0][:300]}
