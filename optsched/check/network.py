"""A graph as the checker of certificates reads it: ops, holders of buffers, known precedences.

Notation. A *state* is a set of ops that contains the predecessors of its members; `M(D)` are the
bytes live after exactly the ops of state `D` have ended: those born before the first op or at an
op of `D`, less each buffer all of whose *holders* (ops that read, use or write it or a view of it)
are in `D`. While op `v` runs from state `D`, `M(D)` and what is born at `v` are live, in-place less
the most bytes that `v` can write into inputs whose other holders are all in `D`.

Example: `p` makes `a` (4 bytes); `q` reads `a` and makes the output `b` (6 bytes). `M({}) = 0`,
`M({p}) = 4` and `M({p, q}) = 6`. While `q` runs from the state {p}, 4 + 6 = 10 bytes are live.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

from optsched.check.inplace import sharable_pairs
from optsched.check.lives import maker, touched
from optsched.errors import PlanError
from optsched.model.graph import Graph


@dataclass(frozen=True, slots=True)
class Flow:
    """Proof of bytes live at an op in every order: freeing a buffer costs the ops needed for it.

    The bytes that a buffer sends to the op that makes it may be left out if they are the maximum.
    """

    releases: tuple[tuple[int, int, int], ...] = ()
    """`(buffer, op, bytes)`: from a buffer to an op that holds it."""
    passes: tuple[tuple[int, int, int], ...] = ()
    """`(op, predecessor, bytes)`: on to an op that must run before."""


@dataclass(frozen=True, slots=True)
class Cases:
    """Bytes live at an op of an in-place graph, whether or not it may overwrite an input."""

    input: int
    """Id of the input's root."""
    free: Flow | Cases
    """Flow for the case that its other users have ended."""
    held: Flow | Cases
    """Flow for the case that another holder is left, so that the op does not write into the
    input."""


Forced: TypeAlias = Flow | Cases
"""Proof that an op does not fit. It may make all in-place writes that no case rules out."""


