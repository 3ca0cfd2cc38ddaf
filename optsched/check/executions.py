"""Random executions of a plan on several streams, whose ops run side by side.

Each execution starts and ends ops at random, one at a time in each stream, whenever the streams'
orders and the syncs allow it. An op fills what it allocates when it starts, needs what it reads
from its start to its end, and may write until it ends. So bytes that two ops use at once are found
out by what one of them reads, as in :mod:`optsched.check.replay`.

Example: `p` and `r` run on two streams without a sync, and the plan lets their buffers share a
byte. In some execution `r` starts before the reader of `p`'s buffer has run; the reader then finds
the pattern of `r`.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from optsched.check.replay import Executor, Replayed
from optsched.model.graph import Graph

if TYPE_CHECKING:
    from optsched.model.plan import Plan


def replay_executions(graph: Graph, plan: Plan, *, runs: int = 20) -> Replayed:
    """Execute a plan several times, with different random choices.

    `graph`, `plan`: the order is a permutation of the ops that keeps all dependencies. `runs`:
    number of executions.

    The counts are of all executions together.

    Raises
    ------
    PlanError
        At the first read of a buffer that does not find the buffer's pattern, naming op, buffer
        and byte.
    """
    choose = Random(0)
    rows = [StreamExecutor(graph, plan, choose).run() for _ in range(runs)]
    return Replayed(sum(r.steps for r in rows), sum(r.reads for r in rows), rows[0].cells)


class StreamExecutor(Executor):
    """One execution; the streams take turns at random."""

    def __init__(self, graph: Graph, plan: Plan, choose: Random) -> None:
        super().__init__(plan.placed(graph), plan)
        self.choose = choose
        self.waiting: dict[str, list[int]] = {}
        # In reverse, as the next op of a stream is taken off the end.
        for v in reversed(plan.order):
            self.waiting.setdefault(graph.ops[v].stream, []).append(v)
        self.running: list[int] = []
        self.ended: set[int] = set()

    def run(self) -> Replayed:
        """Run all ops."""
        self._begin()
        # Some executions start every op that they can, others hardly run two ops at once.
        # Drawn once per execution, so that all degrees of overlap occur.
        eager = self.choose.random()
        while self.running or any(self.waiting.values()):
            ready = self._ready()
            if ready and (not self.running or self.choose.random() < eager):
                self._start(self.choose.choice(ready))
            else:
                self._finish(self.choose.choice(self.running))
        return self._end()

    def _ready(self) -> list[int]:
        """Return the ops that may start now: the next op of each idle stream."""
        busy = {self.graph.ops[v].stream for v in self.running}
        heads = [row[-1] for name, row in self.waiting.items() if row and name not in busy]
        return [v for v in heads if self.ended.issuperset(self.graph.predecessors[v])]

    def _start(self, v: int) -> None:
        op = self.graph.ops[v]
        self.waiting[op.stream].pop()
        self.running.append(v)
        for b in self.born[self.step[v]]:
            self._write(b)
        self._expect_operands(v, "starts and")

    def _finish(self, v: int) -> None:
        # An operand must be intact until the op has ended, not only when it starts.
        graph, op = self.graph, self.graph.ops[v]
        self._expect_operands(v, "ends and")
        for b in op.writes:
            what = f"op {op.name!r} ends and its output {graph.buffers[b].name!r}"
            self._expect(b, what)
            if graph.buffers[b].mutates and graph.roots[b] in self.spans:
                self._write(graph.roots[b])
        self.running.remove(v)
        self.ended.add(v)

    def _expect_operands(self, v: int, when: str) -> None:
        op = self.graph.ops[v]
        for b in dict.fromkeys((*op.reads, *op.uses)):
            name = self.graph.buffers[b].name
            self._expect(b, f"op {op.name!r} {when} its operand {name!r}")
