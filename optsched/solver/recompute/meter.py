"""Cost and live bytes of sequences of nodes, without a graph for each.

This follows :mod:`optsched.model.runs`: a run reads the latest copies, readers of a graph output
its first one. Searches measure thousands of sequences; plans that leave the planner are run by the
checker, which does not use this.

Example: `a` makes 5 bytes for `b` and `d`; `b`, `c`, `d` form a chain of 1, 4 and 1 bytes. In the
sequence a, b, c, a, d the first copy of `a` is released after `b` and the second after `d`, so that
5, 6, 5, 9 and 10 bytes are live.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.model.runs import runs_once


class Meter:
    """Measures sequences of ops of one graph, whose ops have one stream and bytes of their own.

    Parameters
    ----------
    graph
        The graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.once = graph, runs_once(graph)
        self.reads = [tuple({*op.reads, *op.uses}) for op in graph.ops]
        self.writes = [op.writes for op in graph.ops]
        self.source = [-1 if b.alias_of is None else b.alias_of for b in graph.buffers]
        self.size = [buffer.size for buffer in graph.buffers]
        self.kept = [graph.kept[root] for root in graph.roots]
        self.inputs = [b for b, made in enumerate(graph.producers) if made is None]

    def running(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return the live bytes during each run.

        Raises
        ------
        PlanError
            If an op is missing, runs again although it must not, or before an op that it needs.
        """
        # One loop without helpers, since searches spend most of their time here.
        buffers, count = self.graph.buffers, len(nodes)
        # Copies: a number each, with the step after their last reader.
        newest, ends, sizes = [-1] * len(buffers), list[int](), list[int]()
        change, ran = [0] * (count + 1), [False] * len(self.graph.ops)
        for b in self.inputs:
            newest[b] = len(ends)
            ends.append(count if self.kept[b] else 0)
            sizes.append(0 if buffers[b].external else self.size[b])
        for at, v in enumerate(nodes):
            self._check(v, ran)
            for b in self.reads[v]:
                if ends[newest[b]] <= at:
                    ends[newest[b]] = at + 1
            for b in self.writes[v]:
                again, source = ran[v], self.source[b]
                if source >= 0:
                    copy = newest[source]
                    ends[copy] = max(ends[copy], at + 1)
                else:
                    copy = len(ends)
                    # The caller's memory holds first copies only, and holds them to the end.
                    ends.append(count if self.kept[b] and not again else at + 1)
                    sizes.append(0 if buffers[b].external and not again else self.size[b])
                    change[at] += sizes[copy]
                if not again or not self.kept[b]:
                    newest[b] = copy
            ran[v] = True
        if not all(ran):
            raise PlanError(f"order misses op {self.graph.ops[ran.index(False)].name!r}")
        for copy, end in enumerate(ends):
            change[end] -= sizes[copy]
        # Inputs that are read, or stay, are live from the start.
        change[0] += sum(sizes[newest[b]] for b in self.inputs)
        return tuple(accumulate(change[:-1]))

    def _check(self, v: int, ran: Sequence[bool]) -> None:
        op = self.graph.ops[v]
        if ran[v]:
            if v in self.once:
                raise PlanError(f"op {op.name!r} runs again, but {self.once[v]}")
            return
        for u in self.graph.predecessors[v]:
            if not ran[u]:
                needed = self.graph.ops[u].name
                raise PlanError(f"order runs op {op.name!r} before {needed!r}, which it needs")
