"""Model of a module as in XLA's memory schedulers: instructions are ops, logical buffers count.

An instruction's own buffers differ from those it points to. A tuple defines its index table and
points to the buffers of its parts; `get-tuple-element`, `bitcast` and similar instructions define
nothing. Constants and arrays outside of the device's memory have no bytes. Parameters of the
entry stay live to its end, those of other computations until their last use, and results to the
end. A computation shares nothing with its callers: a computation that an op runs needs additional
memory, minus the bytes of the results of a while, call or conditional, which are those of the
callee's root.

References
----------
xla/service/hlo_memory_scheduler.cc, xla/service/tuple_points_to_analysis.cc and
xla/service/heap_simulator.cc of spring 2019.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from optsched.formats.format import Source
from optsched.formats.hlo.inplace import SAME, UPDATES, may_overwrite
from optsched.formats.hlo.read import CALLERS, DEVICE
from optsched.formats.hlo.shapes import ShapeTree, parts_of
from optsched.formats.hlo.text import Computation, HloModule, Instruction, parse_module
from optsched.model.builder import GraphBuilder
from optsched.model.elements import OutputPolicy
from optsched.model.graph import Graph
from optsched.model.logical import LogicalComputation, LogicalModule
from optsched.model.module import Call

POINTER_BYTES: Final = 8
"""Bytes of a row in the index table of a tuple."""
MEMORY_MODEL: Final = "xla's memory scheduler; every instruction is an op"
IGNORED: Final = ("parameter", "constant")
"""Opcodes whose bytes the list scheduler leaves out of its priorities."""

_Path: TypeAlias = tuple[int, ...]
_Points: TypeAlias = dict[_Path, tuple[str, ...]]
"""The buffers that each part of a value may be, by their names."""


def read_logical_module(source: Source, *, pointer_bytes: int = POINTER_BYTES) -> LogicalModule:
    """Make a module of all computations of an HLO text but those that are fused.

    `pointer_bytes` is of each row of a tuple's index table; 0 if tables are not to count. Errors
    are those of :func:`optsched.formats.hlo.read.read_hlo`.
    """
    parsed = parse_module(source.text)
    every = [x for c in parsed.computations.values() for x in c.instructions.values()]
    # Fused computations run inside an op and have no buffers.
    fused = {name for made in every if made.opcode == "fusion" for name in made.called}
    graphs: dict[str, Graph] = {}
    logical: dict[str, LogicalComputation] = {}
    calls: list[Call] = []
    for name, computation in parsed.computations.items():
        if name in fused:
            continue
        reader = _LogicalReader(parsed, computation, pointer_bytes)
        graphs[name] = reader.graph()
        logical[name] = reader.logical(graphs[name])
        for made in computation.instructions.values():
            callees = tuple(c for c in made.called if c not in fused)
            if callees:
                calls.append(Call(name, made.name, callees, made.opcode in CALLERS))
    return LogicalModule(
        parsed.name, graphs, parsed.entry, tuple(calls), logical=logical, instructions=len(every)
    )


@dataclass
class _LogicalReader:
    """Builder of the graph of a computation's logical buffers."""

    parsed: HloModule
    computation: Computation
    pointer_bytes: int
    points: dict[str, _Points] = field(default_factory=dict)

    def graph(self) -> Graph:
        """Return the graph: what each instruction defines, and keeps alive."""
        is_entry = self.computation.name == self.parsed.entry
        # Listed order, as operands come before users.
        build = GraphBuilder(self.computation.name, MEMORY_MODEL)
        for made in self.computation.instructions.values():
            points = self.points[made.name] = self._points_to(made)
            defined = self._defined(made)
            kept = [b for x in made.operands for b in self._kept_alive(made, x)]
            build.op(
                made.name,
                # A value is kept by all who can reach it through tuples.
                reads=dict.fromkeys(kept),
                writes=defined,
                # Operands are edges of their own: an instruction may read no bytes of one.
                control=dict.fromkeys((*made.operands, *made.control)),
                kind=made.opcode,
            )
            self._allow_in_place(build, made, points)
            if is_entry and made.opcode == "parameter":
                build.output(*defined, policy=OutputPolicy.LIVE)
        for name in dict.fromkeys(_flat(self.points[self.computation.root])):
            build.output(name, policy=OutputPolicy.LIVE)
        return build.build()

    def logical(self, graph: Graph) -> LogicalComputation:
        """Return the facts besides the graph that the schedulers ask for."""
        ops, buffers = graph.op_ids, graph.buffer_ids
        listed = list(self.computation.instructions.values())
        used = ([b for x in made.operands for b in _flat(self.points[x])] for made in listed)
        return LogicalComputation(
            operands=tuple(tuple(ops[x] for x in made.operands) for made in listed),
            control=tuple(tuple(ops[x] for x in made.control) for made in listed),
            uses=tuple(tuple({buffers[b]: None for b in names}) for names in used),
            live_out=frozenset(buffers[b] for b in _flat(self.points[self.computation.root])),
            ignored=frozenset(v for v, made in enumerate(listed) if made.opcode in IGNORED),
            root=ops[self.computation.root],
        )

    def _points_to(self, made: Instruction) -> _Points:
        """Return the buffers that each part of a result may be: those of operands, or new ones."""
        points: _Points = {path: (_name(made, path),) for path, _ in parts_of(made.shape)}
        given = [self.points[x] for x in made.operands]
        # Without operands there is nothing to pass on.
        match made.opcode if given else "":
            case "get-tuple-element":
                points = _below(given[0], made.index)
            case opcode if opcode in SAME:
                points = given[0]
            case "copy":
                # A copy of a tuple copies the table, not what it points to.
                points = {**given[0], (): points[()]}
            case "tuple":
                parts = {(i, *path): x for i, row in enumerate(given) for path, x in row.items()}
                points = {(): points[()], **parts}
            case "send":
                points |= {(0, *path): x for path, x in given[0].items()}
            case "recv-done":
                points |= {(0, *path): x for path, x in _below(given[0], 0).items()}
        return points

    def _defined(self, made: Instruction) -> dict[str, int]:
        """Return the buffers that an instruction is the source of, and their bytes."""
        points = self.points[made.name]
        found = {}
        for path, part in parts_of(made.shape):
            name = _name(made, path)
            # A name that was replaced belongs to another instruction.
            if name in points.get(path, ()):
                found[name] = 0 if made.opcode == "constant" else self._bytes(part)
        return found

    def _bytes(self, part: ShapeTree) -> int:
        if isinstance(part, tuple):
            return len(part) * self.pointer_bytes
        return part.size_in(DEVICE)

    def _kept_alive(self, made: Instruction, operand: str) -> Iterator[str]:
        """Return the buffers that are live while an instruction with this operand runs.

        To take a part out of a tuple takes its table and that part alone.
        """
        points = self.points[operand]
        if made.opcode == "get-tuple-element":
            yield from points.get((), ())
            yield from _flat(self.points[made.name])
        else:
            yield from _flat(points)

    def _allow_in_place(self, build: GraphBuilder, made: Instruction, points: _Points) -> None:
        """Note the operands whose bytes XLA's heap simulator may give to a result."""
        # XLA shares only whole arrays that one instruction made.
        if isinstance(made.shape, tuple) or points != {(): (made.name,)} or made.opcode == "copy":
            return
        for number, operand in enumerate(made.operands):
            source = self.computation.instructions[operand]
            own = self.points[operand].get(()) == (operand,)
            # The first place of an operand that is read twice decides.
            if own and source.shape == made.shape and operand not in made.operands[:number]:
                first = made.opcode in UPDATES and number == 0
                if first or may_overwrite(
                    made, 0, number, self.parsed.computations, self.computation.users
                ):
                    build.inplace(made.name, made.name, operand)


def _name(made: Instruction, path: _Path) -> str:
    return f"{made.name}{{{','.join(map(str, path))}}}" if path else made.name


def _flat(points: _Points) -> Iterable[str]:
    return (name for names in points.values() for name in names)


def _below(points: _Points, index: int) -> _Points:
    """Return what a part of a tuple points to."""
    return {path[1:]: names for path, names in points.items() if path[:1] == (index,)}
