"""Order rules: constraints on the order of ops, such as ops that run first or in a given sequence.

Every rule is a set of precedences. An order keeps the rules if and only if it is an order of the
graph that :meth:`OrderRules.apply` returns, in which the precedences are control edges. Searches,
bounds, packings and certificates of that graph therefore hold under the rules, and no other module
needs to know about them.

* Ops pinned first run before all other ops, in any order among themselves. The rule adds an edge
  from each pinned op that no pinned op waits for to each other op that does not wait for an
  unpinned op. Without additional ops, no smaller set of edges expresses the rule. Ops pinned last
  are the mirror image.
* The ops of a group run in the order in which the group lists them; the rule is a chain of edges.
  Examples are the collectives of a distributed program, which all its processes must start in the
  same sequence.

The distance of an order from a *baseline* is the number of moved ops: `n` minus the length of the
longest common subsequence of the two orders. This is the minimum number of ops that must be taken
out of the baseline and inserted elsewhere to obtain the order. For example, `b c d a` moves one op
relative to `a b c d`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, SupportsIndex

from optsched.errors import GraphError, PlanError, UsageError
from optsched.model.arrays import Integers
from optsched.model.graph import Graph
from optsched.model.steps import order_ids, steps_of
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import parse_integer

MAX_EDGES = 1_000_000
"""Maximum number of edges that pinned ops may require."""


def _listed(given: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(
            f"order rules must be lists of names, such as OrderRules(first=['a']), got {given!r}"
        )
    return tuple(given)


def _names(given: Iterable[str]) -> tuple[str, ...]:
    names = _listed(given)
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"order rules must name ops by strings, got {name!r}")
    return names


@keywords
@dataclass(frozen=True, slots=True, init=False)
class OrderRules:
    """Constraints on orders, stated by the names of ops.

    Parameters
    ----------
    first
        Ops that run before all others.
    last
        Ops that run after all others.
    groups
        Ops that run in the listed order; other ops may run between them.

    Raises
    ------
    UsageError
        If an op is named twice in a rule, or is pinned first and last.

    Examples
    --------
    >>> from optsched import GraphBuilder, OrderRules
    >>> build = GraphBuilder("pair")
    >>> build.op("p", writes={"a": 9})
    >>> build.op("q", writes={"b": 1})
    >>> OrderRules(first=["q"]).apply(build.build()).predecessors
    ((1,), ())
    """

    first: tuple[str, ...]
    last: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]

    def __init__(
        self,
        first: Iterable[str] = (),
        last: Iterable[str] = (),
        groups: Iterable[Iterable[str]] = (),
    ) -> None:
        put = object.__setattr__
        put(self, "first", _names(first))
        put(self, "last", _names(last))
        put(self, "groups", tuple(map(_names, _listed(groups))))
        self._refuse_repeats()

    def _refuse_repeats(self) -> None:
        for what, names in (
            ("ops pinned first or last", (*self.first, *self.last)),
            *(("a group of ops", group) for group in self.groups),
        ):
            twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
            if twice is not None:
                raise UsageError(f"{what}: op {twice!r} is named twice")

    def __bool__(self) -> bool:
        # A group of one op restricts nothing.
        return bool(self.first or self.last or any(len(group) > 1 for group in self.groups))

    @classmethod
    def match(
        cls,
        graph: Graph,
        *,
        first: Iterable[str] = (),
        last: Iterable[str] = (),
        groups: Iterable[Iterable[str]] = (),
        baseline: Sequence[int] | None = None,
    ) -> OrderRules:
        """Return rules for ops given by name or by pattern, such as `all-reduce*`.

        Parameters
        ----------
        graph
            Graph that has the ops.
        first, last, groups
            As in :class:`OrderRules`, with patterns.
        baseline
            Order whose sequence the ops of each group keep (default: the order of the graph).

        Raises
        ------
        UsageError
            If a pattern does not match any op, or two rules contradict each other.
        """
        listed = range(len(graph.ops)) if baseline is None else baseline
        names = [graph.ops[v].name for v in listed]
        return cls(
            _matching(names, first),
            _matching(names, last),
            tuple(_matching(names, group) for group in groups),
        )

    def apply(self, graph: Graph) -> Graph:
        """Return the graph with control edges that enforce the rules.

        Raises
        ------
        UsageError
            If a rule names an op that is not in the graph, or ops are on several streams.
        GraphError
            If no order keeps the rules, or they require too many edges.
        """
        # Without rules the very same graph, with all that was computed for it.
        if not self:
            return graph
        # Between streams a control edge is a sync, which is more than a rule about the order.
        graph.refuse_streams("order rules")
        edges = {*_barrier(graph, self._ids(graph, self.first), "first")}
        edges |= {*_barrier(graph, self._ids(graph, self.last), "last")}
        for group in self.groups:
            edges |= {*pairwise(self._ids(graph, group))}
        waits: dict[int, list[int]] = {}
        # Sorted, so that equal rules make equal graphs.
        for before, behind in sorted(edges):
            if before not in graph.ops[behind].control:
                waits.setdefault(behind, []).append(before)
        ops = tuple(
            replace(op, control=(*op.control, *waits[v])) if v in waits else op
            for v, op in enumerate(graph.ops)
        )
        try:
            return replace(graph, ops=ops)
        except GraphError as error:
            raise GraphError(f"no order keeps the order rules: {error}") from None

    @staticmethod
    def _ids(graph: Graph, names: Sequence[str]) -> list[int]:
        for name in names:
            if name not in graph.op_ids:
                raise UsageError(
                    f"order rules name op {name!r}, which is not in graph {graph.name!r}"
                )
        return [graph.op_ids[name] for name in names]


NO_RULES = OrderRules()
"""Rules that every order keeps."""


def _matching(names: Sequence[str], patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are given or match a pattern, each once, in the order of `names`."""
    known, chosen = set(names), set()
    for pattern in patterns:
        # A name that is an op counts as such, even if it contains characters of a pattern.
        found = {pattern} & known or {name for name in names if fnmatchcase(name, pattern)}
        if not found:
            raise UsageError(f"order rules name op {pattern!r}, but no op has that name")
        chosen |= found
    return tuple(name for name in names if name in chosen)


