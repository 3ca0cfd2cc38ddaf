"""Exact packing: buffer offsets that minimize the slab for given live ranges, with a proof."""

from __future__ import annotations

from optsched.packing.rules import PackingEffort, Rules
from optsched.packing.solve import PackingOutcome, solve_packing

__all__ = ["PackingEffort", "PackingOutcome", "Rules", "solve_packing"]
