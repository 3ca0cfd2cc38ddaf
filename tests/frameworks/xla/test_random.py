"""A sample of `python -m tests.fuzz hlo_modules`: modules are read as XLA allocates them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="the extra jax is not installed")

ROOT = Path(__file__).parents[3]


def test_random_modules_are_read_as_xla_allocates_them() -> None:
    """In a process of its own: XLA dumps live ranges only if it is told so before it starts."""
    # The donated argument of module 22 is a result.
    command = [sys.executable, "-m", "tests.fuzz", "hlo_modules", "--count", "16", "--seed", "10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "16  held: planned = held" in done.stdout
    assert "live ranges: equal" in done.stdout
