"""Text of a TorchScript graph, as printed by `print(module.inlined_graph)` of a traced module.

A value of a tensor type with known shape and element type has `elements x bytes per element` bytes.
As in the planner of PyTorch pull request 64347, a value is managed, that is, it gets bytes in the
slab, if an op of the graph makes it, its size is known, and it does not outlive the graph. All
other tensors are unmanaged and have separate allocations. Parameters and constant tensors are
buffers of policy `constant`; inputs belong to the caller.

The text does not tell which values share memory. Views, containers and in-place ops are known by
name (:data:`VIEWS` and so on). An op that may or may not copy (:data:`PERHAPS_VIEWS`) makes a
separate buffer, and its operand lives as long as this buffer; this is correct in both cases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.format import Source
from optsched.model.elements import MAX_TOTAL_BYTES, Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from optsched.runtime.text import readable

ELEMENT_BYTES = {
    **dict.fromkeys(("Bool", "Byte", "Char", "QInt8", "QUInt8"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Int", "Float", "QInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Long", "Double", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
VIEWS = {
    *("alias", "as_strided", "chunk", "detach", "diagonal", "expand", "expand_as", "hsplit"),
    *("movedim", "narrow", "numpy_T", "permute", "select", "slice", "split", "split_with_sizes"),
    *("squeeze", "swapaxes", "swapdims", "t", "tensor_split", "transpose", "unbind", "unfold"),
    *("unsqueeze", "view", "view_as", "vsplit"),
}
"""Ops of `aten` whose results are views of their first operand."""
PERHAPS_VIEWS = {"contiguous", "dropout", "flatten", "reshape", "reshape_as", "to", "type_as"}
"""Ops of `aten` whose result is their first operand or a copy of it."""
CONTAINERS = {
    *("prim::ListConstruct", "prim::TupleConstruct", "prim::ListUnpack", "prim::TupleUnpack"),
}
PLANNED = {
    *("prim::AllocateSlab", "prim::AllocateTensor", "prim::PreallocateTensor", "prim::ReleaseSlab"),
}
"""Ops that PyTorch's memory planning inserts into a graph."""

_START = re.compile(r"\s*(?:%\S+ : |\(?\s*return \(|block\d+\(|-> \(|[\w]+::\w+)")
_OUTPUT = re.compile(r"%(\S+) : (.*)")
_CALL = re.compile(r"\s*([\w]+::\w+)")
_TENSOR = re.compile(r"(\w+)\((.*)\)")


@dataclass(frozen=True, slots=True)
class _ScriptNode:
    """A statement: its results with types, its op and its operands."""

    line: int
    outputs: tuple[tuple[str, str], ...]
    kind: str
    operands: tuple[str, ...]


def read_torchscript(text: str, *, name: str = "graph") -> Graph:
    """Return the graph of a TorchScript graph's text; unmanaged values have the policy `own`.

    `FormatError`, naming line, op and value, is raised if a line is malformed, a value is undefined
    or defined twice, or the graph has control flow or planned memory.
    """
    reader = _ScriptReader()
    for node in _nodes(text, reader):
        reader.take(node)
    return reader.graph(name)


