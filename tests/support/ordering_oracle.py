"""Brute force over all downsets, from the ops and buffers of a graph and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from optsched.model.graph import Graph


@dataclass
class Oracle:
    """Live bytes of every downset of a small graph; downsets are bit masks."""

    graph: Graph

    def __post_init__(self) -> None:
        graph = self.graph
        self.full = (1 << len(graph.ops)) - 1
        self.before = [sum(1 << u for u in row) for row in graph.predecessors]
        users: dict[int, int] = {}
        for v, op in enumerate(graph.ops):
            for b in (*op.reads, *op.uses, *op.writes):
                users[graph.roots[b]] = users.get(graph.roots[b], 0) | 1 << v
        self.spans: list[tuple[int, int, int | None]] = []
        for b, buffer in enumerate(graph.buffers):
            if buffer.alias_of is not None or buffer.external:
                continue
            maker = graph.producers[b] if buffer.birth is None else buffer.birth
            born = 0 if maker is None else 1 << maker
            last = None if graph.kept[b] else users.get(b, 0)
            if born or last != 0:
                self.spans.append((buffer.size, born, last))

    def live(self, done: int, running: int = 0) -> int:
        """Bytes live once `done` have ended, while the ops of `running` run."""
        started = done | running
        return sum(
            size
            for size, born, last in self.spans
            if born & ~started == 0 and (last is None or last & ~done)
        )

    @cached_property
    def downsets(self) -> list[int]:
        found, stack = {0}, [0]
        while stack:
            done = stack.pop()
            for v, need in enumerate(self.before):
                more = done | 1 << v
                if more not in found and need & ~done == 0:
                    found.add(more)
                    stack.append(more)
        return sorted(found, key=lambda done: (done.bit_count(), done))

    def least_peak(self) -> int:
        """The least peak over all orders."""
        best = {0: self.live(0)}
        for done in self.downsets:
            for v, need in enumerate(self.before):
                if done >> v & 1 or need & ~done:
                    continue
                peak = max(best[done], self.live(done, 1 << v))
                more = done | 1 << v
                best[more] = min(best.get(more, peak), peak)
        return best[self.full]

    def least_during(self, op: int, *, ended: int = 0, waiting: int = 0) -> int | None:
        """Return the least live bytes while an op runs, after some ops and before others.

        None if that is impossible.
        """
        need, bit = self.before[op] | ended, 1 << op
        return min(
            (
                self.live(done, bit)
                for done in self.downsets
                if need & ~done == 0 and not done & (bit | waiting)
            ),
            default=None,
        )