class Network:
    """A graph, with the precedences known for orders within a budget."""

    def __init__(self, graph: Graph) -> None:
        n = len(graph.ops)
        self.graph = graph
        self.size = [buffer.size for buffer in graph.buffers]
        self.before = [set(row) for row in graph.predecessors]
        self.after: list[set[int]] = [set() for _ in range(n)]
        for v, row in enumerate(self.before):
            for u in row:
                self.after[u].add(v)
        self.born = [0] * n
        self.initial = self.kept = 0
        holders: dict[int, set[int]] = {}
        for v, roots in enumerate(touched(graph)):
            for b in roots:
                holders.setdefault(b, set()).add(v)
        self.holders: dict[int, set[int]] = {}
        self.makers: dict[int, int] = {}
        for b, buffer in enumerate(graph.buffers):
            # Views share the bytes of their root, and bytes of the caller are not planned.
            if graph.roots[b] != b or buffer.external or not buffer.size:
                continue
            op = maker(graph, b)
            if op is not None:
                self.born[op] += buffer.size
            # An input that no op holds is released before the first step.
            elif graph.kept[b] or b in holders:
                self.initial += buffer.size
            if graph.kept[b]:
                self.kept += buffer.size
            elif b in holders:
                self.holders[b] = holders[b]
                # The flow of such a buffer to its maker may be left out of a certificate.
                if op in holders[b]:
                    self.makers[b] = op
        self.pairs = sharable_pairs(graph)
        self.parts: dict[int, tuple[int, ...]] = {}
        """Ops that run one right after the other, by each of them."""

    @cached_property
    def held(self) -> list[list[int]]:
        """The buffers that each op holds."""
        held: list[list[int]] = [[] for _ in self.born]
        for b, row in self.holders.items():
            for v in row:
                held[v].append(b)
        return held

    def add(self, first: int, second: int) -> bool:
        """Add a precedence; return True if it was not known before."""
        if first in self.before[second]:
            return False
        self.before[second].add(first)
        self.after[first].add(second)
        return True

    def remove(self, first: int, second: int) -> None:
        """Take back a precedence that was added."""
        self.before[second].remove(first)
        self.after[first].remove(second)

    def join(self, parts: Sequence[Sequence[int]]) -> None:
        """Let ops run as a chain of parts, each part without interruption."""
        for part in parts:
            self.parts.update(dict.fromkeys(part, tuple(part)))
        # Ops follow one another along all parts: that is the order of the chain.
        for first, second in pairwise(v for part in parts for v in part):
            self.add(first, second)

    def least_live(self, ended: set[int], later: set[int], flow: Flow) -> int:
        """Return a lower bound on `M(D)` for `D` that holds all of `ended` and nothing of `later`.

        Of the buffers without a holder in `later` let `x(b)` bytes flow out of `b` to its holders,
        on to their predecessors, and be absorbed: `b` sends out at most its size, an op outside
        `ended` absorbs at most what is born at it, one of `ended` nothing, and none absorbs less
        than 0. What `D` frees has its holders in `D`, and so all that their flow reaches: what is
        born at the ops of `D` beyond `ended` is at least what flows out of the buffers that `D`
        frees. Hence freeing them is paid for, and not freeing the others saves at least as much:

            M(D) >= initial + born at `ended` - sizes of all such buffers + sum of x

        A flow need not say what buffers send to the op that makes them: as much as they have left
        and it can absorb.
        """
        # A buffer with a holder in `later` is live in every such state, with any flow.
        free = {b for b, holders in self.holders.items() if holders.isdisjoint(later)}
        sizes = {b: self.size[b] for b in free}
        # What each buffer can still send, and what each op has absorbed; ops that have ended
        # absorb 0.
        left, absorbed = dict(sizes), dict.fromkeys(ended, 0)
        for b, u, amount in flow.releases:
            if b not in free or u not in self.holders[b] or amount <= 0:
                text = f"{self.buffer_name(b)} can send no bytes to {self.op_name(u)}"
                raise PlanError(f"flow: buffer {text}")
            left[b] -= amount
            absorbed[u] = absorbed.get(u, 0) + amount
        for u, w, amount in flow.passes:
            if not 0 <= u < len(self.before) or w not in self.before[u] or amount <= 0:
                text = f"{self.op_name(u)} can pass no bytes on to {self.op_name(w)}"
                raise PlanError(f"flow: op {text}")
            # An op passes on what it received, so its balance falls; it must not end below 0.
            absorbed[u] = absorbed.get(u, 0) - amount
            absorbed[w] = absorbed.get(w, 0) + amount
        for b, u in self.makers.items():
            # The part of the flow that every certificate would repeat: from a buffer to its own
            # maker.
            if b in free and u not in ended:
                implied = max(0, min(left[b], self.born[u] - absorbed.get(u, 0)))
                left[b] -= implied
                absorbed[u] = absorbed.get(u, 0) + implied
        for b, rest in left.items():
            if rest < 0:
                name = self.buffer_name(b)
                raise PlanError(f"flow: buffer {name} sends {sizes[b] - rest} bytes, has fewer")
        # An op that may still run absorbs at most what it makes; one that has ended made it
        # before.
        for u, amount in absorbed.items():
            if not 0 <= amount <= (0 if u in ended else self.born[u]):
                raise PlanError(f"flow: op {self.op_name(u)} cannot absorb {amount} bytes")
        # `left` is what no flow pays for: the bytes that freeing all these buffers could still
        # save.
        return self.initial + sum(self.born[u] for u in ended) - sum(left.values())

    def op_name(self, v: int) -> str:
        """Return the name of an op for messages; the id may be invalid."""
        return repr(self.graph.ops[v].name) if 0 <= v < len(self.graph.ops) else str(v)

    def buffer_name(self, b: int) -> str:
        """Return the name of a buffer for messages; the id may be invalid."""
        return repr(self.graph.buffers[b].name) if 0 <= b < len(self.graph.buffers) else str(b)


def reach(neighbors: Sequence[Iterable[int]], start: Iterable[int]) -> set[int]:
    """Return the start and all that is reached from it."""
    found = set(start)
    stack = list(found)
    while stack:
        for w in neighbors[stack.pop()]:
            if w not in found:
                found.add(w)
                stack.append(w)
    return found
