"""Programs of two processes that talk to each other: equal bits, and bytes as planned."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from tests.support.distributed_programs import PROGRAMS
from tests.support.ranks import run_ranks

OPERAND = 256 * 32 * 4
"""Bytes of the largest operand of a collective in these programs."""


def test_bits_are_equal_and_bytes_as_planned(tmp_path: Path) -> None:
    for rows in run_ranks("tests.support.two_processes", tmp_path, *PROGRAMS):
        assert [row["name"] for row in rows] == list(PROGRAMS)
        for row in rows:
            assert row["same"], row
            assert row["figures"]
            for before, planned, measured, _ in row["figures"]:
                assert planned <= before, row
                # A thread of gloo may hold the operand of one collective a moment after the wait.
                assert planned <= measured <= planned + OPERAND, row
