"""Check a tiled program against the untiled graph, row by row, in the bytes of the slab.

The checker runs the program in its order. For each byte of the slab it knows the buffer and the row
that the byte belongs to, if a right value lies there. An op that runs on a band makes a row right
if its kernel computes that row of the untiled op, by the rows that it is given, and if all rows
that the row map demands are right. All other bytes that it writes are wrong. At the end every row
of every output must be right. So no row is read before it is written or after it is overwritten,
and no row is computed from too few rows.

It shares no code with the planner: rows, addresses and kernels' paddings are computed once more.

Example: a band with a false edge makes its first row wrong. If a join puts this row into the
result, the result is not right as a whole, and the next op that reads it is refused.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from optsched.errors import PlanError
from optsched.model.plan import Plan
from optsched.model.rows import RowMap, RowOp, RowRule
from optsched.model.tiled import TiledGraph, TiledKind, TiledOp, TiledTensor


@dataclass(frozen=True, slots=True)
class CheckedTiling:
    """Bytes of the slab of a tiled program, and multiplications beyond the untiled ones."""

    head: int
    extra: int


@dataclass(slots=True)
class _Memory:
    """Right bytes as disjoint ranges, ascending: where each begins and ends, and its content.

    The content is a buffer, and the address at which its row 0 would lie.
    """

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    content: list[tuple[int, int]] = field(default_factory=list)

    def forget(self, low: int, high: int) -> None:
        """Bytes `[low, high)` hold no right value any more."""
        if low >= high:
            return
        first = bisect_left(self.ends, low + 1)
        last = first
        left: list[tuple[int, int, tuple[int, int]]] = []
        while last < len(self.starts) and self.starts[last] < high:
            start, end, what = self.starts[last], self.ends[last], self.content[last]
            if start < low:
                left.append((start, low, what))
            if end > high:
                left.append((high, end, what))
            last += 1
        self._replace(first, last, left)

    def put(self, low: int, high: int, what: tuple[int, int]) -> None:
        """Bytes `[low, high)` hold rows of a buffer."""
        if low >= high:
            return
        self.forget(low, high)
        at = bisect_left(self.starts, low)
        self._replace(at, at, [(low, high, what)])

    def _replace(self, first: int, last: int, rows: list[tuple[int, int, tuple[int, int]]]) -> None:
        self.starts[first:last] = [row[0] for row in rows]
        self.ends[first:last] = [row[1] for row in rows]
        self.content[first:last] = [row[2] for row in rows]

    def right(self, low: int, width: int, count: int, what: tuple[int, int]) -> list[bool]:
        """Return True for each row from an address on that is right as a whole."""
        found = [False] * count
        at = bisect_left(self.ends, low + 1)
        while at < len(self.starts) and self.starts[at] < low + width * count:
            begin, end, own = self.starts[at], self.ends[at], self.content[at]
            at += 1
            # Rows may lie in two ranges that touch.
            while at < len(self.starts) and (self.starts[at], self.content[at]) == (end, own):
                end = self.ends[at]
                at += 1
            if own == what:
                first, last = -((low - begin) // width), (end - low) // width
                for k in range(max(0, first), min(count, last)):
                    found[k] = True
        return found


def check_tiled(tiled: TiledGraph, plan: Plan) -> CheckedTiling:
    """Run a tiled program and return its figures.

    Raise `PlanError` on the first op that lacks a right row, overwrites what it reads, or does not
    run an op of the untiled graph, and on an output that is not right at the end.
    """
    return _Run(tiled, plan).check()


class _Run:
    """One run of a tiled program."""

    def __init__(self, tiled: TiledGraph, plan: Plan) -> None:
        self.tiled, self.plan, self.rows = tiled, plan, tiled.source
        self.graph = self.rows.graph
        self.memory = _Memory()
        self.computed = 0
        self.end = 0
        self.address = [self._address(tensor) for tensor in tiled.tensors]

    def check(self) -> CheckedTiling:
        if sorted(self.plan.order) != list(range(len(self.tiled.ops))):
            raise PlanError(f"{self.graph.name}: the order lists each op of the tiled program once")
        self._start()
        for v in self.plan.order:
            self._run(v, self.tiled.ops[v])
        for number, tensor in enumerate(self.tiled.tensors):
            buffer = self.graph.buffers[tensor.buffer]
            if buffer.output is not None and self._stands_for(tensor):
                self._need(number, f"output {buffer.name!r} at the end")
        self._check_outputs()
        return CheckedTiling(self.end, self.computed - self.rows.cost)

    def _check_outputs(self) -> None:
        there = {x.buffer for x in self.tiled.tensors if self._stands_for(x)}
        for b, buffer in enumerate(self.graph.buffers):
            if buffer.output is not None and self.graph.roots[b] == b and b not in there:
                raise PlanError(f"output {buffer.name!r} is not in the tiled program")

    def _height(self, b: int) -> int:
        return self.rows.heights[b] or 1

    def _width(self, tensor: TiledTensor) -> int:
        """Return the bytes of a row; a buffer without rows is one row."""
        b = tensor.buffer
        return self.rows.row_bytes[b] if self.rows.heights[b] else self.graph.buffers[b].size

    def _count(self, tensor: TiledTensor) -> int:
        return tensor.rows if self.rows.heights[tensor.buffer] else 1

    def _is_whole(self, tensor: TiledTensor) -> bool:
        return tensor.first == 0 and self._count(tensor) == self._height(tensor.buffer)

    def _stands_for(self, tensor: TiledTensor) -> bool:
        """Return True for the tensor that is a buffer of the untiled graph, by its name."""
        same = tensor.name == self.graph.buffers[tensor.buffer].name
        if same and not self._is_whole(tensor):
            raise PlanError(f"tensor {tensor.name!r} does not have all rows of its buffer")
        return same

    def _address(self, tensor: TiledTensor) -> int | None:
        """Return where a tensor lies; the pieces of its place must lie one after another."""
        place = self.tiled.places[tensor.place]
        starts = {
            at - shift for b, shift in place.pieces if (at := self.plan.offsets[b]) is not None
        }
        if len(starts) > 1:
            raise PlanError(f"the rows of {tensor.name!r} do not lie one after another")
        size = self._width(tensor) * self._count(tensor)
        if tensor.shift < 0 or tensor.shift + size > place.size or size != tensor.size:
            raise PlanError(f"tensor {tensor.name!r} does not lie inside its place")
        return starts.pop() + tensor.shift if starts else None

    def _where(self, number: int) -> int | None:
        tensor = self.tiled.tensors[number]
        at = self.address[number]
        if at is None and not self.graph.buffers[tensor.buffer].external and tensor.size:
            raise PlanError(f"tensor {tensor.name!r} has no offset")
        return at

    def _range(self, number: int) -> tuple[int, int]:
        """Return the bytes of a tensor; an empty range outside of the slab."""
        at = self._where(number)
        return (0, 0) if at is None else (at, at + self.tiled.tensors[number].size)

    def _what(self, number: int) -> tuple[int, int]:
        """Return the content of a tensor: its buffer, and the address of row 0."""
        tensor = self.tiled.tensors[number]
        return tensor.buffer, self._range(number)[0] - tensor.first * self._width(tensor)

    def _right(self, number: int) -> list[bool]:
        """Return which rows of a tensor are right."""
        tensor = self.tiled.tensors[number]
        if self._where(number) is None:
            return [True] * self._count(tensor)
        low, _ = self._range(number)
        return self.memory.right(low, self._width(tensor), self._count(tensor), self._what(number))

    def _need(self, number: int, by: str) -> None:
        """Raise an error unless all rows of a tensor are right."""
        right = self._right(number)
        if not all(right):
            tensor = self.tiled.tensors[number]
            row = tensor.first + right.index(False)
            name = self.graph.buffers[tensor.buffer].name
            raise PlanError(f"{by}: row {row} of {name!r} is not there, or was overwritten")

    def _write(self, number: int, right: list[bool]) -> None:
        """Write a tensor; some of its rows are right."""
        tensor = self.tiled.tensors[number]
        low, high = self._range(number)
        self.memory.forget(low, high)
        self.end = max(self.end, low + self.rows.rounded(tensor.size) if high else 0)
        width, what, first = self._width(tensor), self._what(number), 0
        while first < len(right) and high:
            last = first
            while last < len(right) and right[last]:
                last += 1
            self.memory.put(low + first * width, low + last * width, what)
            first = max(last, first + 1)

    def _start(self) -> None:
        """Put the inputs of the graph into the slab before the first op runs."""
        users = {b for op in self.graph.ops for b in (*op.reads, *op.uses)}
        given = []
        for number, tensor in enumerate(self.tiled.tensors):
            buffer = self.graph.buffers[tensor.buffer]
            is_there = tensor.buffer in users or buffer.output is not None
            if buffer.input is not None and self._stands_for(tensor) and is_there:
                self._write(number, [True] * self._count(tensor))
                given.append(number)
        for number in given:
            self._need(number, "before the first op")

    def _run(self, v: int, op: TiledOp) -> None:
        name = self.tiled.graph.ops[v].name
        if op.kind is TiledKind.SLICE or op.kind is TiledKind.JOIN:
            self._move(name, op)
        else:
            right = self._whole(name, op) if op.kind is TiledKind.WHOLE else self._band(name, op)
            self._check_apart(v, name, op)
            for number in op.writes:
                self._write(number, right or [True] * self._count(self.tiled.tensors[number]))

    def _check_apart(self, v: int, name: str, op: TiledOp) -> None:
        """Raise an error if an op writes bytes that it reads; its workspace is overwritten."""
        written = [self._range(t) for t in op.writes]
        scratch = self.tiled.graph.ops[v].workspace
        if scratch is not None and (at := self.plan.offsets[scratch]) is not None:
            size = self.tiled.graph.buffers[scratch].size
            written.append((at, at + size))
            self.end = max(self.end, at + size)
            self._check_scratch(name, op, size)
        read = [self._range(t) for _, t in op.reads]
        for i, (low, high) in enumerate(written):
            for a, b in read + written[:i]:
                if max(low, a) < min(high, b):
                    raise PlanError(f"op {name!r} writes bytes that it reads, or writes twice")
        for low, high in written:
            self.memory.forget(low, high)

    def _check_scratch(self, name: str, op: TiledOp, size: int) -> None:
        """Raise an error if an op has less workspace than its rows need."""
        assert op.op is not None
        own, source = self.rows.ops[op.op], self.graph.ops[op.op]
        if op.kind is TiledKind.BAND and isinstance(own, RowOp):
            count = self.tiled.tensors[op.writes[0]].rows
            needed = own.scratch[0] + own.scratch[1] * count
        else:
            needed = 0 if source.workspace is None else self.graph.buffers[source.workspace].size
        if size < needed:
            raise PlanError(f"op {name!r} has {size} bytes of workspace, it needs {needed}")

    def _whole(self, name: str, op: TiledOp) -> list[bool]:
        """Check an op that runs as it is."""
        if op.op is None:
            raise PlanError(f"op {name!r} is not in the untiled graph")
        source, own = self.graph.ops[op.op], self.rows.ops[op.op]
        if {b for b, _ in op.reads} != {*source.reads, *source.uses}:
            raise PlanError(f"op {name!r} does not read what the untiled op reads")
        for b, t in op.reads:
            tensor = self.tiled.tensors[t]
            if tensor.buffer != b or not self._is_whole(tensor):
                raise PlanError(f"op {name!r} reads a part of {tensor.name!r} as a whole")
            self._need(t, f"op {name!r}")
        written = [b for b in source.writes if b != source.workspace]
        if [self.tiled.tensors[t].buffer for t in op.writes] != written or not all(
            self._is_whole(self.tiled.tensors[t]) for t in op.writes
        ):
            raise PlanError(f"op {name!r} does not write what the untiled op writes")
        if isinstance(own, RowOp):
            self.computed += own.cost * self.rows.heights[own.output]
        return []

    def _band(self, name: str, op: TiledOp) -> list[bool]:
        """Check an op that runs on a band, and return which of its rows are right."""
        own = self.rows.ops[op.op] if op.op is not None else ""
        if not isinstance(own, RowOp) or op.op is None or len(op.writes) != 1:
            raise PlanError(f"op {name!r} runs on a band, which its untiled op cannot")
        out = self.tiled.tensors[op.writes[0]]
        given = dict(op.reads)
        source = self.graph.ops[op.op]
        if out.buffer != own.output or given.keys() != {*source.reads, *source.uses}:
            raise PlanError(f"op {name!r} does not read or write what the untiled op does")
        mapped = {x.buffer: x for x in own.maps}
        right = [True] * out.rows
        for b, t in given.items():
            tensor = self.tiled.tensors[t]
            if tensor.buffer != b:
                raise PlanError(f"op {name!r} reads {tensor.name!r} for another buffer")
            if b not in mapped:
                if not self._is_whole(tensor):
                    raise PlanError(f"op {name!r} reads a part of {tensor.name!r} as a whole")
                self._need(t, f"op {name!r}")
                continue
            height = self.rows.heights[b]
            self._check_kernel(name, own, mapped[b], tensor, out)
            there = self._right(t)
            for k in range(out.rows):
                low, high = _demand(mapped[b], out.first + k, height)
                if low == high:
                    # A row of padding alone.
                    continue
                inside = tensor.first <= low and high <= tensor.first + tensor.rows
                rows = there[low - tensor.first : high - tensor.first] if inside else [False]
                right[k] &= all(rows)
        self.computed += own.cost * out.rows
        return right

    def _check_kernel(
        self, name: str, op: RowOp, x: RowMap, tensor: TiledTensor, out: TiledTensor
    ) -> None:
        """Raise an error unless a kernel that is given these rows makes the rows of its output."""
        height, first, count = self.rows.heights[x.buffer], tensor.first, tensor.rows
        if op.rule is RowRule.SCALED:
            makes = (first * x.up, count * x.up + op.more)
        elif op.rule is RowRule.SAME:
            made = (count + x.stride - 1) // x.stride
            above = max((made - 1) * x.stride + x.window - count, 0) // 2
            # The kernel's first window begins `above` rows before the first row it is given.
            start, rest = divmod(first - above + x.pad, x.stride)
            makes = (start, made) if rest == 0 else (-1, 0)
        else:
            wanted = [_demand(x, row, height) for row in range(out.first, out.first + out.rows)]
            # Rows of padding alone need none.
            wanted = [(a, b) for a, b in wanted if a < b] or [(0, 0)]
            low, high = min(a for a, _ in wanted), max(b for _, b in wanted)
            makes = (out.first, out.rows) if (first, first + count) == (low, high) else (-1, 0)
        if makes != (out.first, out.rows):
            raise PlanError(
                f"op {name!r} does not make rows {out.first} to {out.first + out.rows - 1} of the "
                f"rows {first} to {first + count - 1} that it is given"
            )

    def _move(self, name: str, op: TiledOp) -> None:
        """Check an op that slices or joins: rows move to where they lie already, or elsewhere."""
        (number,) = op.writes
        out = self.tiled.tensors[number]
        width, low = self._width(out), self._range(number)[0]
        right = [False] * out.rows
        covered = 0
        for _, t in op.reads:
            tensor = self.tiled.tensors[t]
            if tensor.buffer != out.buffer:
                raise PlanError(f"op {name!r} moves rows of another buffer")
            there = self._right(t)
            if op.kind is TiledKind.JOIN:
                self._need(t, f"op {name!r}")
            first = max(out.first, tensor.first)
            last = min(out.first + out.rows, tensor.first + tensor.rows)
            at = self._range(t)[0] + (first - tensor.first) * width
            to = low + (first - out.first) * width
            start, end = self._range(t)
            if at != to and max(start, low) < min(end, low + out.rows * width):
                raise PlanError(f"op {name!r} overwrites rows that it moves")
            for row in range(first, last):
                right[row - out.first] = there[row - tensor.first]
            covered += max(0, last - first)
            if op.kind is TiledKind.JOIN and last - first != tensor.rows:
                raise PlanError(f"op {name!r} joins rows that are not in its result")
        if covered != out.rows or not all(right):
            raise PlanError(f"op {name!r} does not have the rows that it should make")
        self._write(number, right)


def _demand(x: RowMap, row: int, height: int) -> tuple[int, int]:
    """Return the half-open rows of an input that a row of the output depends on."""
    start = row * x.stride - x.pad
    low, high = start // x.up, -(-(start + x.window) // x.up)
    low, high = max(0, low), min(height, high)
    return (low, high) if low < high else (low, low)
