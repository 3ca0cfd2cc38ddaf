"""What an order of ops is asked to keep: ops first or last, and groups in one sequence.

Such rules are precedences, and nothing else: an order keeps the rules if and only if it is an
order of the graph that :meth:`OrderRules.apply` returns, in which they are control edges. So every
search, bound, packing and certificate of that graph is one under the rules, and no stage knows of
them.

* Ops pinned first run before all ops that are not; among themselves they run as they may. From each
  of them that no other of them waits for there is an edge to each other op that waits for none of
  the rest: no set of edges without further ops says it with fewer. Ops pinned last are the mirror
  image.
* The ops of a group (the collectives of a distributed program, say, which all its processes must
  start in the same sequence) run in the sequence in which the group names them: a chain of edges.

How far an order is from a *baseline* is counted in ops moved: `n` less the length of the longest
common subsequence of the two. That many ops, and no fewer, must be taken out of the baseline and
put back in elsewhere to make the order of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from operator import index
from typing import Any, SupportsIndex

from optsched.errors import GraphError, UsageError
from optsched.model.arrays import Integers
from optsched.model.graph import Graph
from optsched.runtime.keywords import keywords

MAX_EDGES = 1_000_000
"""Pinned ops that ask for more edges are refused."""


def _listed(given: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(
            f"order rules are lists of names: write OrderRules(first=['a']), not {given!r}"
        )
    return tuple(given)


def _names(given: Iterable[str]) -> tuple[str, ...]:
    names = _listed(given)
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"order rules name ops by text, got {name!r}")
    return names


@keywords
@dataclass(frozen=True, slots=True, init=False)
class OrderRules:
    """Rules of an order, by the names of ops.

    Parameters
    ----------
    first, last
        Ops that run before, behind all others.
    groups
        Ops that run in this sequence, others between them or not.

    Raises
    ------
    UsageError
        If an op is named twice in a rule, or is to be first and last.
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
        """Return rules for ops given by name or by pattern (`all-reduce*`).

        A group keeps the sequence that its ops have in the baseline, the graph's own if None.

        Raises
        ------
        UsageError
            If a pattern names no op, or two rules contradict each other.
        """
        listed = range(len(graph.ops)) if baseline is None else baseline
        names = [graph.ops[v].name for v in listed]
        return cls(
            _matching(names, first),
            _matching(names, last),
            tuple(_matching(names, group) for group in groups),
        )

    def apply(self, graph: Graph) -> Graph:
        """Return the graph with control edges whose orders are those that keep the rules.

        Raises
        ------
        UsageError
            If an op is named that the graph does not have, or ops are on several streams.
        GraphError
            If no order keeps the rules, or they need too many edges.
        """
        if not self:
            return graph
        # There a control edge is more than a rule: one stream waits for the other.
        graph.refuse_streams("order rules")
        edges = {*_barrier(graph, self._ids(graph, self.first), "first")}
        edges |= {*_barrier(graph, self._ids(graph, self.last), "last")}
        for group in self.groups:
            edges |= {*pairwise(self._ids(graph, group))}
        waits: dict[int, list[int]] = {}
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
                raise UsageError(f"order rules name op {name!r}, which {graph.name!r} has not")
        return [graph.op_ids[name] for name in names]


NO_RULES = OrderRules()
"""Any order will do."""


