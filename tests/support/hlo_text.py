"""Text of XLA for tests: a module around lines of its entry."""

from __future__ import annotations

from pathlib import Path

from optsched.formats import Source
from optsched.formats.hlo.read import read_hlo
from optsched.model.graph import Graph

DUMPS = Path(__file__).parents[2] / "instances" / "hlo"
"""Texts that XLA wrote for some modules."""
P = "%p = f32[16]{0} parameter(0)"
"""The line of a parameter."""


def module(*lines: str, before: str = "", scheduled: bool = True, head: str = "") -> Graph:
    """Read a module whose entry computation has these lines."""
    schedule = ", is_scheduled=true" if scheduled else ""
    body = "\n".join(f"  {line}" for line in lines)
    entry = f"ENTRY %main (p: f32[16]) -> f32[16] {{\n{body}\n}}\n"
    text = f"HloModule m{schedule}{head}\n{before}\n{entry}"
    return read_hlo(Source(text.encode(), "file"))
