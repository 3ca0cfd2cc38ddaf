"""Heuristic orderings and packings: warm starts, upper bounds, and what is compared.

`ORDERINGS[name](graph, seed)` gives an order, `PACKINGS[name](problem)` the offsets. Both hold what
can be compared, a user's own methods among it:

>>> from heuristics import register_ordering
>>> @register_ordering("reversed_ids")
... def reversed_ids(graph, seed=0):
...     ...

`solve` uses none of those: what it tries is fixed, :data:`OWN_ORDERINGS` and
:data:`OWN_PACKINGS`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TypeVar

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
from optsched.errors import UsageError

__all__ = [
    "ORDERINGS",
    "OWN_ORDERINGS",
    "OWN_PACKINGS",
    "PACKINGS",
    "Ordering",
    "Packing",
    "load_plugins",
    "register_ordering",
    "register_packing",
]

OWN_ORDERINGS: Mapping[str, Ordering] = MappingProxyType(
    {
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
)
"""The project's own makers of orders by name."""

OWN_PACKINGS: Mapping[str, Packing] = MappingProxyType(
    {
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
)
"""The project's own makers of offsets by name."""

ORDERINGS: dict[str, Ordering] = dict(OWN_ORDERINGS)
"""Makers of orders that can be compared: our own and those registered."""

PACKINGS: dict[str, Packing] = dict(OWN_PACKINGS)
"""Makers of offsets that can be compared: our own and those registered."""

_Method = TypeVar("_Method", Ordering, Packing)
_LOG = logging.getLogger(__name__)
_SEPARATORS = "+:=*?,"
"""What a method's name can not hold, since the command line reads it otherwise."""


def register_ordering(name: str) -> Callable[[Ordering], Ordering]:
    """Make a function `(graph, seed) -> order` a method of `compare` under this name.

    Raises
    ------
    UsageError
        If the name is taken, empty, or would be read otherwise on the command line.
    """
    return lambda method: _register(ORDERINGS, name, method)


def register_packing(name: str) -> Callable[[Packing], Packing]:
    """Make a function `problem -> offsets` a method of `compare` under this name.

    Raises
    ------
    UsageError
        As for :func:`register_ordering`.
    """
    return lambda method: _register(PACKINGS, name, method)


@cache
def load_plugins() -> None:
    """Register what installed packages offer under `optsched.orderings` and `optsched.packings`.

    The name of an entry point is the method's name. One that can not be loaded or registered is
    logged and left out, so that it spoils no comparison.
    """
    from importlib.metadata import entry_points

    for group, methods in (("optsched.orderings", ORDERINGS), ("optsched.packings", PACKINGS)):
        for entry in entry_points(group=group):
            try:
                _register(methods, entry.name, entry.load())
            except Exception as error:
                _LOG.warning("plug-in %s of %s is left out: %s", entry.name, group, error)


def _register(methods: dict[str, _Method], name: str, method: _Method) -> _Method:
    if not name.strip() or set(name) & set(_SEPARATORS):
        raise UsageError(f"a method can not be named {name!r}")
    if name in ORDERINGS or name in PACKINGS:
        raise UsageError(f"a method named {name!r} is there already")
    methods[name] = method
    return method
