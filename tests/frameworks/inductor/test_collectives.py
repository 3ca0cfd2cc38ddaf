"""Programs of two processes that talk to each other: equal bits, and bytes as planned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from tests.support.distributed_programs import PROGRAMS

ROOT = Path(__file__).parents[3]
OPERAND = 256 * 32 * 4
"""Bytes of the largest operand of a collective in these programs."""


def test_bits_are_equal_and_bytes_as_planned(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.two_processes", str(tmp_path / "store")]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    running = [
        subprocess.Popen(
            [*command, str(rank), *PROGRAMS],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in running:
        printed, errors = process.communicate(timeout=500)
        assert process.returncode == 0, errors[-2000:]
        rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        assert [row["name"] for row in rows] == list(PROGRAMS)
        for row in rows:
            assert row["same"], row
            assert row["figures"]
            for before, planned, measured, _ in row["figures"]:
                assert planned <= before, row
                # A thread of gloo may hold the operand of one collective a moment after the wait.
                assert planned <= measured <= planned + OPERAND, row
