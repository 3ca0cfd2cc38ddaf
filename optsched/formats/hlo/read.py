"""Reader of HLO text as a graph, in XLA's memory model.

Parameters belong to the caller and are not counted; donated parameters are counted, and are freed
after their last use. Results of the module live to the end. `get-tuple-element`, `tuple`,
`bitcast`, `domain`, `optimization-barrier` and `add-dependency` own nothing and do not become ops:
they only contribute names and order. A fusion is one op. The result of a while is its initial
state, overwritten; the largest computation that an op calls is its workspace. If the text is a
schedule, its order of ops is XLA's.

A graph counts the bytes of one memory space, the device's own, as XLA assigns each space alone. The
memory model names the bytes of the others, such as host memory, `S(5)`, of offloaded activations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.format import Source
from optsched.formats.hlo.inplace import may_overwrite, overwritten, passed_on
from optsched.formats.hlo.shapes import Names, TensorShape, leaf_at, leaves, map_leaves, names_in
from optsched.formats.hlo.text import Computation, HloModule, Instruction, parse_module
from optsched.model.builder import GraphBuilder
from optsched.model.elements import InputPolicy, OutputPolicy
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.module import Call, Module, listed_graph

ALIGNMENT: Final = 64
"""Alignment of every buffer on the CPU, in bytes."""
DEVICE: Final = 0
"""Memory space of the device."""
MEMORY_MODEL: Final = "xla; parameters excluded, donated ones freed, results live to the end"
CALLERS: Final = ("call", "conditional", "while")
"""Ops that run computations which have buffers in the module's memory."""
_ORDERING: Final = ("opt-barrier", "optimization-barrier", "add-dependency", "after-all")
_STARTS: Final = ("all-gather-start", "collective-permute-start", "async-start")
_DONE: Final[Mapping[str, int | None]] = {
    "copy-done": 0,
    "all-gather-done": 1,
    "collective-permute-done": 1,
    "async-done": 1,
    "all-reduce-done": None,
}
"""Index of the part of the start's result that an asynchronous op's end returns; None for all."""


def read_hlo(source: Source) -> Graph:
    """Make a graph of the entry computation of a module.

    What it calls counts as one block of workspace, as large as live bytes in the order of the text.
    It raises `FormatError` if the text is malformed or cut off, or a size is unknown.
    """
    return graph_of(parse_module(source.text))


def graph_of(parsed: HloModule) -> Graph:
    """Return what :func:`read_hlo` makes of a module that is parsed already."""
    return listed_graph(module_of(parsed))


def read_hlo_module(source: Source) -> Module:
    """Make a module of the entry computation and all that it calls, directly or not."""
    return module_of(parse_module(source.text))


def module_of(parsed: HloModule, space: int = DEVICE) -> Module:
    """Return what :func:`read_hlo_module` makes of a module that is parsed already.

    The graphs count the bytes of one memory space.
    """
    model = MEMORY_MODEL + (_elsewhere(parsed) if space == DEVICE else "")
    every = (x for c in parsed.computations.values() for x in c.instructions.values())
    # The state of a while may be overwritten by its body, a call's parameter not.
    bodies = {made.body for made in every if made.opcode == "while"}
    unchanged: dict[str, frozenset[int]] = {}
    graphs: dict[str, Graph] = {}
    calls: list[Call] = []
    # Callees first, as a loop needs to know what its body leaves unchanged.
    for name in _reached(parsed):
        reader = _ComputationReader(
            parsed, parsed.computations[name], unchanged, space, model, is_body=name in bodies
        )
        graphs[name] = reader.build(is_entry=name == parsed.entry)
        unchanged[name] = reader.unchanged()
        calls += [Call(name, op, callees) for op, callees in reader.calls.items()]
    return Module(parsed.name, graphs, parsed.entry, tuple(calls))


def _elsewhere(parsed: HloModule) -> str:
    """Return the bytes of the other memory spaces, in the order of the text; empty if none."""
    made = [x for name in _reached(parsed) for x in parsed.computations[name].instructions.values()]
    spaces = {leaf.layout.space for x in made for leaf in leaves(x.shape)} - {DEVICE}
    text = ""
    for space in sorted(spaces):
        graph = listed_graph(module_of(parsed, space))
        size = peak_memory(graph, range(len(graph.ops)))
        text += f"; memory space S({space}) apart, {size:,} bytes in the order of the file"
    return text


def _reached(parsed: HloModule) -> list[str]:
    """Return the entry and all that runs inside it as computations, callees first."""
    found, waiting = {parsed.entry}, [parsed.entry]
    while waiting:
        for made in parsed.computations[waiting.pop()].instructions.values():
            new = set(made.called) - found if made.opcode in CALLERS else set()
            found |= new
            waiting += new
    # In the order of the text, which has callees first.
    return [name for name in parsed.computations if name in found]


def read_orders(source: Source) -> dict[str, tuple[int, ...]]:
    """Return XLA's order if the text is a schedule: that of the graph's ops."""
    if not parse_module(source.text).scheduled:
        return {}
    return {"xla": tuple(range(len(read_hlo(source).ops)))}


