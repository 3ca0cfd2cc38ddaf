"""XLA's `ScheduleModule` and its heap simulator as they are written, on objects and with recursion.

The three schedulers of a computation are those of `reference_xla`. This module makes their input:
points-to sets, logical buffers, and the memory of called computations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from optsched.formats.hlo.text import Computation, HloModule
from tests.heuristics.reference_xla import (
    Instruction,
    depth_first_sequence,
    full_post_order,
    list_sequence,
)

CALLERS = ("while", "call", "conditional")


@dataclass(eq=False)
class LogicalBuffer:
    id: int
    size: int
    instruction: str
    opcode: str


@dataclass
class PointsTo:
    """One node of the tree: the buffers here, and what is below."""

    buffers: list[LogicalBuffer]
    parts: list[PointsTo] = field(default_factory=list)

    def flat(self) -> list[LogicalBuffer]:
        found = list(self.buffers)
        for part in self.parts:
            found += part.flat()
        return list(dict.fromkeys(found))


class Analysis:
    """Points-to sets of one computation, and the buffers that each instruction defines."""

    def __init__(self, computation: Computation, pointer_bytes: int) -> None:
        self.pointer_bytes = pointer_bytes
        self.points: dict[str, PointsTo] = {}
        self.defined: dict[str, list[LogicalBuffer]] = {}
        self.count = 0
        for made in computation.instructions.values():
            operands = [self.points[x] for x in made.operands]
            whole = self.whole(made, made.shape)
            if made.opcode == "get-tuple-element":
                # A member of a tuple: the buffers of that part.
                found = operands[0].parts[made.index]
            elif made.opcode in ("bitcast", "add-dependency"):
                found = operands[0]
            elif made.opcode == "copy":
                # A copied tuple has a table of its own and shares the parts.
                found = PointsTo(whole.buffers, operands[0].parts)
            elif made.opcode == "tuple":
                found = PointsTo(whole.buffers, operands)
            else:
                found = whole
            self.points[made.name] = found
            # Numbered in the order of definition, which breaks ties.
            mine = [b for b in found.flat() if b.instruction == made.name]
            for b in mine:
                b.id, self.count = self.count, self.count + 1
            self.defined[made.name] = mine

    def whole(self, made: Any, shape: Any) -> PointsTo:
        """Every part its own buffer."""
        if isinstance(shape, tuple):
            own = LogicalBuffer(-1, self.pointer_bytes * len(shape), made.name, made.opcode)
            return PointsTo([own], [self.whole(made, part) for part in shape])
        return PointsTo([LogicalBuffer(-1, shape.size, made.name, made.opcode)])


class Heap:
    """`NoFragmentationStatsHeap`, and the times at which everything came and went."""

    def __init__(self) -> None:
        self.current = self.largest = self.time = 0
        self.rows: list[list[int]] = []
        self.open: dict[LogicalBuffer, list[int]] = {}

    def alloc(self, b: LogicalBuffer) -> None:
        self.current += b.size
        self.largest = max(self.largest, self.current)
        # Buffers without bytes come and go without a moment of their own.
        if b.size:
            self.open[b] = [self.time, -1, b.size]
            self.rows.append(self.open[b])
            self.time += 1

    def free(self, b: LogicalBuffer) -> None:
        self.current -= b.size
        if b.size:
            self.open.pop(b)[1] = self.time
            self.time += 1


class ReferenceScheduler:
    def __init__(self, parsed: HloModule, pointer_bytes: int) -> None:
        self.parsed, self.pointer_bytes = parsed, pointer_bytes
        fused = {
            name
            for c in parsed.computations.values()
            for made in c.instructions.values()
            if made.opcode == "fusion"
            for name in made.called
        }
        self.names = [name for name in parsed.computations if name not in fused]
        self.fused = fused
        self.memory: dict[str, int] = {}
        self.sequences: dict[str, list[str]] = {}
        self.analyses = {
            name: Analysis(parsed.computations[name], pointer_bytes) for name in self.names
        }

    def schedule(self, algorithm: str) -> None:
        """`ScheduleModule`: callees stand before their callers."""
        for name in self.names:
            self.sequences[name] = self.choose(name, algorithm)
            self.memory[name] = self.minimum(name, self.sequences[name])

    def choose(self, name: str, algorithm: str) -> list[str]:
        if algorithm != "xla_default":
            return self.sequence(name, algorithm)
        best = self.sequence(name, "xla_list")
        for other in ("xla_dfs", "xla_post_order"):
            found = self.sequence(name, other)
            if self.minimum(name, found) < self.minimum(name, best):
                best = found
        return best

    def sequence(self, name: str, algorithm: str) -> list[str]:
        computation, analysis = self.parsed.computations[name], self.analyses[name]
        every = [b for made in analysis.defined.values() for b in made]
        nodes: dict[str, Instruction] = {}
        for number, made in enumerate(computation.instructions.values()):
            node = nodes[made.name] = Instruction(made.name, number)
            node.ignored = made.opcode in ("parameter", "constant")
            own = 0 if node.ignored else sum(b.size for b in analysis.defined[made.name])
            node.defined = own
            if algorithm == "xla_list":
                largest = max([0, *(self.memory[c] for c in made.called if c in self.memory)])
                # What is called counts instead of the result, which is the callee's root.
                if largest and made.opcode in CALLERS:
                    node.defined = largest
                else:
                    node.defined = own + largest
            for x in made.operands:
                node.operands.append(nodes[x])
                if node not in nodes[x].users:
                    nodes[x].users.append(node)
                node.uses |= {b.id for b in analysis.points[x].flat()}
            for x in made.control:
                node.control_before.append(nodes[x])
                nodes[x].control_after.append(node)
        module = list(nodes.values())
        if algorithm == "xla_list":
            ignored = ("parameter", "constant")
            size = [0 if b.opcode in ignored else b.size for b in every]
            live_out = [b.id for b in analysis.points[computation.root].flat()]
            found = list_sequence(module, size, live_out)
        elif algorithm == "xla_dfs":
            root = nodes[computation.root]
            # Instructions that nobody uses come first; XLA walks backwards from these as well.
            lost = [x for x in module if not x.users and not x.control_after and x is not root]
            total = sum(len(c.instructions) for c in self.parsed.computations.values())
            found = depth_first_sequence(module, total, [*lost, root])
        else:
            found = full_post_order(module)
        return [x.name for x in found]

    def minimum(self, name: str, sequence: list[str]) -> int:
        """`MinimumMemoryForComputation`."""
        heap = Heap()
        self.run(name, sequence, heap, whole=False)
        return heap.largest

    def module_heap(self) -> Heap:
        """Run the entry, and all that it runs in turn."""
        heap = Heap()
        self.run(self.parsed.entry, self.sequences[self.parsed.entry], heap, whole=True)
        return heap

    def run(self, name: str, sequence: list[str], heap: Heap, *, whole: bool) -> None:
        """`RunComputation`: a buffer is freed when nobody is left who has to visit it."""
        computation, analysis = self.parsed.computations[name], self.analyses[name]
        pending = self.users(name)
        results = analysis.points[computation.root].flat()
        left: list[LogicalBuffer] = []
        for step in sequence:
            made = computation.instructions[step]
            defined = [b for b in analysis.defined[step] if b.opcode != "constant"]
            dead = []
            for b in defined:
                heap.alloc(b)
                # The caller of the module holds parameters and results.
                stays = made.opcode == "parameter" and name == self.parsed.entry
                if stays or b in results:
                    pending.setdefault(b, set()).add("the end")
                    left.append(b)
                elif b not in pending:
                    dead.append(b)
            self.enter(made, heap, sum(b.size for b in defined), whole=whole)
            for b in [*dead, *visited(pending, step)]:
                heap.free(b)
        for b in sorted(left, key=lambda b: b.id):
            heap.free(b)

    def users(self, name: str) -> dict[LogicalBuffer, set[str]]:
        """Return the instructions that must be visited before a buffer is freed."""
        computation, analysis = self.parsed.computations[name], self.analyses[name]
        found: dict[LogicalBuffer, set[str]] = {}
        for user in computation.instructions.values():
            for x in user.operands:
                points = analysis.points[x]
                kept = points.flat()
                if user.opcode == "get-tuple-element":
                    kept = [*points.buffers, *analysis.points[user.name].flat()]
                for b in kept:
                    found.setdefault(b, set()).add(user.name)
        return found

    def enter(self, made: Any, heap: Heap, allocated: int, *, whole: bool) -> None:
        """Run what is called, or account for it."""
        if whole:
            for callee in made.called if made.opcode in CALLERS else ():
                self.run(callee, self.sequences[callee], Relabeled(heap), whole=True)
            return
        largest = max([0, *(self.memory[c] for c in made.called if c in self.memory)])
        if largest > 0 and made.opcode in CALLERS:
            # The result of a caller is inside of what the callee has counted.
            largest -= allocated
        heap.largest = max(heap.largest, heap.current + largest)


def visited(pending: dict[LogicalBuffer, set[str]], step: str) -> list[LogicalBuffer]:
    """Take a step off what has to be visited; return what nobody needs any more."""
    over = []
    for b, users in pending.items():
        if step in users:
            users.discard(step)
            if not users and b.opcode != "constant":
                over.append(b)
    return sorted(over, key=lambda b: b.id)


class Relabeled(Heap):
    """A heap in which a computation that runs again has other buffers."""

    def __init__(self, heap: Heap) -> None:
        self.heap, self.open = heap, {}

    def alloc(self, b: LogicalBuffer) -> None:
        self.open[b] = LogicalBuffer(b.id, b.size, b.instruction, b.opcode)  # type: ignore[assignment]
        self.heap.alloc(self.open[b])  # type: ignore[arg-type]

    def free(self, b: LogicalBuffer) -> None:
        self.heap.free(self.open.pop(b))  # type: ignore[arg-type]


def best_fit(rows: list[list[int]], alignment: int) -> int:
    """`GlobalDecreasingSizeBestFitHeap`: the largest first, each in the tightest hole."""
    placed: list[tuple[int, int, int, int]] = []
    # By size, then by lifetime, then by start.
    for start, end, size in sorted(rows, key=lambda r: (-r[2], -(r[1] - r[0]), r[0])):
        taken = sorted((low, high) for s, e, low, high in placed if s < end and start < e)
        best, at, room = None, 0, None
        for low, high in taken:
            # Tightest: the smallest hole that is large enough, the lowest among equals.
            if at + size <= low and (room is None or low - at < room):
                best, room = at, low - at
            at = max(at, -(-high // alignment) * alignment)
        offset = at if best is None else best
        placed.append((start, end, offset, offset + size))
    return max([0, *(row[3] for row in placed)])