def _matching(names: Sequence[str], patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are given or match, each once, in the sequence of `names`."""
    known, chosen = set(names), set()
    for pattern in patterns:
        found = {pattern} & known or {name for name in names if fnmatchcase(name, pattern)}
        if not found:
            raise UsageError(f"order rules name op {pattern!r}, and no op has that name")
        chosen |= found
    return tuple(name for name in names if name in chosen)


def _barrier(graph: Graph, pinned: Sequence[int], end: str) -> list[tuple[int, int]]:
    """Return the edges that keep pinned ops at one end of every order."""
    others = set(range(len(graph.ops))).difference(pinned)
    early, late = (set(pinned), others) if end == "first" else (others, set(pinned))
    before = graph.predecessors
    for v in sorted(early):
        for u in before[v]:
            if u in late:
                _refuse_pin(graph, u, v, end)
    awaited = {u for v in early for u in before[v]}
    ends = sorted(early - awaited)
    starts = sorted(v for v in late if late.isdisjoint(before[v]))
    if len(ends) * len(starts) > MAX_EDGES:
        count = f"{len(ends)} x {len(starts)}"
        raise GraphError(f"ops pinned {end} ask for {count} edges, more than {MAX_EDGES}")
    return [(u, v) for u in ends for v in starts] if pinned else []


def _refuse_pin(graph: Graph, u: int, v: int, end: str) -> None:
    """Say that `u` must run before `v`, and that the one of them that is pinned can not be."""
    names = graph.ops[v].name, graph.ops[u].name
    pinned, other = names if end == "first" else names[::-1]
    verb = "needs" if end == "first" else "is needed by"
    raise GraphError(f"op {pinned!r} is pinned {end}, but {verb} op {other!r}, which is not")


@dataclass(frozen=True, slots=True)
class Baseline:
    """An order that others are to stay near."""

    order: tuple[int, ...]
    """Op ids, a permutation."""
    max_moved: int | None = None
    """Ops that may be moved, or None for any number."""
    fewest_moves: bool = False
    """Whether, of all plans that are best otherwise, one that moves fewest ops is wanted."""

    def moved(self, order: Sequence[int]) -> int:
        """Return how many ops an order moves."""
        return moved_ops(order, self.order)

    def allows(self, order: Sequence[int]) -> bool:
        """Whether an order, or the beginning of one, moves no more ops than may be."""
        return self.max_moved is None or self.moved(order) <= self.max_moved


def make_baseline(
    graph: Graph,
    order: Integers | Sequence[str] | None,
    max_moved: SupportsIndex | None = None,
    fewest_moves: bool = False,
) -> Baseline | None:
    """Return a baseline as callers name it, by ids or names of all ops; None if none is asked for.

    Without an order it is the graph's own, where a baseline is needed. The graph is the one without
    order rules, which a baseline need not keep.

    Raises
    ------
    UsageError
        If the order is no permutation of the ops, runs one before another that it needs, or the
        number makes no sense.
    """
    if max_moved is not None:
        if not isinstance(max_moved, SupportsIndex) or index(max_moved) < 0:
            raise UsageError(f"max_moved must be an integer of at least 0, got {max_moved!r}")
        max_moved = index(max_moved)
    n = len(graph.ops)
    if order is None:
        asked = max_moved is not None or fewest_moves
        return Baseline(tuple(range(n)), max_moved, fewest_moves) if asked else None
    if not isinstance(order, Iterable) or not all(
        isinstance(v, str | SupportsIndex) for v in order
    ):
        raise UsageError("the baseline is no list of names or ids of ops")
    unknown = [v for v in order if isinstance(v, str) and v not in graph.op_ids]
    if unknown:
        raise UsageError(f"the baseline names op {unknown[0]!r}, which {graph.name!r} has not")
    ids = [graph.op_ids[v] if isinstance(v, str) else index(v) for v in order]
    odd = _oddity(graph, ids)
    if odd:
        raise UsageError(f"the baseline is no permutation of the ops: {odd}")
    _refuse_against_dependencies(graph, ids)
    return Baseline(tuple(ids), max_moved, fewest_moves)


def _refuse_against_dependencies(graph: Graph, order: Sequence[int]) -> None:
    step = {v: at for at, v in enumerate(order)}
    for v in order:
        for u in graph.predecessors[v]:
            if step[u] > step[v]:
                raise UsageError(
                    f"the baseline runs op {graph.ops[v].name!r} before op "
                    f"{graph.ops[u].name!r}, which it needs"
                )


def _oddity(graph: Graph, ids: Sequence[int]) -> str:
    """Return in words why ids are not those of all ops, each once; empty if they are."""
    seen: set[int] = set()
    for v in ids:
        if not 0 <= v < len(graph.ops):
            return f"there is no op number {v}"
        if v in seen:
            return f"it names op {graph.ops[v].name!r} twice"
        seen.add(v)
    missing = next((op.name for v, op in enumerate(graph.ops) if v not in seen), None)
    return "" if missing is None else f"it misses op {missing!r}"


def ascending_ends(steps: Iterable[int]) -> list[int]:
    """Return by length, from 1, the least end of an ascending subsequence of that length.

    The list is as long as the longest of them, and it is all that what comes later depends on.
    """
    ends: list[int] = []
    for step in steps:
        length = bisect_left(ends, step)
        ends[length : length + 1] = [step]
    return ends


def kept_ops(order: Sequence[int], baseline: Sequence[int]) -> list[int]:
    """Return a longest common subsequence of two orders of the same ops: the ops not moved.

    As each op is in both once, it is a longest ascending run of the steps in the baseline, found
    in `O(n log n)`.
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
    """Return how many ops an order, or the beginning of one, moves against a baseline."""
    step = {v: at for at, v in enumerate(baseline)}
    return len(order) - len(ascending_ends(step[v] for v in order))