@dataclass(frozen=True, slots=True)
class _Value:
    """Meaning of an instruction's name: its buffers, and ops that must run before any user."""

    names: Names
    after: frozenset[str] = frozenset()


@dataclass
class _ComputationReader:
    """Builder of a computation's graph.

    The state that the body of a while is given is overwritten by its result: what it does not hand
    on it may overwrite itself. Bytes outside of the memory space are not counted.
    """

    module: HloModule
    computation: Computation
    unchanged_leaves: Mapping[str, frozenset[int]]
    space: int
    memory_model: str
    is_body: bool = False
    calls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    values: dict[str, _Value] = field(default_factory=dict)
    shapes: dict[str, TensorShape] = field(default_factory=dict)
    ops: set[str] = field(default_factory=set)
    makers: dict[str, str] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    donated: set[str] = field(default_factory=set)

    def build(self, *, is_entry: bool) -> Graph:
        name = self.module.name if is_entry else self.computation.name
        build = GraphBuilder(name, self.memory_model, ALIGNMENT)
        # A first pass: what is overwritten must have no later reader.
        last = self._last_readers()
        for made in self.computation.instructions.values():
            self._add(build, made, last, is_entry=is_entry)
        results = {x for x in leaves(self._root().names) if x is not None}
        for name in (x for x in self.roots if x in results):
            # A result that is a parameter needs no output: the caller has it, unless it gave it up.
            if is_entry and (self.roots[name] in self.makers or self.roots[name] in self.donated):
                build.output(name, policy=OutputPolicy.LIVE)
            # In a called computation, the caller counts the result's bytes.
            elif not is_entry and self.roots[name] in self.makers:
                build.output(self.roots[name], policy=OutputPolicy.OWN)
        return build.build()

    def _root(self) -> _Value:
        return self.values[self.computation.root]

    def unchanged(self) -> frozenset[int]:
        """Return the numbers of the result's leaves that are the same ones of the parameter."""
        first = next(
            (x for x in self.computation.instructions.values() if x.opcode == "parameter"), None
        )
        if first is None:
            return frozenset()
        pairs = zip(leaves(self.values[first.name].names), leaves(self._root().names), strict=False)
        return frozenset(i for i, (one, other) in enumerate(pairs) if one and one == other)

    def _last_readers(self) -> dict[str, str]:
        """Return, by leaf, the last instruction that reads it; the root reads its own to the end.

        Names are followed through instructions that own nothing, before any buffer is known.
        """
        found: dict[str, str] = {}
        names: dict[str, Names] = {}
        for made in self.computation.instructions.values():
            read = [names[x] for x in made.operands]
            passed = passed_on(made, read)
            if passed is None:
                found.update({x: made.name for tree in read for x in leaves(tree) if x})
                passed = map_leaves(made.shape, made.name, lambda name, _: name)
            names[made.name] = passed
        # The empty name is of no instruction: nobody may overwrite a result.
        found.update({x: "" for x in leaves(names[self.computation.root]) if x})
        return found

    def _add(
        self, build: GraphBuilder, made: Instruction, last: Mapping[str, str], *, is_entry: bool
    ) -> None:
        read = [self.values[x] for x in made.operands]
        after = frozenset[str]().union(*(x.after for x in read))
        after |= self._ordered_after(made.control)
        passed = passed_on(made, [x.names for x in read])
        if made.opcode == "parameter":
            names = map_leaves(made.shape, made.name, self._declare)
            self._add_inputs(build, made, last, is_entry=is_entry)
            self.values[made.name] = _Value(names)
        elif passed is not None:
            # It owns nothing, but later instructions must wait for the makers of its operands.
            if made.opcode in _ORDERING:
                after |= {
                    self.makers[x] for x in names_in(v.names for v in read) if x in self.makers
                }
            self.values[made.name] = _Value(passed, after)
        elif made.opcode == "constant":
            self.values[made.name] = _Value(map_leaves(made.shape, made.name, lambda *_: None))
        else:
            self._add_op(build, made, read, after, last)

    def _ordered_after(self, control: Iterable[str]) -> frozenset[str]:
        """Return the ops requested to run before; for a name without an op, those it follows."""
        found: set[str] = set()
        # A control predecessor without an op stands for the ops before it.
        for name in control:
            found |= {name} if name in self.ops else self.values[name].after
        return frozenset(found)

    def _declare(self, name: str, shape: TensorShape) -> str | None:
        if shape.kind == "token":
            return None
        self.shapes[name] = shape
        self.roots[name] = name
        return name

    def _add_inputs(
        self, build: GraphBuilder, made: Instruction, last: Mapping[str, str], *, is_entry: bool
    ) -> None:
        if not made.literal.isdecimal() or len(made.literal) > 9:
            raise FormatError(f"{show(made.name)}: parameter {show(made.literal)} has no number")
        # A donated parameter, or a leaf of one.
        donated = {path for number, path in self.module.donated if number == int(made.literal)}
        paths = map_leaves(made.shape, "", lambda path, _: path)
        own = map_leaves(made.shape, made.name, lambda name, _: name)
        for path, name in zip(leaves(paths), leaves(own), strict=True):
            if name not in self.shapes:
                continue
            place = tuple(int(x) for x in path.strip("{}").split(",") if x)
            # What is given up and never read is there before the first op only.
            freed = is_entry and place in donated and name in last
            policy = InputPolicy.FREED if freed else InputPolicy.EXCLUDED
            self.donated |= {name} if freed else set()
            build.input(name, self.shapes[name].size_in(self.space), policy)

    def _add_op(
        self,
        build: GraphBuilder,
        made: Instruction,
        read: list[_Value],
        after: frozenset[str],
        last: Mapping[str, str],
    ) -> None:
        # Each operand once, as an instruction may name one twice.
        reads = list(dict.fromkeys(names_in(x.names for x in read)))
        names = map_leaves(made.shape, made.name, self._declare)
        written = [x for x in leaves(names) if x is not None]
        views = self._views(made, read, names)
        mutates = self._mutates(made, read, names, last)
        kept = {x: y for x, y in mutates.items() if x not in views}
        for name, source in {**views, **kept}.items():
            self.roots[name] = self.roots[source]
        fresh = {
            x: self.shapes[x].size_in(self.space)
            for x in written
            if x not in views and x not in kept
        }
        if made.opcode in CALLERS and made.called:
            self.calls[made.name] = made.called
        kind = f"fusion:{made.kind}" if made.kind else made.opcode
        build.op(
            made.name,
            reads=reads,
            writes=fresh,
            views=views,
            mutates=kept,
            control=sorted(after),
            kind=kind,
        )
        self.ops.add(made.name)
        self.makers.update(dict.fromkeys(written, made.name))
        # An op without results, such as a send, has only its name to be waited for.
        self.values[made.name] = _Value(names, frozenset() if written else frozenset({made.name}))
        for leaf, name in enumerate(leaves(names)):
            if name in fresh:
                self._allow_in_place(build, made, leaf, name, read)

    def _views(self, made: Instruction, read: list[_Value], names: Names) -> dict[str, str]:
        """Return the leaves of a result that are operands, unchanged, under another name."""
        pairs: Iterable[tuple[str | None, str | None]] = ()
        # A start returns its operand among other results.
        if made.opcode == "copy-start" and isinstance(names, tuple) and len(names) > 1:
            pairs = zip(leaves(names[1]), leaves(read[0].names), strict=False)
        elif made.opcode in _STARTS and isinstance(names, tuple) and names:
            sources = [x for value in read for x in leaves(value.names)]
            pairs = zip(leaves(names[0]), sources, strict=False)
        elif made.opcode in _DONE and read:
            part = _DONE[made.opcode]
            start = read[0].names
            if part is not None and isinstance(start, tuple) and part < len(start):
                start = start[part]
            pairs = zip(leaves(names), leaves(start), strict=False)
        elif made.opcode == "while" and read:
            # What no iteration changes stays where it is, be it a parameter's.
            kept = self.unchanged_leaves[made.body] if made.body else frozenset[int]()
            state = enumerate(zip(leaves(names), leaves(read[0].names), strict=False))
            pairs = (pair for i, pair in state if i in kept)
        return {x: y for x, y in pairs if x is not None and y is not None and self._alike(x, y)}

    def _alike(self, one: str, other: str) -> bool:
        first, second = self.shapes[one], self.shapes[other]
        return (first.size, first.layout.space) == (second.size, second.layout.space)

    def _mutates(
        self, made: Instruction, read: list[_Value], names: Names, last: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the leaves that replace an operand which no later instruction reads."""
        pairs: list[tuple[str | None, str | None]] = []
        if made.opcode == "while" and read:
            pairs = list(zip(leaves(names), leaves(read[0].names), strict=False))
        for path, number in overwritten(made, self.module.computations).items():
            if number < len(read) and not isinstance(read[number].names, tuple):
                pairs.append((leaf_at(names, path), next(leaves(read[number].names))))
        found: dict[str, str] = {}
        taken: set[str] = set()
        for name, source in pairs:
            if name is None or source is None or self.roots[source] in taken:
                continue
            # The body of a while may overwrite its state, although it did not make it, and a module
            # the arguments that are donated to it.
            root = self.roots[source]
            owned = self.is_body or root in self.makers or root in self.donated
            if owned and last.get(source) == made.name and self._alike(name, source):
                found[name] = source
                taken.add(self.roots[source])
        return found

    def _allow_in_place(
        self, build: GraphBuilder, made: Instruction, leaf: int, name: str, read: list[_Value]
    ) -> None:
        for number, value in enumerate(read):
            # A tuple has no bytes that could be overwritten in one piece.
            source = value.names
            if isinstance(source, tuple) or source is None or source == name:
                continue
            if self.shapes[source] == self.shapes[name] and may_overwrite(
                made, leaf, number, self.module.computations, self.computation.users
            ):
                build.inplace(made.name, name, source)
