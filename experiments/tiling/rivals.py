"""Choices of stages as others make them, in the terms of our network of positions.

Each rival chooses the stages and their bands; offsets and directions are then ours, with dying
rows, so that the rival is at its best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.model.rows import RowOp, Rows
from optsched.solver.tiling.arcs import OPS, Network
from optsched.solver.tiling.paths import Path

FAR = 1 << 60


@dataclass(frozen=True)
class Rivals:
    """The choices in one network."""

    net: Network
    """Positions and arcs of the model."""
    tail: int
    """Bytes of the untiled model's tail."""

    def single(self) -> Path | None:
        """Return the stage whose total is least, all other ops being whole."""
        return self._best(lambda load, extra, tail: (load + tail, extra), front=False)

    def patch(self) -> Path | None:
        """Return one stage at the front whose load is least, as MCUNetV2 describes it."""
        return self._best(lambda load, extra, tail: (load, extra), front=True)

    def _best(self, key, *, front: bool) -> Path | None:  # type: ignore[no-untyped-def]
        arcs, loads = self.net.arcs, self.net.ways.min(axis=1)
        before, after = self._whole()
        best, found = None, None
        for arc in np.flatnonzero(self.net.what[:, 1] >= 0).tolist():
            start, end = int(arcs.start[arc]), int(self.net.ends[arc])
            if front and start:
                continue
            load = max(int(loads[arc]), before[start][0], after[end][0])
            value = key(load, int(arcs.extra[arc]), int(arcs.tail[arc]))
            if load < FAR and (best is None or value < best):
                best = value
                path = (*before[start][1], arc, *after[end][1])
                extra, tail = int(arcs.extra[arc]) // OPS, self.tail + int(arcs.tail[arc])
                found = Path(load, tail, extra, path)
        return found

    def _whole(self) -> tuple[list[tuple[int, tuple[int, ...]]], list[tuple[int, tuple[int, ...]]]]:
        """Return, by position, the least load of whole ops from the start, and to the end."""
        arcs, positions = self.net.arcs, len(self.net.arcs.ptr) - 1
        before: list[tuple[int, tuple[int, ...]]] = [(FAR, ())] * positions
        after = list(before)
        before[0] = after[-1] = (0, ())
        whole = [
            (int(arcs.start[a]), int(self.net.ends[a]), a)
            for a in np.flatnonzero(self.net.what[:, 1] < 0).tolist()
        ]
        for start, end, a in sorted(whole, key=lambda x: (x[1], x[0])):
            load = max(before[start][0], int(arcs.load[a]))
            before[end] = min(before[end], (load, (*before[start][1], a)), key=lambda x: x[0])
        for start, end, a in sorted(whole, key=lambda x: (-x[0], -x[1])):
            load = max(after[end][0], int(arcs.load[a]))
            after[start] = min(after[start], (load, (a, *after[end][1])), key=lambda x: x[0])
        return before, after

    def fused(self) -> tuple[Path, int] | None:
        """Return the path of fused blocks of least memory, as msf-CNN counts it, and that memory.

        A block holds its input and its result as a whole, and the rows between two of its ops.
        """
        if self.net.lattice.positions is None:
            return None
        arcs, positions = self.net.arcs, len(self.net.arcs.ptr) - 1
        loads = self._fused_loads()
        best = [(FAR, FAR, -1)] * positions
        best[0] = (0, 0, -1)
        for end in range(1, positions):
            for a in range(*arcs.ptr[end : end + 2].tolist()):
                load, extra, _ = best[int(arcs.start[a])]
                row = (max(load, loads[a]), extra + int(arcs.extra[a]), a)
                best[end] = min(best[end], row)
        path, at = list[int](), positions - 1
        while at:
            path.append(best[at][2])
            at = int(arcs.start[path[-1]])
        order = tuple(reversed(path))
        extra = sum(int(arcs.extra[a]) for a in order) // OPS
        tail = self.tail + sum(int(arcs.tail[a]) for a in order)
        load = max(int(self.net.ways[a].min()) for a in order)
        return Path(load, tail, extra, order), best[-1][0]

    def _fused_loads(self) -> list[int]:
        rows, live = self.net.lattice.rows, self.net.lattice.live
        positions = self.net.lattice.positions or ()
        inner: dict[tuple[int, int], int] = {}
        found = []
        for a, (what, count) in enumerate(self.net.what.tolist()):
            if count < 0:
                found.append(int(self.net.arcs.load[a]))
                continue
            if (what, count) not in inner:
                ops = self.net.stages[what].ops
                inner[what, count] = block_bytes(rows, ops, int(self.net.counts[count]))
            found.append(live(positions[int(self.net.arcs.start[a])]) + inner[what, count])
        return found


def block_bytes(rows: Rows, ops: tuple[int, ...], bands: int) -> int:
    """Return the bytes of a fused block's result, and of the rows inside it, at the fullest op."""
    graph, last = rows.graph, rows.ops[ops[-1]]
    assert isinstance(last, RowOp)
    height, result = rows.heights[last.output], last.output
    made = {b for v in ops for b in graph.ops[v].writes}
    fullest = 0
    middle = bands // 2
    need = {result: (middle * height // bands, (middle + 1) * height // bands)}
    sizes: dict[int, int] = {}
    for v in reversed(ops):
        op = rows.ops[v]
        assert isinstance(op, RowOp)
        run = rows.band(v, *need[op.output])
        if run is None:
            return FAR
        sizes[op.output] = (run.output[1] - run.output[0]) * rows.row_bytes[op.output]
        for x, (low, high) in zip(op.maps, run.inputs, strict=True):
            old = need.get(x.buffer, (low, high))
            need[x.buffer] = min(low, old[0]), max(high, old[1])
    # The block's input and result are there as a whole.
    for v in ops:
        op = rows.ops[v]
        assert isinstance(op, RowOp)
        held = [b for b in {*(x.buffer for x in op.maps), op.output} if b in made and b != result]
        fullest = max(fullest, sum(sizes[b] for b in held))
    return rows.rounded(height * rows.row_bytes[result]) + fullest