@dataclass
class _ScriptReader:
    buffers: dict[str, Buffer] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    held: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Buffers whose bytes each value is made of; several for a container."""
    newest: dict[str, str] = field(default_factory=dict)
    """Name of the latest in-place version of each buffer."""
    lasting: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Buffers that each buffer may be a view of, and which must live as long."""
    results: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    last_effect: int | None = None
    roots: dict[str, str] = field(default_factory=dict)
    """Buffer that each view is part of."""

    def add_input(self, value: str, kind: str, policy: InputPolicy) -> None:
        # Unknown sizes count 0: inputs are the caller's.
        size = tensor_bytes(value, kind) or 0
        self._add(value, Buffer(value, size, input=policy))
        self.held[value] = (value,)

    def take(self, node: _ScriptNode) -> None:
        """Add a statement to the graph."""
        if node.kind in PLANNED:
            raise FormatError(
                f"line {node.line}: {node.kind}: memory of this graph is already planned; "
                "print the graph before that pass"
            )
        if node.kind == "return":
            self.results += [b for value in node.operands for b in self._held(node, value)]
        elif node.kind in ("prim::Constant", "prim::GetAttr"):
            for value, kind in node.outputs:
                self.add_input(value, kind, InputPolicy.CONSTANT)
        elif node.kind in CONTAINERS:
            self._contain(node)
        else:
            self._compute(node)

    def graph(self, name: str) -> Graph:
        """Return the graph; its results outlive it and so are unmanaged."""
        # A result of the graph lives as long as its whole storage.
        for value in self.results:
            root = self._root(value)
            buffer = self.buffers[root]
            if buffer.input is None:
                self.buffers[root] = _unmanaged(buffer)
        buffers = tuple(self.buffers.values())
        count = sum(b.output is OutputPolicy.OWN for b in buffers)
        model = f"torchscript; {count} unmanaged values"
        return Graph(name, tuple(self.ops), buffers, memory_model=model)

    def _contain(self, node: _ScriptNode) -> None:
        """Track the buffers in containers, and those of elements taken out."""
        parts = [self._held(node, value) for value in node.operands]
        if node.kind.endswith("Unpack"):
            if len(parts) > 1:
                raise FormatError(
                    f"line {node.line}: {node.kind} of {len(parts)} containers at once"
                )
            whole = parts[0] if parts else ()
            # Elements are told apart only if the container is unpacked in full.
            alike = len(whole) == len(node.outputs)
            for i, (value, _) in enumerate(node.outputs):
                self._define(node, value, (whole[i],) if alike else whole)
            return
        for value, _ in node.outputs:
            self._define(node, value, tuple(dict.fromkeys(b for part in parts for b in part)))

    def _compute(self, node: _ScriptNode) -> None:
        space, _, op_name = node.kind.partition("::")
        first = self._held(node, node.operands[0]) if node.operands else ()
        reads = [b for value in node.operands for b in self._held(node, value)]
        in_place = space == "aten" and op_name.endswith("_") and not op_name.endswith("__")
        shares = in_place or (space == "aten" and op_name in VIEWS)
        writes = []
        for value, kind in node.outputs:
            if shares and len(first) == 1:
                writes.append(self._view(node, value, self._root(first[0]), in_place))
                continue
            size = tensor_bytes(value, kind)
            buffer = Buffer(value, size or 0, alignment=1)
            # A tensor of unknown size is allocated apart from the slab.
            if size is None and is_tensor(kind):
                buffer = _unmanaged(buffer)
            self._define(node, value, (value,))
            self._add(value, buffer)
            writes.append(value)
            # Perhaps a view: its operand must live as long as this buffer.
            if shares or (space == "aten" and op_name in PERHAPS_VIEWS):
                self.lasting[value] = tuple(self._root(b) for b in first)
        self._append(node, reads, writes)

    def _append(self, node: _ScriptNode, reads: Sequence[str], writes: Sequence[str]) -> None:
        # Read under its newest name, so that a change comes before the read.
        current = list(dict.fromkeys(self.newest.get(self._root(b), b) for b in reads))
        current = [b for b in current if b not in writes]
        kept = set[str]().union(*(self._lasting(self._root(b)) for b in current))
        control: tuple[int, ...] = ()
        if not node.outputs:
            # Ops without results have effects, which keep the order of the text.
            control = () if self.last_effect is None else (self.last_effect,)
            self.last_effect = len(self.ops)
        label = node.outputs[0][0] if node.outputs else f"{node.kind} line {node.line}"
        self.ops.append(
            Op(
                label,
                reads=tuple(self.ids[b] for b in current),
                # Not read, but kept alive.
                uses=tuple(sorted(self.ids[r] for r in kept if r not in current)),
                writes=tuple(self.ids[b] for b in writes),
                control=control,
                kind=node.kind,
            )
        )
        for b in writes:
            if self.buffers[b].mutates:
                self.newest[self._root(b)] = b

    def _view(self, node: _ScriptNode, value: str, root: str, mutates: bool) -> str:
        base = self.newest.get(root, root)
        self.roots[value] = root
        self._define(node, value, (value,))
        self._add(value, Buffer(value, 0, alias_of=self.ids[base], mutates=mutates))
        return value

    def _lasting(self, root: str) -> set[str]:
        """Return all buffers that a buffer may be a view of, through any chain of such ops."""
        found: set[str] = set()
        waiting = [root]
        while waiting:
            new = set(self.lasting.get(waiting.pop(), ())) - found
            found |= new
            waiting += new
        return found

    def _root(self, name: str) -> str:
        return self.roots.get(name, name)

    def _held(self, node: _ScriptNode, value: str) -> tuple[str, ...]:
        if value not in self.held:
            what = f"{node.kind} uses %{readable(value)}, which nothing defines"
            raise FormatError(f"line {node.line}: {what}")
        return self.held[value]

    def _define(self, node: _ScriptNode, value: str, parts: tuple[str, ...]) -> None:
        if value in self.held:
            what = f"{node.kind} defines %{readable(value)} a second time"
            raise FormatError(f"line {node.line}: {what}")
        self.held[value] = parts

    def _add(self, value: str, buffer: Buffer) -> None:
        if value in self.buffers:
            raise FormatError(f"value %{value} is defined twice")
        self.ids[value] = len(self.buffers)
        self.buffers[value] = buffer


