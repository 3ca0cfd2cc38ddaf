"""Pieces of a graph that every order runs one after another, as masks of Python's integers.

In a state that every order passes (:func:`optsched.ordering.problem.forced_cuts`) the ops that have
run and the live bytes are known. The ops between two such states are a *piece*. A search that
stores few states, but compares sets of ops often, works on one piece at a time, with sets as
integers. The ops of a piece are numbered by their step in a baseline.

Example: ops a to f, and every order runs a, b and c (in some order) before d, e and f. The pieces
are {a, b, c} and {d, e, f}, each with masks of three bits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.ordering.inplace import unpack_savings
from optsched.ordering.problem import OrderingProblem, as_lists, build_problem, forced_cuts


@dataclass(frozen=True, slots=True)
class Piece:
    """Ops between two states that every order passes, numbered by their step in the baseline."""

    ops: tuple[int, ...]
    """Op ids in the sequence of the baseline."""
    live: int
    """Bytes live before the first of them."""
    needs: tuple[int, ...]
    """By op: mask of the ops that must have ended before it starts."""
    after: tuple[tuple[int, ...], ...]
    """By op: its direct successors."""
    rise: tuple[int, ...]
    delta: tuple[int, ...]
    """`rise` and `delta`: as for :class:`optsched.ordering.problem.OrderingProblem`."""
    releases: tuple[tuple[tuple[int, int], ...], ...]
    """By op: shared buffers that it may release, each as a mask of its users and its bytes."""
    savings: tuple[tuple[tuple[int, int], ...], ...]
    """By op: bytes that it may save, each with the mask of ops that must have ended."""

    def running(self, i: int, done: int, live: int) -> int:
        """Return the live bytes while an op runs."""
        spared = max((x for x, users in self.savings[i] if not users & ~done), default=0)
        return live + self.rise[i] - spared

    def left(self, i: int, done: int, live: int) -> int:
        """Return the live bytes once an op has ended; `done` has it already."""
        waiting = ~done
        released = sum(size for users, size in self.releases[i] if not users & waiting)
        return live + self.delta[i] - released

    def ready(self, done: int) -> int:
        """Return the ops that may run, as a mask."""
        return sum(
            1 << i for i, needs in enumerate(self.needs) if not done >> i & 1 and not needs & ~done
        )


def split(graph: Graph, baseline: Sequence[int]) -> list[Piece]:
    """Return the parts of a graph that can be ordered apart, first to run first."""
    problem = build_problem(graph.arrays)
    order = _legal(graph, baseline)
    turn = np.argsort(baseline)
    # A cut of the order is one of the baseline only if the same ops come before it there.
    latest = np.append(-1, np.maximum.accumulate(turn[order]))
    # If the baseline is not a valid order, the ops of a piece may be elsewhere in it.
    cuts = [cut for cut in forced_cuts(problem, order).tolist() if latest[cut] == cut - 1]
    lists = _Lists(problem, baseline)
    live = timeline(graph, order).before.tolist()
    return [_make_piece(lists, start, end, live[start]) for start, end in pairwise(cuts)]


def _legal(graph: Graph, baseline: Sequence[int]) -> list[int]:
    """Return a valid order: of the ops that can run, always the first in the baseline."""
    turn = {v: at for at, v in enumerate(baseline)}
    missing = [len(before) for before in graph.predecessors]
    heap = [(turn[v], v) for v, count in enumerate(missing) if not count]
    heapify(heap)
    order = []
    while heap:
        order.append(heappop(heap)[1])
        for v in graph.arrays.succ.row(order[-1]).tolist():
            missing[v] -= 1
            if not missing[v]:
                heappush(heap, (turn[v], v))
    return order


class _Lists:
    """Rows of an ordering problem as lists of Python integers, and the turns of a baseline.

    The turns of a buffer's users are sorted, so that a piece finds its own without a look at the
    users in other pieces.
    """

    def __init__(self, problem: OrderingProblem, baseline: Sequence[int]) -> None:
        self.baseline = baseline
        self.turn = np.argsort(baseline).tolist()
        self.pred = as_lists(problem.pred_ptr, problem.pred)
        self.succ = as_lists(problem.succ_ptr, problem.succ)
        self.read = as_lists(problem.read_ptr, problem.read)
        users = as_lists(problem.user_ptr, problem.user)
        self.user_turns = [sorted(self.turn[v] for v in row) for row in users]
        self.rise, self.delta = problem.rise.tolist(), problem.delta.tolist()
        self.size = problem.size.tolist()
        self.savings = unpack_savings(problem.savings)
        self.saving_ptr = problem.saving_ptr.tolist()


def _make_piece(lists: _Lists, start: int, end: int, live: int) -> Piece:
    """Return the piece of the ops with turns `start` to `end - 1`; earlier ones are done."""
    ops, turn = lists.baseline[start:end], lists.turn

    def mask(b: int) -> int | None:
        """Return the mask of a buffer's users not done; None if one runs after this piece."""
        # Sorted turns: one after the piece means that the buffer is not released in it.
        turns = lists.user_turns[b]
        if turns and turns[-1] >= end:
            return None
        return _mask([at - start for at in turns[bisect_left(turns, start) :]])

    users = {b: mask(b) for b in {b for v in ops for b in lists.read[v]}}
    releases, savings = [], []
    for i, v in enumerate(ops):
        ends = [(users[b], lists.size[b]) for b in lists.read[v]]
        releases.append(tuple((who, size) for who, size in ends if who is not None))
        savings.append(tuple(_savings_of(lists.savings[v], users, 1 << i)))
    return Piece(
        ops=tuple(ops),
        live=live,
        needs=tuple(
            _mask([turn[u] - start for u in lists.pred[v] if turn[u] >= start]) for v in ops
        ),
        after=tuple(tuple(turn[w] - start for w in lists.succ[v] if turn[w] < end) for v in ops),
        rise=tuple(lists.rise[v] for v in ops),
        delta=tuple(lists.delta[v] for v in ops),
        releases=tuple(releases),
        savings=tuple(savings),
    )


def _mask(numbers: Sequence[int]) -> int:
    """Return the mask of some ops; in time proportional to its bits, however many there are."""
    found = bytearray(max(numbers, default=0) // 8 + 1)
    for i in numbers:
        found[i >> 3] |= 1 << (i & 7)
    return int.from_bytes(found, "little")


def _savings_of(
    savings: Sequence[tuple[int, frozenset[int]]], users: dict[int, int | None], own: int
) -> Iterator[tuple[int, int]]:
    """Yield the savings that are possible in this piece, with the ops that must have ended."""
    for value, needs in savings:
        ended = 0
        for b in needs:
            who = users[b]
            # A buffer with a user after this piece is not available to any op of the piece.
            if who is None:
                break
            ended |= who & ~own
        else:
            yield value, ended
