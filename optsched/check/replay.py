"""A memory observer: executes a plan on a real slab and catches writes over live buffers.

Each buffer gets a pattern of its own when it is born, which must still be there at every read, at
every overwriting and at its death; then its bytes are poisoned. So an overlap, a release before the
last use and a view of other bytes than its root's show by execution, for any reason.

The slab is an array with one cell for each stretch of bytes in which no buffer begins or ends.
Two buffers share a byte exactly if they share a cell, so a slab of many gigabytes is executed as
exactly as one of a few bytes, in memory that depends on the number of buffers alone.

Example: `a` at [0, 8) and `b` at [4, 12) are live together. The cells are [0, 4), [4, 8) and [8,
12). The birth of `b` writes its pattern into the second cell, so the next read of `a` finds two
patterns.

References
----------
PyTorch pull request 64347: the memory observer, which serves there to validate plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from optsched.check.inplace import dying_pairs
from optsched.check.lifecycle import check_lifecycle
from optsched.check.lives import live_spans, maker
from optsched.check.packing import filled_rectangles
from optsched.errors import PlanError
from optsched.model.graph import Graph

if TYPE_CHECKING:
    from optsched.model.packing_problem import PackingProblem
    from optsched.model.plan import Plan

POISON = -1
"""Content of a cell without a live buffer."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Counts of an execution."""

    steps: int
    """Ops that ran, or steps of live ranges."""
    reads: int
    """Times that a pattern was looked for, and found."""
    cells: int
    """Of all slabs together."""

    def __str__(self) -> str:
        return (
            f"replayed: {self.reads:,} reads over {self.steps:,} steps returned the bytes written "
            f"before ({self.cells:,} cells)"
        )


