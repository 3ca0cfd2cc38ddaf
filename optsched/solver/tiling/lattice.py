"""Positions of a program: sets of ops that have run, and what lives between two ops.

A chain has one position per op; ops that may run in either sequence add positions. A graph with too
many keeps to one order.

Example: after `a`, ops `b` and `c` may run in either sequence. The positions are none, a, ab, ac
and abc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from optsched.model.rows import Rows
from optsched.solver.tiling.candidates import users_of

MOST_POSITIONS = 4_000
"""A graph with more positions keeps to one order."""


class Span(NamedTuple):
    """A buffer with the ops that it waits for; sets of ops are bits."""

    buffer: int
    size: int
    made: int
    """The op that makes it; 0 for an input."""
    users: int
    kept: bool
    least: int
    """Bytes at least when some users have run, which may leave rows that no other one reads."""
    waiting: int
    """Bytes at least before any user has run: rows without a reader may be dead."""

    def at(self, position: int) -> int:
        """Return the bytes that are live at a position, at least."""
        return self.least if self.users & position else self.waiting


@dataclass(frozen=True)
class Lattice:
    """Sets of ops as numbers with one bit per op."""

    rows: Rows
    """The graph with row maps."""
    order: tuple[int, ...] = ()
    """The order to keep to; empty for any."""
    place: dict[int, int] = field(init=False)
    """Position of each op in the order in which ops are listed."""
    _ready: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        listed = self.order or range(len(self.rows.graph.ops))
        object.__setattr__(self, "place", {v: k for k, v in enumerate(listed)})

    @cached_property
    def needs(self) -> list[int]:
        """By op, the ops that must run before it: its predecessors, or all of the order."""
        found = [0] * len(self.rows.graph.ops)
        for v in self.order or range(len(found)):
            for u in self.rows.graph.predecessors[v]:
                found[v] |= found[u] | 1 << u
        for u, v in zip(self.order, self.order[1:], strict=False):
            found[v] |= found[u] | 1 << u
        return found

    @cached_property
    def positions(self) -> tuple[int, ...] | None:
        """The positions, those of fewer ops first; None if there are too many."""
        level, found = {0: None}, list[int]()
        while level:
            found += level
            if len(found) > MOST_POSITIONS:
                return None
            grown: dict[int, None] = {}
            for position in level:
                grown.update(dict.fromkeys(position | 1 << v for v in self.ready(position)))
            level = grown
        return tuple(found)

    def ready(self, position: int) -> list[int]:
        """Return the ops that can run next."""
        if position not in self._ready:
            rest = ~position
            rows = enumerate(self.needs)
            self._ready[position] = [v for v, x in rows if not x & rest and rest >> v & 1]
        return self._ready[position]

    def starts(self, stage: Sequence[int]) -> list[int]:
        """Return the positions at which a stage can run."""
        own, first = 0, 0
        for v in stage:
            own |= 1 << v
            first |= self.needs[v]
        first &= ~own
        if any(first >> v & 1 and self.needs[v] & own for v in range(first.bit_length())):
            # An op outside must run between ops of the stage.
            return []
        level, found = {first: None}, dict[int, None]()
        while level:
            found.update(level)
            grown: dict[int, None] = {}
            for position in level:
                for v in self.ready(position):
                    if not own >> v & 1:
                        grown[position | 1 << v] = None
            level = grown
        return list(found)

    @cached_property
    def spans(self) -> list[Span]:
        """The buffers in the slab that are ever live."""
        graph, users = self.rows.graph, users_of(self.rows)
        found = []
        for b, buffer in enumerate(graph.buffers):
            mask = sum(1 << v for v in users[b])
            maker = graph.producers[b]
            made = 0 if maker is None else 1 << maker
            least = buffer.size if graph.kept[b] else self.rows.least_bytes[b]
            waiting = buffer.size if graph.kept[b] else self.rows.waiting_bytes[b]
            lives = mask or made or graph.kept[b]
            if graph.roots[b] == b and not buffer.external and buffer.size and lives:
                found.append(Span(b, buffer.size, made, mask, graph.kept[b], least, waiting))
        return found

    @cached_property
    def partial(self) -> list[Span]:
        """The buffers with rows that some users leave unread."""
        return [span for span in self.spans if span.size > span.least]

    def live(self, position: int) -> int:
        """Return the bytes live between two ops, at least."""
        return sum(
            span.at(position)
            for span in self.spans
            if span.made & ~position == 0 and (span.kept or span.users & ~position)
        )

    def whole(self, v: int, position: int, live: int) -> int:
        """Return the bytes live while an op runs as it is, at a position with `live` bytes."""
        graph = self.rows.graph
        own = (graph.buffers[b] for b in graph.ops[v].writes)
        # It reads all rows, also those that others leave unread.
        more = sum(span.size - span.at(position) for span in self.partial if span.users >> v & 1)
        return live + more + sum(buffer.size for buffer in own if not buffer.external)

    def unread(self, ops: int, position: int) -> int:
        """Return the bytes of rows that may die in a stage, though their buffers live on."""
        rest = ~(position | ops)
        return sum(
            span.waiting - span.least
            for span in self.partial
            if span.users & ops
            and span.users & rest
            and not (span.users & position or span.made & ops)
        )

    def listed(self, ops: int) -> list[int]:
        """Return ops, given as bits, in the order in which ops are listed."""
        return [v for v in self.place if ops >> v & 1]
