"""Methods that can be compared, and the names by which users select them.

A method is an ordering, a packing, both (`lpmf+greedy_by_size`), an order that the framework
recorded in the file, a plan from a file, or a solver with its own time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from heuristics import ORDERINGS, PACKINGS, PARAMETERS, load_plugins
from optsched.errors import UsageError
from optsched.formats.format import CHOSEN
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.solver.schedule import Engine

OUR_METHOD = "optsched"
INDUCTOR = {f"recorded:{order}": order for order in ("baseline", "lpmf", "bfs", "dfs")}
"""Orders that TorchInductor evaluated before it chose one."""
FRAMEWORKS = ("tflm", "litert", "ort", "xla", "fx", "executorch", "iree")
"""Frameworks whose files record the order that they run by default."""
RECORDED = {"recorded": CHOSEN, **INDUCTOR, **dict(zip(FRAMEWORKS, FRAMEWORKS, strict=True))}
"""Recorded orders by method: the names that :mod:`optsched.formats.recorded` gives them."""
OwnMethod = Callable[[Graph, int], Sequence[int] | IntArray]
"""Ordering function of a caller: `(graph, seed) -> op ids`, first to run first."""
SOLVERS = (OUR_METHOD, *(engine.value for engine in Engine if engine is not Engine.AUTO))


class Kind(StrEnum):
    """The part of a plan that a method chooses, which decides the quantity that it is judged by."""

    ORDER = "order"
    """An order; judged by its peak. Its slab comes from the packer `greedy_by_size`."""
    PACKING = "packing"
    """Offsets for the best order known; judged by the slab."""
    PLAN = "plan"
    """An order and offsets; judged by the slab."""


@dataclass(frozen=True, slots=True)
class Heuristic:
    """An ordering, a packing, or both."""

    name: str
    ordering: str | None = None
    """Key of `ORDERINGS` or :data:`RECORDED`, or None for the best order known."""
    packing: str | None = None
    """Key of `PACKINGS`, or None where only the order is judged."""
    function: OwnMethod | None = None
    """Function that computes the order: a caller's own, or one made from a parameter."""

    @property
    def kind(self) -> Kind:
        """Part of a plan that the method chooses."""
        if self.ordering is None:
            return Kind.PACKING
        return Kind.ORDER if self.packing is None else Kind.PLAN

    @property
    def is_recorded(self) -> bool:
        """True if the order is one that the graph's file records."""
        return self.ordering in RECORDED


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan from a file, or from a folder with one plan per graph, named after it."""

    name: str
    path: str
    kind: Kind = Kind.PLAN


@dataclass(frozen=True, slots=True)
class Exact:
    """A solver with an engine and a time limit of its own."""

    name: str
    engine: Engine | None = None
    """Exact engine to run after heuristics and bounds; None for the run's engine."""
    seconds: float | None = None
    """Time limit in seconds; None for the run's limit, `inf` for no limit."""
    kind: Kind = Kind.PLAN

    @property
    def is_ours(self) -> bool:
        """True for optsched's own solver, whose bound the methods are measured against."""
        return self.engine is None


Method = Heuristic | PlanFile | Exact


def parse_methods(names: Sequence[str | OwnMethod] | None) -> tuple[Method, ...]:
    """Return the methods with the given names, without repetition, in the given order.

    Raise `UsageError` if a name is unknown (the message lists the nearest names), a pattern matches
    nothing, or a limit is not a positive number.

    `names`: names, groups (:func:`groups`), patterns with `*` and `?`, `SOLVER:SECONDS`,
    `ORDERING:PARAMETER`, `plan:PATH` or `NAME=PATH` for a plan from a file, and functions that
    return an order; None for the group `all`.
    """
    load_plugins()
    found: dict[str, Method] = {}
    for name in names or ("all",):
        # A group and a name may mean the same method.
        for method in [_own(name)] if callable(name) else _expand(name.strip()):
            if callable(name) and method.name in found:
                raise UsageError(f"two functions are named {method.name!r}")
            found.setdefault(method.name, method)
    return tuple(found.values())


def with_reference(methods: Sequence[Method]) -> tuple[tuple[Method, ...], Exact]:
    """Return the methods, with optsched's own solver among them, and the reference.

    The reference provides the bound that all methods are measured against. It is our own solver
    with the longest limit, which is added if it was not requested.
    """
    ours = [m for m in methods if isinstance(m, Exact) and m.is_ours]
    if not ours:
        ours = [Exact(OUR_METHOD)]
        methods = [*methods, *ours]
    # A solver with a limit of its own is not the reference if one runs with the full limit.
    plain = [m for m in ours if m.seconds is None]
    best = plain[0] if plain else max(ours, key=lambda m: m.seconds or 0.0)
    return tuple(methods), best


