"""Text of a TorchScript graph, as printed by `print(module.inlined_graph)` of a traced module.

A value of a tensor type with known shape and element type has `elements x bytes per element` bytes.
As in the planner of PyTorch pull request 64347, a value is managed, that is, it gets bytes in the
slab, if an op of the graph makes it, its size is known, and it does not outlive the graph. All
other tensors are unmanaged and have separate allocations. Parameters and constant tensors are
buffers of policy `constant`; inputs belong to the caller.

The text does not tell which values share memory. Views, containers and in-place ops are known by
name (:data:`VIEWS` and so on). An op that may or may not copy (:data:`PERHAPS_VIEWS`) makes a
separate buffer that may share bytes with its operand. To be correct in both cases, the operand
lives at least as long as this buffer, it is unmanaged if this buffer is a result of the graph, and
ops that use one of the two stay on their side of an in-place op on the other.

Example: in `b = reshape(a); c = add_(b, x); d = exp(a)`, `d` waits for `c`, as `b` may be `a`.
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
LIST_CHANGES = {"aten::append", "aten::extend", "aten::insert", "aten::_set_item"}
"""Ops that change what a list holds, which traced modules do not have."""
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
    """Buffers that each value holds: itself for a tensor, several for a container."""
    elements: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Values that each container was made from."""
    newest: dict[str, str] = field(default_factory=dict)
    """Name of the latest in-place version of each buffer."""
    lasting: dict[str, set[str]] = field(default_factory=dict)
    """Buffers that each buffer may be a view of, and which must live at least as long."""
    sharing: dict[str, set[str]] = field(default_factory=dict)
    """Buffers that may share bytes with each buffer: `lasting` in both directions."""
    made: dict[str, int] = field(default_factory=dict)
    """Op that makes each buffer."""
    users: dict[str, list[int]] = field(default_factory=dict)
    """Ops that use each root buffer, since the last in-place op on what may share its bytes."""
    changed: dict[str, int] = field(default_factory=dict)
    """Last in-place op on a buffer that may share the bytes of each root buffer."""
    results: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    last_effect: int | None = None
    roots: dict[str, str] = field(default_factory=dict)
    """Buffer that each view is part of."""

    def add_input(self, value: str, kind: str, policy: InputPolicy) -> None:
        # Unknown sizes count 0, as inputs and constants take no bytes of the slab.
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
        if node.kind in LIST_CHANGES:
            raise FormatError(
                f"line {node.line}: {node.kind} changes a list; trace the module, so that lists "
                "are only constructed"
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
        # If a result is a view, or may be one, the full storage under it must outlive the graph.
        roots = {self._root(value) for value in self.results}
        for root in roots.union(*(self._lasting(root) for root in roots)):
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
        whole = tuple(dict.fromkeys(b for part in parts for b in part))
        if not node.kind.endswith("Unpack"):
            for value, _ in node.outputs:
                self._define(node, value, whole)
                self.elements[value] = node.operands
            return
        if len(parts) > 1:
            raise FormatError(f"line {node.line}: {node.kind} of {len(parts)} containers at once")
        given = self.elements.get(node.operands[0], ()) if parts else ()
        # Elements are told apart only if the values that the container was made of are known, and
        # all are taken out. Otherwise each may be any of them.
        known = len(given) == len(node.outputs)
        for i, (value, _) in enumerate(node.outputs):
            self._define(node, value, self.held[given[i]] if known else whole)
            if known and given[i] in self.elements:
                self.elements[value] = self.elements[given[i]]

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
            # A view of one of several buffers, as from a container, may be a view of any of them.
            if shares or (space == "aten" and op_name in PERHAPS_VIEWS):
                self._may_share(value, {self._root(b) for b in first})
        self._append(node, reads, writes, {self._root(b) for b in first} if in_place else set())

    def _may_share(self, value: str, roots: set[str]) -> None:
        self.lasting[value] = roots
        for root in roots:
            self.sharing.setdefault(value, set()).add(root)
            self.sharing.setdefault(root, set()).add(value)

    def _append(
        self, node: _ScriptNode, reads: Sequence[str], writes: Sequence[str], changes: set[str]
    ) -> None:
        # Read the newest in-place version, so that this op runs after the change.
        current = list(dict.fromkeys(self.newest.get(self._root(b), b) for b in reads))
        current = [b for b in current if b not in writes]
        roots = {self._root(b) for b in (*reads, *writes)}
        lasting = set[str]().union(*(self._lasting(root) for root in roots))
        kept = {self.newest.get(root, root) for root in lasting}
        control = self._stay_in_order(roots, changes)
        # A view that is read by the name of a newer version is still made first.
        control |= {self.made[b] for b in reads if b in self.made and b not in current}
        if not node.outputs:
            # Ops without results have effects, which keep the order of the text.
            control |= set() if self.last_effect is None else {self.last_effect}
            self.last_effect = len(self.ops)
        label = node.outputs[0][0] if node.outputs else f"{node.kind} line {node.line}"
        self.ops.append(
            Op(
                label,
                reads=tuple(self.ids[b] for b in current),
                # What the operands may be views of is not read by name, but must still be alive.
                uses=tuple(sorted(self.ids[b] for b in kept - {*current, *writes})),
                writes=tuple(self.ids[b] for b in writes),
                control=tuple(sorted(control)),
                kind=node.kind,
            )
        )
        for b in writes:
            self.made[b] = len(self.ops) - 1
            if self.buffers[b].mutates:
                self.newest[self._root(b)] = b

    def _stay_in_order(self, roots: set[str], changes: set[str]) -> set[int]:
        """Return ops that must run before the next one, as it may use bytes that they use.

        The graph itself orders what uses a buffer and its views. An op that changes a buffer also
        comes after all earlier uses and before all later uses of buffers that may share its bytes.
        """
        op = len(self.ops)
        before = {self.changed[root] for root in roots if root in self.changed}
        for root in roots:
            self.users.setdefault(root, []).append(op)
        # An in-place op on a container has no version of its own, so all that it may change counts.
        affected = self._reach(changes, self.sharing) | (changes if len(changes) > 1 else set())
        for root in affected:
            before.update(self.users.get(root, ()))
            # Later changes come after this one, and so after all that came before it.
            self.users[root], self.changed[root] = [op], op
        return before - {op}

    def _view(self, node: _ScriptNode, value: str, root: str, mutates: bool) -> str:
        base = self.newest.get(root, root)
        self.roots[value] = root
        self._define(node, value, (value,))
        self._add(value, Buffer(value, 0, alias_of=self.ids[base], mutates=mutates))
        return value

    def _lasting(self, root: str) -> set[str]:
        """Return all buffers that a buffer may be a view of, through any chain of such ops."""
        return self._reach({root}, self.lasting) - {root}

    def _reach(self, roots: set[str], neighbors: dict[str, set[str]]) -> set[str]:
        """Return the buffers that are reached from `roots` in one step or more."""
        found: set[str] = set()
        waiting = list(roots)
        while waiting:
            new = neighbors.get(waiting.pop(), set()) - found
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
    """Return the buffer with an allocation of its own, outside the slab."""
    return Buffer(buffer.name, buffer.size, output=OutputPolicy.OWN)


def is_tensor(kind: str) -> bool:
    """Return True if a type is that of a single tensor, of any shape."""
    found = _TENSOR.fullmatch(kind)
    return kind in ("Tensor", *ELEMENT_BYTES) or bool(found and found[1] in ELEMENT_BYTES)


def tensor_bytes(value: str, kind: str) -> int | None:
    """Return the bytes of a tensor type, at most 2**62; None without a known shape."""
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
            # Blank lines and comments are skipped, also inside a literal.
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
    # An op without results has no left side.
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
