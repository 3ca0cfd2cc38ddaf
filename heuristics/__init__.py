"""Heuristic orderings and packings: warm starts for `solve`, methods for `compare`.

`ORDERINGS[name](graph, seed)` returns an order, `PACKINGS[name](problem)` returns offsets. Both
contain all methods that can be compared, including those that users register:

>>> from heuristics import register_ordering
>>> @register_ordering
... def reversed_ids(graph, seed=0):
...     return range(len(graph.ops))[::-1]
>>> ORDERINGS["reversed_ids"] is reversed_ids
True

`solve` does not use these tables. It tries the fixed methods in :data:`OWN_ORDERINGS` and
:data:`OWN_PACKINGS`. Methods of other frameworks that would not improve its results are only
compared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypeVar, overload

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
    naive,
    tflm_greedy,
)
from heuristics.packings.hill_climb import hill_climb
from heuristics.packings.skyline import skyline
from optsched.errors import UsageError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.keywords import keywords
from optsched.runtime.registry import check_owner

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

# Read-only, as `solve` promises to be at least as good as these; users register in the other
# table.
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
"""Orderings that `solve` tries, by name."""

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
"""Packings that `solve` tries, by name."""

ORDERINGS: dict[str, Ordering] = {
    **OWN_ORDERINGS,
    "eager_free": eager_free,
    "lpmf_successors": lpmf_successors,
}
"""Orderings that can be compared: those that `solve` tries, others, and registered ones."""

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
"""Packings that can be compared: those that `solve` tries, others, and registered ones."""


def _successors_above(text: str) -> Ordering:
    return partial(lpmf_successors, size_threshold=parse_bytes(text))


def _inductor_of(text: str) -> Ordering:
    names = text.split("/")
    for name in names:
        if name not in ORDERINGS or name == "inductor":
            raise UsageError(
                f"method 'inductor:{text}': {name!r} is not an ordering that it can compare"
            )
    # Looked up here and not at import, so that registered orderings can be named as well.
    return partial(inductor, methods=tuple(ORDERINGS[name] for name in names))


PARAMETERS: Mapping[str, Callable[[str], Ordering]] = MappingProxyType(
    {"lpmf_successors": _successors_above, "inductor": _inductor_of}
)
"""Orderings that take a parameter, `NAME:PARAMETER`. For `lpmf_successors` it is the number of
bytes, in a form of `parse_bytes`, above which an op counts as large. For `inductor` it is the list
of orderings to compare, separated by `/`.
"""

_Order = TypeVar("_Order", bound=Callable[[Graph, int], Sequence[int] | IntArray])
_Pack = TypeVar("_Pack", bound=Callable[[PackingProblem], Sequence[int] | IntArray])
_LOG = logging.getLogger(__name__)
_SEPARATORS = "+:=*?,"
"""Characters that are not allowed in a method's name, because they have a meaning on the command
line.
"""


@overload
def register_ordering(name: _Order) -> _Order: ...
@overload
def register_ordering(name: str | None = None) -> Callable[[_Order], _Order]: ...
@keywords
def register_ordering(name: object = None) -> object:
    """Register a function `(graph, seed) -> order` as a method of `compare`.

    If the same function is registered again, for example in a notebook, it replaces the previous
    one.

    Parameters
    ----------
    name
        Name of the method (default: the name of the function). The decorator can also be used
        without parentheses.

    Raises
    ------
    UsageError
        If the name belongs to another method, is empty, or has a special character of the command
        line.

    Examples
    --------
    >>> from optsched import register_ordering
    >>> @register_ordering
    ... def as_listed(graph, seed):
    ...     return range(len(graph.ops))
    >>> "as_listed" in ORDERINGS
    True
    """
    return _registering(ORDERINGS, name)


@overload
def register_packing(name: _Pack) -> _Pack: ...
@overload
def register_packing(name: str | None = None) -> Callable[[_Pack], _Pack]: ...
@keywords
def register_packing(name: object = None) -> object:
    """Register a function `problem -> offsets` as a method of `compare`.

    Parameters
    ----------
    name
        As for :func:`register_ordering`.

    Raises
    ------
    UsageError
        As for :func:`register_ordering`.

    Examples
    --------
    >>> from optsched import register_packing
    >>> @register_packing
    ... def one_after_another(problem):
    ...     return problem.size.cumsum() - problem.size
    >>> "one_after_another" in PACKINGS
    True
    """
    return _registering(PACKINGS, name)


@cache
def load_plugins() -> None:
    """Register the entry points `optsched.orderings` and `optsched.packings` of installed packages.

    The name of an entry point is the name of the method. Entry points that cannot be loaded or
    registered are logged and skipped, so that they do not prevent a comparison.
    """
    from importlib.metadata import entry_points

    for group, methods in (("optsched.orderings", ORDERINGS), ("optsched.packings", PACKINGS)):
        for entry in entry_points(group=group):
            try:
                _register(methods, entry.name, entry.load())
            except Exception as error:
                _LOG.warning("plug-in %s of %s is skipped: %s", entry.name, group, error)


def _registering(methods: dict[str, Any], name: object) -> object:
    """Register the given function, or return a decorator that registers one."""
    if callable(name):
        return _register(methods, None, name)
    return lambda method: _register(methods, name, method)


def _register(methods: dict[str, Any], name: object, method: Any) -> Any:
    table = "ORDERINGS" if methods is ORDERINGS else "PACKINGS"
    if not callable(method):
        raise UsageError(f"a method must be a function, got {type(method).__name__}")
    # The function's own name is what a user calls it by.
    name = getattr(method, "__name__", "") if name is None else name
    if not isinstance(name, str) or not name.strip() or set(name) & set(_SEPARATORS):
        raise UsageError(f"invalid method name {name!r}")
    # One name must not mean an ordering and a packing: both are methods of one command.
    for held, known in (("ORDERINGS", ORDERINGS), ("PACKINGS", PACKINGS)):
        if name in known:
            new = method if held == table else None
            check_owner("a method", name, known[name], new, f"heuristics.{held}")
    methods[name] = method
    return method