@dataclass
class CellSlab:
    """The bytes of one pool, as cells."""

    edges: npt.NDArray[np.int64]
    """Ascending offsets at which buffers begin or end; cell `i` is `[edges[i], edges[i + 1])`."""
    cells: npt.NDArray[np.int64] = field(init=False)
    written: list[str] = field(default_factory=list)
    reads: int = 0

    def __post_init__(self) -> None:
        self.cells = np.full(max(0, len(self.edges) - 1), POISON, np.int64)

    def fill(self, name: str, place: tuple[int, int]) -> int:
        """Write a unique pattern into `[low, high)`; return its key."""
        key = len(self.written)
        self.written.append(name)
        at, pattern = self._pattern(place, key)
        self.cells[at] = pattern
        return key

    def expect(self, what: str, place: tuple[int, int], key: int) -> None:
        """Check that `[low, high)` holds the pattern of a key.

        Raise `PlanError` if it holds anything else.
        """
        self.reads += 1
        at, pattern = self._pattern(place, key)
        # One cell that differs is enough to name the buffer that was found there.
        wrong = np.flatnonzero(self.cells[at] != pattern)
        if len(wrong):
            cell = at.start + int(wrong[0])
            found = int(self.cells[cell])
            other = "nothing that lives" if found == POISON else repr(self._owner(found))
            raise PlanError(f"{what} finds {other} at byte {self.edges[cell]}")

    def release(self, place: tuple[int, int]) -> None:
        """Poison `[low, high)`."""
        low, high = self._cells_of(place)
        self.cells[low:high] = POISON

    def _cells_of(self, place: tuple[int, int]) -> tuple[int, int]:
        low, high = np.searchsorted(self.edges, place)
        return int(low), int(high)

    def _pattern(self, place: tuple[int, int], key: int) -> tuple[slice, npt.NDArray[np.int64]]:
        low, high = self._cells_of(place)
        # Numbers of different fillings do not overlap, so a cell names its owner. Neighboring cells
        # differ, so that a view shifted against its root is found out.
        first = key * (len(self.cells) + 1)
        return slice(low, high), np.arange(first, first + high - low, dtype=np.int64)

    def _owner(self, value: int) -> str:
        return self.written[value // (len(self.cells) + 1)]


def make_slab(places: Iterable[tuple[int, int]]) -> CellSlab:
    """Make a slab in which `[low, high)` of each buffer is a row of cells."""
    return CellSlab(np.array(sorted({edge for place in places for edge in place}), np.int64))


def replay_plan(graph: Graph, plan: Plan) -> Replayed:
    """Execute a plan whose order is a permutation of the ops that keeps all dependencies.

    An op allocates what is born at it, then reads, then writes: what it writes in place of a dying
    input only after it has read. Workspace lives while the op runs. The order itself is checked by
    :func:`optsched.check.plan.check_plan`. Allocations and releases, step by step, are compared
    with the plan once more, by :func:`optsched.check.lifecycle.check_lifecycle`.

    Raises
    ------
    PlanError
        At the first read, write or death of a buffer that does not find the buffer's pattern,
        naming op, step, buffer and byte; if a live buffer has no offset.
    """
    return Executor(plan.placed(graph), plan).run()


class Executor:
    """One execution of a plan on its slabs, op by op."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph, self.plan = graph, plan
        self.step = [0] * len(graph.ops)
        for at, v in enumerate(plan.order):
            self.step[v] = at
        sizes = [buffer.size for buffer in graph.buffers]
        spans = live_spans(graph, plan.order, self.step)
        self.spans = {b: span for b, span in spans.items() if sizes[b]}
        self.place = {
            b: self._place(b) for b in range(len(graph.buffers)) if graph.roots[b] in self.spans
        }
        pools: dict[str, list[tuple[int, int]]] = {}
        for b, place in self.place.items():
            pools.setdefault(graph.buffers[graph.roots[b]].pool, []).append(place)
        self.slabs = {pool: make_slab(places) for pool, places in pools.items()}
        self.key: dict[int, int] = {}
        self.born: list[list[int]] = [[] for _ in graph.ops]
        self.dying: list[list[int]] = [[] for _ in graph.ops]
        for b, (start, end) in self.spans.items():
            if maker(graph, b) is not None:
                self.born[start].append(b)
            if not graph.kept[b]:
                self.dying[end - 1].append(b)
        self.chosen = self._chosen()

    def run(self) -> Replayed:
        """Run the ops in the plan's order."""
        self._begin()
        for at, v in enumerate(self.plan.order):
            self._run_op(at, v)
        seen = self._end()
        lives = zip(*map(self._names, (self.born, self.dying)), strict=True)
        # The same execution, seen as allocations and releases.
        check_lifecycle(self.graph, self.plan.order, lives)
        return seen

    def _begin(self) -> None:
        for b in self.spans:
            # Inputs are filled before the first op.
            if self.graph.producers[b] is None:
                self._write(b)

    def _end(self) -> Replayed:
        for b in self.spans:
            if self.graph.kept[b]:
                self._expect(b, f"at the end buffer {self.graph.buffers[b].name!r}")
        return _seen(len(self.graph.ops), self.slabs.values())

    def _run_op(self, at: int, v: int) -> None:
        graph, op = self.graph, self.graph.ops[v]
        label = f"op {op.name!r} (step {at})"
        for b in self.born[at]:
            if b not in self.chosen:
                self._write(b)
        # Inputs are read before in-place outputs are written, as a kernel does element by element.
        for b in dict.fromkeys((*op.reads, *op.uses)):
            self._expect(b, f"{label} reads buffer {graph.buffers[b].name!r} and")
        for b in self.born[at]:
            if b in self.chosen:
                self._write(b)
        for b in op.writes:
            if graph.buffers[b].mutates and graph.roots[b] in self.spans:
                self._expect(b, f"{label} overwrites buffer {graph.buffers[b].name!r} and")
                self._write(graph.roots[b])
        # Written buffers are read back at once: an output may have been placed over another.
        for b in op.writes:
            self._expect(b, f"{label} has written buffer {graph.buffers[b].name!r} and")
        # An input that was overwritten in place cannot hold its own pattern any more.
        heads = {self.chosen[b] for b in self.born[at] if b in self.chosen}
        for b in self.dying[at]:
            if b not in heads:
                self._expect(b, f"{label} releases buffer {graph.buffers[b].name!r} and")
        for b in self.dying[at]:
            self._release(b, at)

    def _release(self, b: int, at: int) -> None:
        """Poison a buffer, except for the bytes of an output that was written into it."""
        low, high = self.place[b]
        for output in self.born[at]:
            if self.chosen.get(output) == b and output not in self.dying[at]:
                low = self.place[output][1]
        if low < high:
            self._slab(b).release((low, high))

    def _place(self, b: int) -> tuple[int, int]:
        """Return the bytes of a buffer; a view has an offset of its own and its root's size."""
        offset, size = self.plan.offsets[b], self.graph.buffers[self.graph.roots[b]].size
        if offset is None:
            raise PlanError(f"buffer {self.graph.buffers[b].name!r} of {size} bytes has no offset")
        return offset, offset + size

    def _chosen(self) -> dict[int, int]:
        """Return the input that each in-place output is written into: it dies at the op."""
        found: dict[int, int] = {}
        for pairs in dying_pairs(self.graph, self.step, self.spans).values():
            for output, root in pairs:
                # Equal offsets state the choice: a plan has no list of in-place pairs.
                shares = self.place[output][0] == self.place[root][0]
                if shares and output not in found and root not in found.values():
                    found[output] = root
        return found

    def _slab(self, b: int) -> CellSlab:
        return self.slabs[self.graph.buffers[self.graph.roots[b]].pool]

    def _names(self, steps: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[self.graph.buffers[b].name for b in step] for step in steps]

    def _write(self, b: int) -> None:
        self.key[b] = self._slab(b).fill(self.graph.buffers[b].name, self.place[b])

    def _expect(self, b: int, what: str) -> None:
        root = self.graph.roots[b]
        # Never live: nothing was written that could be compared.
        if root not in self.spans:
            return
        if root not in self.key:
            raise PlanError(f"{what} finds nothing: its bytes are not allocated")
        self._slab(b).expect(what, self.place[b], self.key[root])


def replay_packing(
    problem: PackingProblem, offsets: Sequence[int], pools: Sequence[str] = ()
) -> Replayed:
    """Fill each buffer when its live range starts, and compare its bytes when it ends.

    A buffer with gaps is filled again whenever its occupied bytes change; a group that
    shares an offset is one buffer. `pools` says in which slab each buffer lies, where there are
    several.

    Raise `PlanError` if a buffer finds something else than its pattern, naming step, buffer and
    byte.
    """
    rows = [
        (start, end, (low, high), name, pools[i] if pools else "")
        for (start, end, low, high, name), i in filled_rectangles(problem, list(map(int, offsets)))
    ]
    slabs = {
        pool: make_slab(row[2] for row in rows if row[4] == pool)
        for pool in dict.fromkeys(row[4] for row in rows)
    }
    # At equal steps ends come first: their bytes are free again.
    events = [(row[0], 1, j) for j, row in enumerate(rows)]
    events += [(row[1], 0, j) for j, row in enumerate(rows)]
    key: dict[int, int] = {}
    for at, starts, j in sorted(events):
        _, _, place, name, pool = rows[j]
        if starts:
            key[j] = slabs[pool].fill(name, place)
        else:
            slabs[pool].expect(f"step {at}: buffer {name!r} ends and", place, key[j])
            slabs[pool].release(place)
    return _seen(len({at for at, _, _ in events}), slabs.values())


def _seen(steps: int, slabs: Collection[CellSlab]) -> Replayed:
    return Replayed(steps, sum(s.reads for s in slabs), sum(len(s.cells) for s in slabs))