def _unmanaged(buffer: Buffer) -> Buffer:
    return Buffer(buffer.name, buffer.size, output=OutputPolicy.OWN)


def is_tensor(kind: str) -> bool:
    """Return True if a type is that of a single tensor, of any shape."""
    found = _TENSOR.fullmatch(kind)
    return kind in ("Tensor", *ELEMENT_BYTES) or bool(found and found[1] in ELEMENT_BYTES)


def tensor_bytes(value: str, kind: str) -> int | None:
    """Return the bytes of a tensor type with known shape, at most 2**62; None for other types."""
    found = _TENSOR.fullmatch(kind)
    if found is None or found[1] not in ELEMENT_BYTES:
        return None
    dims = []
    for piece in re.sub(r"\w+=\[[^]]*\]", "", found[2]).split(","):
        part = piece.strip()
        if "=" in part or not part:
            continue
        if not part.isdecimal() or len(part) > 20:
            return None
        dims.append(int(part))
    count = prod(dims) * ELEMENT_BYTES[found[1]]
    if count > MAX_TOTAL_BYTES:
        raise FormatError(f"value %{value} of shape {dims} has {count} bytes, more than 2**62")
    return count


def _nodes(text: str, reader: _ScriptReader) -> Iterator[_ScriptNode]:
    """Read the inputs of the graph into the reader, and yield its statements."""
    head, rest, first = _split_head(text)
    for part in _outputs(head):
        reader.add_input(*part, InputPolicy.EXCLUDED)
    ended = False
    for number, line in _statements(rest, first):
        if line.startswith("return ("):
            ended = True
            yield _ScriptNode(number, (), "return", _names(line[8:].partition(")")[0]))
        elif re.match(r"block\d+\(|-> \(", line):
            raise FormatError(
                f"line {number}: control flow does not have a single order of ops; trace the "
                "module, or inline it"
            )
        elif ended:
            raise FormatError(f"line {number}: {show(line[:40])} after the graph's return")
        else:
            yield _node(number, line)
    if not ended:
        raise FormatError("graph is truncated: return is missing")


def _split_head(text: str) -> tuple[str, str, int]:
    """Return the text between `graph(` and `):`, the rest, and the rest's first line number."""
    body = text.lstrip().removeprefix("graph(")
    head, found, rest = body.partition("):\n")
    if not found:
        raise FormatError("graph is truncated in its list of inputs")
    return head, rest, text[: len(text) - len(rest)].count("\n") + 1


def _statements(text: str, first: int) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each statement; a constant's value may span several lines."""
    held: tuple[int, str] | None = None
    for number, line in enumerate(text.split("\n"), first):
        if not line.strip() or line.lstrip().startswith("#"):
            # A literal may span lines, which are not statements.
            continue
        if _START.match(line):
            if held:
                yield held
            held = (number, line.strip())
        elif held and "prim::Constant" in held[1]:
            continue
        else:
            raise FormatError(f"line {number}: not a statement: {show(line.strip()[:40])}")
    if held:
        yield held


def _node(number: int, line: str) -> _ScriptNode:
    left, equals, right = line.partition(" = ") if line.startswith("%") else ("", " = ", line)
    call = _CALL.match(right)
    if not equals or call is None:
        raise FormatError(f"line {number}: not a statement: {show(line[:60])}")
    rest = right[call.end() :]
    if call[1] == "prim::Constant":
        return _ScriptNode(number, tuple(_outputs(left)), call[1], ())
    # Attributes stand in brackets before the operands.
    if rest.startswith("["):
        rest = rest[rest.find("](") + 1 :]
    if not rest.startswith("(") or ")" not in rest:
        raise FormatError(f"line {number}: {call[1]} has no operands: {show(line[:60])}")
    return _ScriptNode(number, tuple(_outputs(left)), call[1], _names(rest[1:].partition(")")[0]))


def _outputs(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and type of `%a : Float(2, 3), %b : int`."""
    for part in re.split(r",\s*(?=%)", text.strip()):
        if not part:
            continue
        found = _OUTPUT.fullmatch(part.strip())
        if found is None:
            raise FormatError(f"expected a value with its type, got {show(part[:60])}")
        yield found[1], found[2].strip()


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip().removeprefix("%") for name in text.split(",") if name.strip())


def read(source: Source) -> Graph:
    """Return the graph of a file; see :func:`read_torchscript`."""
    return read_torchscript(source.text, name=source.name)


def unmanaged_values(graph: Graph) -> tuple[str, ...]:
    """Return the values with separate allocations, in the order of the graph."""
    return tuple(b.name for b in graph.buffers if b.output is OutputPolicy.OWN)
