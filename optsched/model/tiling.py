"""Stages in row bands as an ordinary graph: a reduction.

*The tiled graph.* Each op of a stage becomes one op per band, and each op that slices or joins rows
an op that moves no bytes. The rows of a tensor that bands read or write in turn become pieces. An
order of the tiled graph, with offsets that keep the pieces of each place one after another, is a
plan of the tiled program: the bytes live at a step are those of the pieces that are live. Such
offsets are those of a packing in which a place is one buffer, whose window of live bytes changes
with the steps (:func:`optsched.model.places.places_problem`). So the order engines,
the packers, the checker of plans, reports and files work on tiled graphs as on others.

*Where it is narrower than the program.* The ops of a stage keep their order in every band, and one
band ends before the next begins; the window of a place is the hull of its live pieces.

Example: a convolution of 3 rows in two bands reads rows 0 to 4 and 3 to 7 of an input of 8 rows.
The input has two pieces, rows 0 to 2, which die with the first band, and rows 3 to 7.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from optsched.errors import GraphError
from optsched.model.elements import Buffer, Op
from optsched.model.graph import Graph
from optsched.model.pieces import Access, Draft, Piece, cut_pieces, whole_piece
from optsched.model.rows import Band, Rows
from optsched.model.stages import check_stage, cuts, row_op
from optsched.model.tiled import (
    MOST_JOINED,
    Place,
    Stage,
    TiledGraph,
    TiledKind,
    TiledOp,
    TiledTensor,
    Tiling,
)
from optsched.runtime.text import free_name


def tiled_graph(rows: Rows, tiling: Tiling) -> TiledGraph:
    """Return stages in bands as an ordinary graph.

    Raise `GraphError` if ops cannot run as a stage (:func:`check_stage`), are in two stages, a band
    would have rows of padding alone, or the graph has streams, pairs, groups or in-place pairs.

    `rows`: the graph, with row maps; its ops are in an order in which they can run. `tiling`:
    disjoint stages.
    """
    graph = rows.graph
    if graph.on_streams or graph.keep_apart or graph.must_share or graph.in_place:
        raise GraphError(
            f"{graph.name}: tiling supports no streams, keep-apart pairs, groups or in-place pairs"
        )
    for stage in tiling.stages:
        check_stage(rows, stage)
    listed = [v for stage in tiling.stages for v in stage.ops]
    if len(set(listed)) < len(listed):
        raise GraphError("an op is in two stages")
    return _Maker(rows, tiling).make()


class _Maker:
    """Tensors, ops and places of one tiling, in the making."""

    def __init__(self, rows: Rows, tiling: Tiling) -> None:
        self.rows, self.tiling = rows, tiling
        self.tensors: list[TiledTensor] = []
        self.ops: list[TiledOp] = []
        self.drafts: list[Draft] = []
        self.names: list[str] = []
        self.control: list[list[int]] = []
        self.scratch: list[int] = []
        self.cost: list[int] = []
        self.op_names: set[str] = set()
        self.tensor_names = {buffer.name for buffer in rows.graph.buffers}
        self.whole_tensor: dict[int, int] = {}
        """Number of the tensor that is a buffer of the untiled graph."""
        self.maker: dict[int, int] = {}
        """Id of the tiled op after which a buffer is there as a whole."""
        self.tiled_op: dict[int, int] = {}

    def make(self) -> TiledGraph:
        last = {stage.ops[-1]: k for k, stage in enumerate(self.tiling.stages)}
        inside = {v for stage in self.tiling.stages for v in stage.ops}
        for b, buffer in enumerate(self.rows.graph.buffers):
            if buffer.input is not None:
                self._whole(b)
        for v in range(len(self.rows.graph.ops)):
            if v in last:
                self._add_stage(last[v])
            elif v not in inside:
                self._add_whole(v)
        return self._graph()

    def _whole(self, b: int) -> int:
        """Return the tensor that is a buffer of the untiled graph."""
        if b not in self.whole_tensor:
            buffer, height = self.rows.graph.buffers[b], self.rows.heights[b]
            self.whole_tensor[b] = len(self.tensors)
            size = height * self.rows.row_bytes[b] if height else buffer.size
            place = self._place(buffer.name, b, 0, height, buffer.size)
            self.tensors.append(TiledTensor(buffer.name, b, 0, height, place, 0, size))
        return self.whole_tensor[b]

    def _place(self, name: str, b: int, first: int, count: int, size: int) -> int:
        self.drafts.append(Draft(name, b, first, count, size))
        return len(self.drafts) - 1

    def _band_tensor(self, b: int, first: int, count: int, name: str) -> int:
        """Add a tensor of rows with a place of its own."""
        size = count * self.rows.row_bytes[b]
        name = _own_name(name, self.tensor_names)
        place = self._place(name, b, first, count, self.rows.rounded(size))
        self.tensors.append(TiledTensor(name, b, first, count, place, 0, size))
        return len(self.tensors) - 1

    def _view(self, source: int, first: int, count: int, name: str) -> int:
        """Add a tensor of rows that lies inside another one."""
        outer = self.tensors[source]
        width = self.rows.row_bytes[outer.buffer]
        size, shift = count * width, outer.shift + (first - outer.first) * width
        name = _own_name(name, self.tensor_names)
        self.tensors.append(TiledTensor(name, outer.buffer, first, count, outer.place, shift, size))
        return len(self.tensors) - 1

    def _add(
        self, op: TiledOp, name: str, control: Iterable[int], scratch: int = 0, cost: int = 0
    ) -> int:
        """Add an op; its reads and writes are noted at the places."""
        v = len(self.ops)
        self.ops.append(op)
        self.names.append(_own_name(name, self.op_names))
        self.control.append(sorted(set(control)))
        self.scratch.append(scratch)
        self.cost.append(cost)
        reads = [t for _, t in op.reads]
        # A slice reads its own rows only, wherever they lie.
        if op.kind is TiledKind.SLICE:
            draft = self.drafts[self.tensors[reads.pop()].place]
            self._note(draft.reads, op.writes[0], v, op.stage)
        for t in reads:
            self._note(self.drafts[self.tensors[t].place].reads, t, v, op.stage)
        for t in op.writes:
            if op.copies or op.kind in (TiledKind.WHOLE, TiledKind.BAND):
                self._note(self.drafts[self.tensors[t].place].write, t, v, op.stage)
        return v

    def _note(self, to: list[Access], t: int, v: int, stage: int) -> None:
        tensor = self.tensors[t]
        to.append(Access(v, tensor.first, tensor.first + tensor.rows, stage))

    def _add_whole(self, v: int) -> None:
        graph, op = self.rows.graph, self.rows.graph.ops[v]
        read = tuple(dict.fromkeys((*op.reads, *op.uses)))
        reads = tuple((b, self._whole(b)) for b in read)
        writes = tuple(self._whole(b) for b in op.writes if b != op.workspace)
        scratch = graph.buffers[op.workspace].size if op.workspace is not None else 0
        made = self._add(
            TiledOp(TiledKind.WHOLE, v, reads, writes),
            op.name,
            [*self._makers(read), *(self.tiled_op[u] for u in op.control)],
            scratch,
            op.cost,
        )
        self.tiled_op[v] = made
        for b in op.writes:
            self.maker[b] = made

    def _makers(self, buffers: Iterable[int]) -> list[int]:
        return [self.maker[b] for b in buffers if b in self.maker]

    def _add_stage(self, number: int) -> None:
        """Add the bands of a stage one after another, and the ops that join their results."""
        stage, graph = self.tiling.stages[number], self.rows.graph
        result = row_op(self.rows, stage.ops[-1]).output
        height = self.rows.heights[result]
        edges = cuts(height, stage.bands)
        y = self._whole(result)
        made = {b for v in stage.ops for b in graph.ops[v].writes}
        read = {b for v in stage.ops for b in (*graph.ops[v].reads, *graph.ops[v].uses)} - made
        waits = (u for v in stage.ops for u in graph.ops[v].control)
        before = [*self._makers(read), *(self.tiled_op[u] for u in waits if u in self.tiled_op)]
        order = range(stage.bands)
        parts: dict[int, int] = {}
        for k in reversed(order) if stage.upwards else order:
            parts[k] = self._add_band(number, k, (edges[k], edges[k + 1]), before)
            before = [len(self.ops) - 1]
        last = self._join(number, y, [parts[k] for k in order], before)
        self.maker[result] = last
        for v in stage.ops:
            self.tiled_op[v] = last

    def _add_band(self, number: int, k: int, rows: tuple[int, int], before: list[int]) -> int:
        """Add the ops of a band, and return the tensor of its rows of the result."""
        stage, graph = self.tiling.stages[number], self.rows.graph
        runs = self._runs(stage, rows)
        result = row_op(self.rows, stage.ops[-1]).output
        have: dict[int, int] = {}
        for v, run in zip(stage.ops, runs, strict=True):
            op = row_op(self.rows, v)
            reads: list[tuple[int, int]] = []
            for x, (low, high) in zip(op.maps, run.inputs, strict=True):
                source = have[x.buffer] if x.buffer in have else self._whole(x.buffer)
                t, before = self._sliced(source, low, high, (number, k), before)
                reads.append((x.buffer, t))
            mapped, own = {b for b, _ in reads}, graph.ops[v]
            whole = (b for b in dict.fromkeys((*own.reads, *own.uses)) if b not in mapped)
            reads += [(b, self._whole(b)) for b in whole]
            first, last = run.output
            name = f"{graph.buffers[op.output].name}@{k}"
            if op.output == result and run.output == rows:
                out = self._view(self._whole(result), first, last - first, name)
            else:
                out = self._band_tensor(op.output, first, last - first, name)
            scratch = op.scratch[0] + op.scratch[1] * (last - first)
            self._add(
                TiledOp(TiledKind.BAND, v, tuple(reads), (out,), number, k),
                f"{own.name}@{k}",
                before,
                self.rows.rounded(scratch),
                op.cost * (last - first),
            )
            before = [len(self.ops) - 1]
            have[op.output] = out
        return self._placed(number, k, rows, have[result], before)

    def _runs(self, stage: Stage, rows: tuple[int, int]) -> list[Band]:
        """Return the run of each op of a band that makes rows of the result."""
        need = {row_op(self.rows, stage.ops[-1]).output: rows}
        runs = []
        for v in reversed(stage.ops):
            op = row_op(self.rows, v)
            run = self.rows.band(v, *need[op.output])
            if run is None:
                name = self.rows.graph.ops[v].name
                raise GraphError(f"op {name!r} has a band of padding alone: take fewer bands")
            for x, (low, high) in zip(op.maps, run.inputs, strict=True):
                old = need.get(x.buffer, (low, high))
                need[x.buffer] = min(low, old[0]), max(high, old[1])
            runs.append(run)
        return runs[::-1]

    def _sliced(
        self, source: int, low: int, high: int, where: tuple[int, int], before: list[int]
    ) -> tuple[int, list[int]]:
        """Return the tensor of some rows, and the op that must have run for it to be there."""
        tensor = self.tensors[source]
        if (tensor.first, tensor.rows) == (low, high - low):
            return source, before
        t = self._view(source, low, high - low, f"{tensor.name}[{low}:{high}]")
        op = TiledOp(TiledKind.SLICE, None, ((tensor.buffer, source),), (t,), *where)
        return t, [self._add(op, self.tensors[t].name, before)]

    def _placed(
        self, number: int, k: int, rows: tuple[int, int], made: int, before: list[int]
    ) -> int:
        """Return the tensor of a band's good rows inside the result; copy them if they are not."""
        tensor = self.tensors[made]
        y = self.whole_tensor[tensor.buffer]
        if tensor.place == self.tensors[y].place:
            return made
        name = f"{self.tensors[y].name}[{rows[0]}:{rows[1]}]"
        t = self._view(y, rows[0], rows[1] - rows[0], name)
        op = TiledOp(TiledKind.SLICE, None, ((tensor.buffer, made),), (t,), number, k, copies=True)
        self._add(op, name, before)
        return t

    def _join(self, number: int, y: int, parts: list[int], before: list[int]) -> int:
        """Add the ops that join the rows of a result, and return the last one."""
        buffer = self.tensors[y].buffer
        # One band has as many rows as the result only if the stage has one band.
        while len(parts) > 1:
            groups = [parts[i : i + MOST_JOINED] for i in range(0, len(parts), MOST_JOINED)]
            parts = []
            for group in groups:
                if len(group) == 1 and len(groups) > 1:
                    parts += group
                    continue
                first = self.tensors[group[0]].first
                end = self.tensors[group[-1]].first + self.tensors[group[-1]].rows
                name = f"{self.tensors[y].name}[{first}:{end}]"
                t = y if len(groups) == 1 else self._view(y, first, end - first, name)
                op = TiledOp(TiledKind.JOIN, None, tuple((buffer, x) for x in group), (t,), number)
                before = [self._add(op, f"join {name}", before)]
                parts.append(t)
        return before[0]

    def _graph(self) -> TiledGraph:
        """Cut the places into pieces and make the ordinary graph of them."""
        buffers: list[Buffer] = []
        reads: list[list[int]] = [[] for _ in self.ops]
        writes: list[list[int]] = [[] for _ in self.ops]
        taken: set[str] = set()
        places = []
        for draft in self.drafts:
            pieces = []
            for piece in cut_pieces(draft) if self._is_cut(draft) else [whole_piece(draft)]:
                b = len(buffers)
                buffers.append(self._buffer(draft, piece, taken))
                pieces.append((b, self._shift(draft, piece.first)))
                for v in piece.readers:
                    reads[v].append(b)
                if piece.writer is not None:
                    writes[piece.writer].append(b)
            places.append(Place(draft.size, tuple(pieces)))
        ops = []
        for v, op in enumerate(self.ops):
            scratch = None
            if self.scratch[v]:
                scratch = len(buffers)
                name = _own_name(f"{self.names[v]}.workspace", taken)
                buffers.append(Buffer(name, self.scratch[v], alignment=self.rows.rounding))
                writes[v].append(scratch)
            ops.append(self._op(v, op, reads[v], writes[v], scratch))
        source = self.rows.graph
        graph = Graph(
            source.name,
            tuple(ops),
            tuple(buffers),
            memory_model=source.memory_model,
            cost_unit=source.cost_unit,
            dims=source.dims,
            # Other tilings are other graphs, and a bound on this one is not about theirs.
            variant="this tiling" if self.tiling.stages else source.variant,
        )
        return TiledGraph(
            self.rows, self.tiling, graph, tuple(self.ops), tuple(self.tensors), tuple(places)
        )

    def _op(
        self, v: int, op: TiledOp, reads: list[int], writes: list[int], scratch: int | None
    ) -> Op:
        kind = str(op.kind).upper() if op.op is None else self.rows.graph.ops[op.op].kind
        return Op(
            self.names[v],
            reads=tuple(reads),
            writes=tuple(writes),
            control=tuple(self.control[v]),
            workspace=scratch,
            kind=kind,
            cost=self.cost[v],
        )

    def _is_cut(self, draft: Draft) -> bool:
        # What a band makes lives as a whole: the window of a few rows would save little.
        return draft.rows > 0 and draft.name == self.rows.graph.buffers[draft.buffer].name

    def _shift(self, draft: Draft, row: int) -> int:
        return (row - draft.first) * self.rows.row_bytes[draft.buffer]

    def _buffer(self, draft: Draft, piece: Piece, taken: set[str]) -> Buffer:
        source = self.rows.graph.buffers[draft.buffer]
        start = self._shift(draft, piece.first)
        is_last = piece.last == draft.first + draft.rows
        end = draft.size if is_last else self._shift(draft, piece.last)
        is_part = start > 0 or not is_last
        name = f"{draft.name}[{piece.first}:{piece.last}]" if is_part else draft.name
        made = Buffer(
            _own_name(name, taken),
            end - start,
            alignment=1 if start else source.alignment,
            pool=source.pool,
        )
        # Tensors inside of a stage are not inputs or outputs of the graph.
        if draft.name != source.name:
            return made
        return replace(made, input=source.input, output=source.output, pin=source.pin)


def _own_name(wanted: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    name = free_name(wanted, taken)
    taken.add(name)
    return name
