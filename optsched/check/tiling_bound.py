"""Check that no tiling in rows has a smaller head: one op needs these bytes, whole or in any stage.

A certificate names the op. The checker lists all stages with this op: sets of row-local ops, each
making a tensor that the stage alone reads, by rows, but for the last op. For each number of
bands it goes through the runs of a stage and adds up what is live: rows of inputs that this run or
a later one reads, rows of the result that are there, what the band has made and still reads, and
tensors that an earlier op makes for a later one. Some step must have at least the certified bytes,
in both directions. The code is not that of the planner.

Example: an op reads 40 bytes and writes 40. As it is it needs 80 bytes. In 4 bands it needs 50 at
the fullest step, and no stage with other ops needs less. So no tiling has a head below 50.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from optsched.errors import PlanError
from optsched.model.rows import RowMap, RowOp, RowRule, Rows

MOST_STAGES = 20_000
"""More stages with one op are not examined, so that no file can occupy the checker for hours."""


@dataclass(frozen=True, slots=True)
class TilingCertificate:
    """The claim that no tiling into up to `bands` bands has a head below `bound`, due to an op."""

    bound: int
    bands: int
    op: int


@dataclass(frozen=True, slots=True)
class _Run:
    """An op on a band: rows of each input, by buffer, and the rows that it makes."""

    op: int
    inputs: dict[int, tuple[int, int]]
    output: tuple[int, int]
    good: tuple[int, int]


def check_tiling_bound(rows: Rows, certificate: TilingCertificate) -> None:
    """Raise an error unless a certificate holds.

    Raise `PlanError` if the op can run with fewer bytes, or is in too many stages to examine.
    """
    _Bound(rows, certificate).check()


class _Bound:
    def __init__(self, rows: Rows, certificate: TilingCertificate) -> None:
        self.rows, self.graph = rows, rows.graph
        self.bound, self.bands = certificate.bound, certificate.bands
        if not 0 <= certificate.op < len(self.graph.ops) or self.bands < 2:
            raise PlanError(f"{self.graph.name}: a certificate names an op and a number of bands")
        self.op = certificate.op
        self.users: list[set[int]] = [set() for _ in self.graph.buffers]
        for v, op in enumerate(self.graph.ops):
            for b in (*op.reads, *op.uses):
                self.users[self.graph.roots[b]].add(v)
        self.after = self._closure()
        self.wanted: dict[tuple[int, int], range] = {}

    def _closure(self) -> list[set[int]]:
        """Return by op all ops that must run after it."""
        next_: list[list[int]] = [[] for _ in self.graph.ops]
        for v, row in enumerate(self.graph.predecessors):
            for u in row:
                next_[u].append(v)
        found: list[set[int]] = []
        for v in range(len(next_)):
            seen: set[int] = set()
            stack = list(next_[v])
            while stack:
                u = stack.pop()
                if u not in seen:
                    seen.add(u)
                    stack += next_[u]
            found.append(seen)
        return found

    def check(self) -> None:
        name = self.graph.ops[self.op].name
        used = self.graph.ops[self.op]
        own = {self.graph.roots[b] for b in (*used.reads, *used.writes, *used.uses)}
        needed = self._bytes(own) + self._left(self._held([self.op]) - own)
        if needed < self.bound:
            raise PlanError(f"op {name!r} needs {needed:,} bytes as it is, not {self.bound:,}")
        for number, stage in enumerate(self._stages()):
            if number >= MOST_STAGES:
                raise PlanError(f"op {name!r} is in too many stages to examine")
            self._check_stage(name, stage)

    def _bytes(self, buffers: set[int]) -> int:
        rows = (self.graph.buffers[b] for b in buffers)
        return sum(buffer.size for buffer in rows if not buffer.external)

    def _left(self, buffers: set[int]) -> int:
        """Return bytes of buffers that stay live until their last reader, whichever it is."""
        return sum(self._least(b) for b in buffers if not self.graph.buffers[b].external)

    def _least(self, b: int) -> int:
        size, height = self.graph.buffers[b].size, self.rows.heights[b]
        if not self.users[b] or self.graph.kept[b] or not height:
            return size
        fewest = min(len(self._rows_wanted(v, b)) for v in self.users[b])
        return size if fewest >= height else min(size, fewest * self.rows.row_bytes[b])

    def _rows_wanted(self, v: int, b: int) -> range:
        if (v, b) not in self.wanted:
            self.wanted[v, b] = self._find_wanted(v, b)
        return self.wanted[v, b]

    def _find_wanted(self, v: int, b: int) -> range:
        """Return the rows of a buffer that an op reads in any tiling, from the first to the last.

        A result that leaves a stage has all rows; inside, those that its readers want.
        """
        own, every = self.rows.ops[v], range(self.rows.heights[b])
        if not isinstance(own, RowOp) or b not in {x.buffer for x in own.maps}:
            return every
        made = range(self.rows.heights[own.output])
        if self.users[own.output] and self.graph.buffers[own.output].output is None:
            inner = [self._rows_wanted(u, own.output) for u in self.users[own.output]]
            ends = [row for rows in inner if rows for row in (rows[0], rows[-1])]
            made = range(min(ends), max(ends) + 1) if ends else range(0)
        if not made:
            return range(0)
        x = next(x for x in own.maps if x.buffer == b)
        low = (made[0] * x.stride - x.pad) // x.up
        high = (made[-1] * x.stride - x.pad + x.window - 1) // x.up
        return range(max(0, low), min(len(every), high + 1))

    def _held(self, ops: Sequence[int]) -> set[int]:
        """Return what is live while ops run, in any order: made before, and read after them."""
        own, later = set(ops), set().union(*(self.after[v] for v in ops)) - set(ops)
        found = set()
        for b, buffer in enumerate(self.graph.buffers):
            maker = self.graph.producers[b]
            is_before = (
                buffer.input is not None
                if maker is None
                else maker not in own and any(v in self.after[maker] for v in own)
            )
            stays = self.graph.kept[b] or self.users[b] & later
            if self.graph.roots[b] == b and is_before and stays:
                found.add(b)
        return found

    def _stages(self) -> Iterator[tuple[int, ...]]:
        """Yield all stages that hold the op, each with its ops ascending."""
        seen: set[frozenset[int]] = set()
        for last in sorted({self.op, *self.after[self.op]}):
            first = self._closed({self.op, last}, last)
            stack = [] if first is None else [first]
            while stack:
                stage = stack.pop()
                if stage in seen:
                    continue
                seen.add(stage)
                yield tuple(sorted(stage))
                for u in self._before(stage):
                    larger = self._closed({*stage, u}, last)
                    if larger is not None:
                        stack.append(larger)

    def _closed(self, ops: set[int], last: int) -> frozenset[int] | None:
        """Return ops with all that read what they make, except of the last; None if impossible."""
        found: set[int] = set()
        stack = list(ops)
        while stack:
            v = stack.pop()
            own = self.rows.ops[v]
            if v in found:
                continue
            if not isinstance(own, RowOp) or (v != last and last not in self.after[v]):
                return None
            found.add(v)
            if v != last:
                if self.graph.buffers[own.output].output is not None or not self.users[own.output]:
                    return None
                stack += self.users[own.output]
        inner = {x.output for v in found if v != last and isinstance(x := self.rows.ops[v], RowOp)}
        for v in found:
            own = self.rows.ops[v]
            assert isinstance(own, RowOp)
            read = {*self.graph.ops[v].reads, *self.graph.ops[v].uses}
            if inner & (read - {x.buffer for x in own.maps}):
                return None
        return frozenset(found)

    def _before(self, stage: frozenset[int]) -> set[int]:
        """Return ops outside of a stage that make what it reads."""
        read = {b for v in stage for b in self.graph.ops[v].reads}
        return {u for b in read if (u := self.graph.producers[b]) is not None} - stage

    def _check_stage(self, name: str, stage: tuple[int, ...]) -> None:
        own = set(stage)
        made = {b for v in stage for b in self.graph.ops[v].writes}
        read = {b for v in stage for b in (*self.graph.ops[v].reads, *self.graph.ops[v].uses)}
        later = set().union(*(self.after[v] for v in stage)) - own
        inputs = {b for b in read - made if not self.graph.buffers[b].external}
        dying = {b for b in inputs if not self.graph.kept[b] and not self.users[b] & later}
        held = self._left(self._held(stage) - dying)
        result = self._op(stage[-1]).output
        # Enough without any rows: inputs are there at the start, the whole result at the end.
        if held + max(self._left(dying), self.graph.buffers[result].size) >= self.bound:
            return
        for bands in range(2, min(self.bands, self.rows.heights[result]) + 1):
            runs = [self._runs(stage, band, bands) for band in range(bands)]
            if any(row is None for row in runs):
                continue
            for order in (range(bands), reversed(range(bands))):
                row = [run for band in order for run in runs[band] or ()]
                if not self._reaches(row, len(stage), dying, held):
                    ops = f"{len(stage)} ops" if len(stage) > 1 else "1 op"
                    raise PlanError(
                        f"op {name!r} runs with fewer than {self.bound:,} bytes in a stage of "
                        f"{ops} in {bands} bands"
                    )

    def _op(self, v: int) -> RowOp:
        op = self.rows.ops[v]
        assert isinstance(op, RowOp)
        return op

    def _runs(self, stage: tuple[int, ...], band: int, bands: int) -> list[_Run] | None:
        """Return the runs of a band; None if one is impossible."""
        height = self.rows.heights[self._op(stage[-1]).output]
        good = (band * height // bands, (band + 1) * height // bands)
        wanted = {self._op(stage[-1]).output: good}
        found: list[_Run] = []
        for v in reversed(stage):
            own = self._op(v)
            first, last = wanted[own.output]
            inputs, made = {}, set()
            for x in own.maps:
                low, high, output = _fewest(self.rows, own, x, first, last)
                inputs[x.buffer] = (low, high)
                made.add(output)
                old = wanted.get(x.buffer, (low, high))
                wanted[x.buffer] = (min(old[0], low), max(old[1], high))
            if len(made) != 1 or None in made:
                return None
            for b in {*self.graph.ops[v].reads, *self.graph.ops[v].uses} - inputs.keys():
                inputs[b] = (0, max(1, self.rows.heights[b]))
            output = made.pop()
            assert output is not None
            found.append(_Run(v, inputs, output, good))
        return found[::-1]

    def _reaches(self, runs: list[_Run], length: int, dying: set[int], held: int) -> bool:
        """Return True if some step of a stage has the certified bytes."""
        result, there = self._op(runs[-1].op).output, self._rows_read(runs, dying)
        width, size = self.rows.row_bytes[result], self.graph.buffers[result].size
        done = 0
        for at in range(0, len(runs), length):
            band = runs[at : at + length]
            first, last = band[-1].good
            share = (size if last == self.rows.heights[result] else last * width) - first * width
            direct = band[-1].output == band[-1].good
            for k, run in enumerate(band):
                scratch = self._op(run.op).scratch
                rows = run.output[1] - run.output[0]
                live = held + there[at + k] + done
                live += self.rows.rounded(scratch[0] + scratch[1] * rows)
                live += self._inner(band, k, direct)
                live += share if direct and k == length - 1 else 0
                if live >= self.bound:
                    return True
            if not direct:
                copied = self.rows.rounded((band[-1].output[1] - band[-1].output[0]) * width)
                after = there[at + length] if at + length < len(runs) else 0
                if held + after + done + share + copied >= self.bound:
                    return True
            done += share
        return False

    def _inner(self, band: list[_Run], k: int, direct: bool) -> int:
        """Return the bytes that a band has made and that this run or a later one reads."""
        total = 0
        for i, run in enumerate(band[: k + 1]):
            b = self._op(run.op).output
            is_read = any(b in later.inputs for later in band[max(k, i + 1) :])
            is_last = i == len(band) - 1
            if (is_last and not direct) or (not is_last and (i == k or is_read)):
                rows = run.output[1] - run.output[0]
                total += self.rows.rounded(rows * self.rows.row_bytes[b])
        return total

    def _rows_read(self, runs: list[_Run], dying: set[int]) -> list[int]:
        """Return by run the bytes of dying inputs that it or a later run reads."""
        found = [0] * len(runs)
        for b in dying:
            height, width = max(1, self.rows.heights[b]), self.rows.row_bytes[b]
            size = self.graph.buffers[b].size
            low, high = height, 0
            for i in reversed(range(len(runs))):
                if b in runs[i].inputs:
                    low, high = min(low, runs[i].inputs[b][0]), max(high, runs[i].inputs[b][1])
                # Rows at the ends that no op reads may be dead.
                end = size if high == height else high * width
                found[i] += max(0, end - low * width) if high else 0
        return found


def _fewest(
    rows: Rows, op: RowOp, x: RowMap, first: int, last: int
) -> tuple[int, int, tuple[int, int] | None]:
    """Return the fewest input rows with which a kernel makes rows `[first, last)` right.

    The last value is the rows that it makes; None if no rows do.
    """
    height = rows.heights[x.buffer]
    need = range(first * x.stride - x.pad, (last - 1) * x.stride - x.pad + x.window)
    low, high = max(0, need.start // x.up), min(height, -(-need.stop // x.up))
    steps = rows.step(y.buffer for y in op.maps), rows.step([op.output])
    most = 2 * (x.window + x.stride) + steps[0] * steps[1] * x.stride
    for added in count() if low < high else ():
        if added >= most:
            break
        for above in range(added + 1):
            a, b = low - above, high + added - above
            made = _made(op, x, height, a, b, (first, last, above, added))
            if a >= 0 and b <= height and made is not None:
                start, end = made
                if start <= first and end >= last and not (a % steps[0] or start % steps[1]):
                    return a, b, made
    return 0, 0, None


def _made(
    op: RowOp, x: RowMap, height: int, a: int, b: int, asked: tuple[int, int, int, int]
) -> tuple[int, int] | None:
    """Return the rows that a kernel makes of rows `[a, b)`; None if they fit no rows."""
    first, last, above, added = asked
    if op.rule is RowRule.EXACT:
        # It is told what to pad; rows are added above alone, for the alignment of views.
        fits = above == added and above % x.stride == 0
        return (first - above // x.stride, last) if fits else None
    if op.rule is RowRule.SCALED:
        return (a * x.up, b * x.up + op.more)
    number, whole = -(-(b - a) // x.stride), -(-height // x.stride)
    top = max((number - 1) * x.stride + x.window - (b - a), 0) // 2
    start, rest = divmod(a - top + x.pad, x.stride)
    return (start, start + number) if rest == 0 and 0 <= start <= whole - number else None
