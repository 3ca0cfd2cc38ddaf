"""A peak for graphs with collectives: one plan for all ranks, and no rank that waits forever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

ROOT = Path(__file__).parents[3]


def both(case: str, folder: Path) -> list[dict[str, Any]]:
    """Return what two processes print that run a case of `tests.support.two_ranks`."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "tests.support.two_ranks", str(folder / "store")]
    running = [
        subprocess.Popen(
            [*command, str(rank), case],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    found = []
    for process in running:
        printed, errors = process.communicate(timeout=500)
        lines = [line for line in printed.splitlines() if line.startswith("{")]
        assert lines, errors[-2000:]
        found.append(json.loads(lines[-1]))
    return found


@pytest.mark.slow
def test_all_ranks_take_the_plan_of_rank_0(tmp_path: Path) -> None:
    rows = both("equal", tmp_path)
    assert rows[0]["answer"] == rows[1]["answer"]
    assert rows[0]["answer"].startswith("fits 700,000 bytes: ")
    assert "0 ops run again" not in rows[0]["answer"]
    for row in rows:
        assert (row["error"], row["reason"], row["near"]) == ("", "", True)


@pytest.mark.slow
def test_ranks_that_disagree_leave_the_split_to_pytorch_for_one_reason(tmp_path: Path) -> None:
    reason = "rank 0 and rank 1 compile different graphs or settings"
    for row in both("differ", tmp_path):
        assert (row["error"], row["reason"], row["near"]) == ("", reason, True)


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_an_error_and_no_hang(tmp_path: Path) -> None:
    alone, _ = both("missing", tmp_path)
    assert "rank 1 did not compile this graph within 10 seconds" in alone["error"]
    assert alone["seconds"] < 120
