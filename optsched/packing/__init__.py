"""Exact packing: offsets of least slab for given live ranges, with proof."""

from __future__ import annotations

from optsched.packing.outcome import PackingOutcome
from optsched.packing.rules import Rules
from optsched.packing.solve import solve_packing

__all__ = ["PackingOutcome", "Rules", "solve_packing"]
