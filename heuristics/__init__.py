"""Heuristic orderings and packings: warm starts, upper bounds, and what is compared.

`ORDERINGS[name](graph, seed)` gives an order, `PACKINGS[name](problem)` the offsets.
"""

from __future__ import annotations

from heuristics.orderings.bfs import bfs
from heuristics.orderings.common import Ordering
from heuristics.orderings.dfs import dfs
from heuristics.orderings.inductor import inductor
from heuristics.orderings.lpmf import lpmf
from heuristics.orderings.lpmf_backward import lpmf_backward
from heuristics.orderings.lpmf_random import lpmf_backward_random, lpmf_random
from heuristics.orderings.program import program
from heuristics.orderings.xla_default import xla_default
from heuristics.orderings.xla_dfs import xla_dfs
from heuristics.orderings.xla_list import xla_list
from heuristics.orderings.xla_post_order import xla_post_order
from heuristics.packings.best_fit import (
    best_fit_area,
    best_fit_conflicts,
    best_fit_lifetime,
    best_fit_start,
)
from heuristics.packings.common import Packing
from heuristics.packings.first_fit import (
    first_fit_area,
    first_fit_breadth,
    first_fit_conflicts,
    first_fit_lifetime,
    first_fit_size,
    first_fit_start,
)
from heuristics.packings.greedy_by_breadth import greedy_by_breadth
from heuristics.packings.greedy_by_size import greedy_by_size
from heuristics.packings.hill_climb import hill_climb
from heuristics.packings.linear_scan import linear_scan
from heuristics.packings.naive import naive
from heuristics.packings.skyline import skyline

__all__ = ["ORDERINGS", "PACKINGS", "Ordering", "Packing"]

ORDERINGS: dict[str, Ordering] = {
    "program": program,
    "lpmf": lpmf,
    "bfs": bfs,
    "dfs": dfs,
    "inductor": inductor,
    "xla_list": xla_list,
    "xla_dfs": xla_dfs,
    "xla_post_order": xla_post_order,
    "xla_default": xla_default,
    "lpmf_backward": lpmf_backward,
    "lpmf_random": lpmf_random,
    "lpmf_backward_random": lpmf_backward_random,
}
"""Makers of orders by name."""

PACKINGS: dict[str, Packing] = {
    "naive": naive,
    "greedy_by_size": greedy_by_size,
    "greedy_by_breadth": greedy_by_breadth,
    "linear_scan": linear_scan,
    "first_fit_size": first_fit_size,
    "first_fit_area": first_fit_area,
    "first_fit_start": first_fit_start,
    "first_fit_lifetime": first_fit_lifetime,
    "first_fit_conflicts": first_fit_conflicts,
    "first_fit_breadth": first_fit_breadth,
    "best_fit_area": best_fit_area,
    "best_fit_start": best_fit_start,
    "best_fit_lifetime": best_fit_lifetime,
    "best_fit_conflicts": best_fit_conflicts,
    "skyline": skyline,
    "hill_climb": hill_climb,
}
"""Makers of offsets by name."""