def _own(function: OwnMethod) -> Heuristic:
    name = getattr(function, "__name__", type(function).__name__)
    if ORDERINGS.get(name) is function:
        return Heuristic(name, ordering=name)
    # A new function under an old name would take over that method's column.
    if name in _universe(pairs=False):
        raise UsageError(f"a method named {name!r} already exists; give the function another name")
    return Heuristic(name, ordering=name, function=function)


def _expand(name: str) -> Iterator[Method]:
    if name in groups():
        yield from map(_heuristic_or_solver, groups()[name])
    # Before patterns, as a path may contain a star.
    elif name.startswith("plan:") or "=" in name:
        yield _plan_file(name)
    elif any(c in name for c in "*?["):
        matches = [x for x in _universe(pairs="+" in name) if fnmatchcase(x, name)]
        if not matches:
            raise UsageError(f"no method matches {name!r}")
        yield from map(_heuristic_or_solver, matches)
    else:
        yield _heuristic_or_solver(name)


def groups() -> dict[str, list[str]]:
    """Return the names of groups of methods, each with its members."""
    return {
        "all": [*ORDERINGS, *PACKINGS, OUR_METHOD],
        "all-orderings": list(ORDERINGS),
        "all-packings": list(PACKINGS),
        "all-pairs": [f"{o}+{p}" for o in ORDERINGS for p in PACKINGS],
        "all-recorded": list(RECORDED),
        "all-solvers": list(SOLVERS),
    }


def methods() -> dict[str, tuple[str, ...]]:
    """Return the names of all methods that :func:`optsched.compare_methods` takes, by kind.

    An ordering and a packing make a pair, `lpmf+greedy_by_size`. The file of a graph may record
    the orders of its framework.

    Examples
    --------
    >>> from optsched import methods
    >>> list(methods()), methods()["solvers"]
    (['orderings', 'packings', 'recorded', 'solvers'], ('optsched', 'cpsat', 'milp', 'heuristics'))
    """
    load_plugins()
    return {
        "orderings": tuple(ORDERINGS),
        "packings": tuple(PACKINGS),
        "recorded": tuple(RECORDED),
        "solvers": SOLVERS,
    }


def _universe(*, pairs: bool) -> list[str]:
    if pairs:
        return [f"{o}+{p}" for o in _orders() for p in PACKINGS]
    return [*ORDERINGS, *PACKINGS, *RECORDED, *SOLVERS]


def _orders() -> list[str]:
    return [*ORDERINGS, *RECORDED]


def _plan_file(name: str) -> PlanFile:
    label, _, path = ("", "", name[5:]) if name.startswith("plan:") else name.partition("=")
    if not path.strip() or (not label.strip() and "=" in name and not name.startswith("plan:")):
        raise UsageError(f"expected plan:PATH or NAME=PATH for a plan from a file, got {name!r}")
    if not Path(path.strip()).exists():
        raise UsageError(f"{path.strip()}: plan file not found")
    return PlanFile(label.strip() or name, path.strip())


def _heuristic_or_solver(name: str) -> Method:
    if name in PACKINGS:
        return Heuristic(name, packing=name)
    ordering, _, packing = name.partition("+")
    # `name:parameter` is an ordering made for a parameter, or a solver with seconds.
    base, colon, parameter = ordering.partition(":")
    make = PARAMETERS.get(base) if colon else None
    is_order = make is not None or ordering in _orders()
    if packing and not is_order:
        raise _unknown(ordering, _orders(), f"ordering {ordering!r} in {name!r}")
    if packing and packing not in PACKINGS:
        raise _unknown(packing, [*PACKINGS], f"packing {packing!r} in {name!r}")
    if is_order:
        function = None if make is None else make(parameter)
        return Heuristic(name, ordering, packing or None, function)
    if base in SOLVERS:
        engine = None if base == OUR_METHOD else Engine(base)
        return Exact(name, engine, _seconds(parameter, name) if colon else None)
    raise _unknown(name, [*groups(), *_universe(pairs=False)], f"method {name!r}")


def _seconds(text: str, name: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise UsageError(f"method {name!r}: expected a positive number of seconds, got {text!r}")
    return seconds


def _unknown(name: str, known: Sequence[str], what: str) -> UsageError:
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    ask = "did you mean one of" if near else "known are"
    return UsageError(f"unknown {what}; {ask}: {', '.join(near or known)}")