def _barrier(graph: Graph, pinned: Sequence[int], end: str) -> list[tuple[int, int]]:
    """Return the edges that keep pinned ops at one end of every order."""
    others = set(range(len(graph.ops))).difference(pinned)
    early, late = (set(pinned), others) if end == "first" else (others, set(pinned))
    before = graph.predecessors
    # Nothing pinned first may wait for an op that is not.
    for v in sorted(early):
        for u in before[v]:
            if u in late:
                _refuse_pin(graph, u, v, end)
    # Edges from the last pinned ops to the first others imply all others.
    awaited = {u for v in early for u in before[v]}
    ends = sorted(early - awaited)
    starts = sorted(v for v in late if late.isdisjoint(before[v]))
    if len(ends) * len(starts) > MAX_EDGES:
        count = f"{len(ends)} x {len(starts)}"
        raise GraphError(f"ops pinned {end} need {count} edges, more than {MAX_EDGES}")
    return [(u, v) for u in ends for v in starts] if pinned else []


def _refuse_pin(graph: Graph, u: int, v: int, end: str) -> None:
    """Raise an error: `u` must run before `v`, which contradicts the pin of one of them."""
    names = graph.ops[v].name, graph.ops[u].name
    pinned, other = names if end == "first" else names[::-1]
    verb = "needs" if end == "first" else "is needed by"
    raise GraphError(f"op {pinned!r} is pinned {end}, but {verb} op {other!r}, which is not")


@dataclass(frozen=True, slots=True)
class Baseline:
    """An order that other orders must stay close to."""

    order: tuple[int, ...]
    """Op ids: a permutation."""
    max_moved: int | None = None
    """Maximum number of ops that may be moved, or None for any number."""
    fewest_moves: bool = False
    """True to prefer, among plans that are otherwise equally good, one that moves the fewest
    ops.
    """

    def moved(self, order: Sequence[int]) -> int:
        """Return the number of ops that an order moves."""
        return moved_ops(order, self.order)

    def allows(self, order: Sequence[int]) -> bool:
        """Return True if an order, or the beginning of an order, moves at most `max_moved` ops."""
        return self.max_moved is None or self.moved(order) <= self.max_moved


def make_baseline(
    graph: Graph,
    order: Integers | Sequence[str] | None,
    max_moved: SupportsIndex | None = None,
    fewest_moves: bool = False,
) -> Baseline | None:
    """Return a baseline given by ids or names of all ops, or None if no baseline is requested.

    Raise `UsageError` if the order is not a permutation of the ops or breaks a dependency, or
    `max_moved` is not an integer of at least 0.

    `graph`: the graph without order rules; the baseline need not keep the rules. `order`: op ids or
    names (default: the order of the graph, if another argument requires a baseline). `max_moved`:
    maximum number of ops that may be moved, or None. `fewest_moves`: True to prefer plans that move
    fewer ops.
    """
    if max_moved is not None:
        max_moved = parse_integer("max_moved", max_moved, 0)
    n = len(graph.ops)
    if order is None:
        asked = max_moved is not None or fewest_moves
        return Baseline(tuple(range(n)), max_moved, fewest_moves) if asked else None
    if not isinstance(order, Iterable) or not all(
        isinstance(v, str | SupportsIndex) for v in order
    ):
        raise UsageError("baseline must be a list of op names or ids")
    try:
        ids = order_ids(graph, list(order))
        steps_of(graph, ids)
    except PlanError as error:
        raise UsageError(f"the baseline must be an order of all ops: {error}") from None
    return Baseline(tuple(ids.tolist()), max_moved, fewest_moves)


def ascending_ends(steps: Iterable[int]) -> list[int]:
    """Return, for each length from 1 on, the least end of an ascending subsequence of that length.

    The length of the list is that of the longest ascending subsequence. To extend the sequence
    later, no other information is needed.
    """
    ends: list[int] = []
    for step in steps:
        # The classic patience rule: replace the first end that is not smaller.
        length = bisect_left(ends, step)
        ends[length : length + 1] = [step]
    return ends


def kept_ops(order: Sequence[int], baseline: Sequence[int]) -> list[int]:
    """Return a longest common subsequence of two orders of the same ops: the ops not moved.

    Each op is in both orders once, so this is a longest ascending subsequence of the steps in the
    baseline. It is found in `O(n log n)`.
    """
    step = {v: at for at, v in enumerate(baseline)}
    ends: list[int] = []
    last: list[int] = []
    back: dict[int, int | None] = {}
    for v in order:
        length = bisect_left(ends, step[v])
        back[v] = last[length - 1] if length else None
        ends[length : length + 1] = [step[v]]
        last[length : length + 1] = [v]
    kept: list[int] = []
    at = last[-1] if last else None
    while at is not None:
        kept.append(at)
        at = back[at]
    return kept[::-1]


def moved_ops(order: Sequence[int], baseline: Sequence[int]) -> int:
    """Return the number of ops that an order, or its beginning, moves relative to a baseline."""
    step = {v: at for at, v in enumerate(baseline)}
    return len(order) - len(ascending_ends(step[v] for v in order))
