"""Heuristic orderings and packings: warm starts, upper bounds, and what is compared.

`ORDERINGS[name](graph, seed)` gives an order, `PACKINGS[name](problem)` the offsets. Both hold what
can be compared, a user's own methods among it:

>>> from heuristics import register_ordering
>>> @register_ordering("reversed_ids")
... def reversed_ids(graph, seed=0):
...     ...

`solve` uses neither: what it tries is fixed, :data:`OWN_ORDERINGS` and :data:`OWN_PACKINGS`.
Other frameworks' methods that bring it nothing new are only compared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import TypeVar

from heuristics.orderings.common import Ordering
from heuristics.orderings.inductor import bfs, dfs, inductor
from heuristics.orderings.lpmf import (
    lpmf,
    lpmf_backward,
    lpmf_backward_random,
    lpmf_random,
    lpmf_successors,
)
from heuristics.orderings.program import eager_free, program
from heuristics.orderings.xla import xla_default, xla_dfs, xla_list, xla_post_order
from heuristics.packings.common import Packing, joining
from heuristics.packings.greedy import (
    BEST_FIT,
    FIRST_FIT,
    greedy_by_breadth,
    greedy_by_longest_and_size,
    greedy_by_profile_breadth,
    greedy_by_size,
    linear_scan,
    tflm_greedy,
)
from heuristics.packings.hill_climb import hill_climb
from heuristics.packings.naive import naive
from heuristics.packings.skyline import skyline
from optsched.errors import UsageError
from optsched.runtime.bytes import parse_bytes

__all__ = [
    "ORDERINGS",
    "OWN_ORDERINGS",
    "OWN_PACKINGS",
    "PACKINGS",
    "PARAMETERS",
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
"""Makers of orders by name that `solve` tries."""

OWN_PACKINGS: Mapping[str, Packing] = MappingProxyType(
    joining(
        {
            "naive": naive,
            "greedy_by_size": greedy_by_size,
            "greedy_by_profile_breadth": greedy_by_profile_breadth,
            **FIRST_FIT,
            **BEST_FIT,
            "skyline": skyline,
            "hill_climb": hill_climb,
        }
    )
)
"""Makers of offsets by name that `solve` tries."""

ORDERINGS: dict[str, Ordering] = {
    **OWN_ORDERINGS,
    "eager_free": eager_free,
    "lpmf_successors": lpmf_successors,
}
"""Makers of orders that can be compared: those that `solve` tries, others and those registered."""

PACKINGS: dict[str, Packing] = {
    **OWN_PACKINGS,
    **joining(
        {
            "linear_scan": linear_scan,
            "tflm_greedy": tflm_greedy,
            "greedy_by_breadth": greedy_by_breadth,
            "greedy_by_longest_and_size": greedy_by_longest_and_size,
        }
    ),
}
"""Makers of offsets that can be compared: those that `solve` tries, others and those registered."""


def _successors_above(text: str) -> Ordering:
    return partial(lpmf_successors, size_threshold=parse_bytes(text))


def _inductor_of(text: str) -> Ordering:
    names = text.split("/")
    for name in names:
        if name not in ORDERINGS or name == "inductor":
            raise UsageError(f"method 'inductor:{text}': {name!r} is no ordering it can weigh")
    return partial(inductor, methods=tuple(ORDERINGS[name] for name in names))


PARAMETERS: Mapping[str, Callable[[str], Ordering]] = MappingProxyType(
    {"lpmf_successors": _successors_above, "inductor": _inductor_of}
)
"""Orderings that take a parameter, `NAME:PARAMETER`: bytes as of `parse_bytes` above which an op
is large for `lpmf_successors`; the orderings, joined by `/`, that `inductor` weighs."""

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
