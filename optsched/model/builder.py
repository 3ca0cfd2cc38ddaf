"""Make a graph in a few lines, by name.

>>> build = GraphBuilder("diamond")
>>> build.input("x", 8)
>>> build.op("left", reads=["x"], writes={"a": 4})
>>> build.op("right", reads=["x"], writes={"b": 6}, workspace=2)
>>> build.op("join", reads=["a", "b"], writes={"y": 4})
>>> build.output("y")
>>> graph = build.build()
>>> len(graph.ops), len(graph.buffers)
(3, 5)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from optsched.errors import GraphError
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph

_Policy = TypeVar("_Policy", InputPolicy, OutputPolicy)


@dataclass
class _OpDraft:
    name: str
    kind: str
    reads: list[str]
    writes: list[str]
    control: list[str]
    workspace: str | None


@dataclass
class _BufferDraft:
    name: str
    size: int
    input: InputPolicy | None = None
    output: OutputPolicy | None = None
    alias_of: str | None = None
    mutates: bool = False
    birth: str | None = None
    alignment: int = 1
    pool: str = ""
    pin: int | None = None


@dataclass
class GraphBuilder:
    """Collects ops and buffers by name; names may be used before they are defined.

    Parameters
    ----------
    name
        Name of the graph.
    memory_model
        One line that says by which rules sizes and live ranges were filled in.
    alignment
        Alignment of every buffer that is given none.
    """

    name: str = "graph"
    memory_model: str = "default"
    alignment: int = 1
    _ops: list[_OpDraft] = field(default_factory=list, repr=False)
    _buffers: list[_BufferDraft] = field(default_factory=list, repr=False)
    _known: dict[str, _BufferDraft] = field(default_factory=dict, repr=False)
    _inplace: list[tuple[str, str, str]] = field(default_factory=list, repr=False)

    def input(self, name: str, size: int, policy: InputPolicy | str = InputPolicy.FREED) -> None:
        """Add a graph input of `size` bytes."""
        draft = self._add(name, size)
        draft.input = _policy(InputPolicy, policy, name)

    def op(
        self,
        name: str,
        *,
        reads: Iterable[str] = (),
        writes: Mapping[str, int] | None = None,
        views: Mapping[str, str] | None = None,
        mutates: Mapping[str, str] | None = None,
        control: Iterable[str] = (),
        workspace: int = 0,
        kind: str = "",
    ) -> None:
        """Add an op.

        Parameters
        ----------
        name
            Name of the op.
        reads
            Buffers it reads, in operand order.
        writes
            New buffers and their sizes in bytes.
        views
            New names for existing buffers, `{view: buffer}`.
        mutates
            As `views`, but the op overwrites the bytes: users of the old name run before it.
        control
            Ops that must run before this one.
        workspace
            Bytes it needs while it runs; they become the buffer `<name>.workspace`.
        kind
            Operator type, for people.
        """
        for what, listed in (("reads", reads), ("control", control)):
            if isinstance(listed, str):
                raise GraphError(f"op {name!r}: {what} must be a list of names: write [{listed!r}]")
        for what, named in (("writes", writes), ("views", views), ("mutates", mutates)):
            if not isinstance(named, Mapping | None):
                example = '{"a": 4}' if what == "writes" else '{"view": "buffer"}'
                raise GraphError(f"op {name!r}: {what} must be a dict such as {example}")
        made = [self._add(buffer, size).name for buffer, size in (writes or {}).items()]
        for mutating, names in ((False, views), (True, mutates)):
            for view, root in (names or {}).items():
                draft = self._add(view, 0, alias_of=root)
                draft.mutates = mutating
                made.append(view)
        scratch = None
        if workspace:
            scratch = self._add(f"{name}.workspace", workspace).name
            made.append(scratch)
        self._ops.append(_OpDraft(name, kind, list(reads), made, list(control), scratch))

    def output(self, *names: str, policy: OutputPolicy | str = OutputPolicy.LIVE) -> None:
        """Mark buffers as graph outputs."""
        for name in names:
            self._find(name, "graph output").output = _policy(OutputPolicy, policy, name)

    def place(
        self,
        name: str,
        *,
        alignment: int | None = None,
        pool: str | None = None,
        pin: int | None = None,
        birth: str | None = None,
    ) -> None:
        """Say where a buffer must lie (`alignment`, `pool`, `pin`) or which op allocates it."""
        draft = self._find(name, "placement")
        draft.alignment = draft.alignment if alignment is None else alignment
        draft.pool = draft.pool if pool is None else pool
        draft.pin = draft.pin if pin is None else pin
        draft.birth = draft.birth if birth is None else birth

    def inplace(self, op: str, output: str, source: str) -> None:
        """Allow `op` to write its `output` into its input `source`."""
        self._inplace.append((op, output, source))

    def build(self) -> Graph:
        """Resolve names and return the checked graph.

        Raises
        ------
        GraphError
            On an unknown or duplicate name, or any broken rule of :class:`Graph`.
        """
        op_ids = {op.name: v for v, op in enumerate(self._ops)}
        buffer_ids = {buffer.name: b for b, buffer in enumerate(self._buffers)}

        def buffer_id(name: str, by: str) -> int:
            if name not in buffer_ids:
                raise GraphError(f"{by} unknown buffer {name!r}")
            return buffer_ids[name]

        def op_id(name: str, by: str) -> int:
            if name not in op_ids:
                raise GraphError(f"{by} unknown op {name!r}")
            return op_ids[name]

        ops = tuple(
            Op(
                name=op.name,
                reads=tuple(buffer_id(b, f"op {op.name!r} reads") for b in op.reads),
                writes=tuple(buffer_ids[b] for b in op.writes),
                control=tuple(
                    op_id(u, f"op {op.name!r} has a control edge from") for u in op.control
                ),
                workspace=None if op.workspace is None else buffer_ids[op.workspace],
                kind=op.kind,
            )
            for op in self._ops
        )
        buffers = tuple(
            Buffer(
                name=b.name,
                size=b.size,
                input=b.input,
                output=b.output,
                alias_of=None
                if b.alias_of is None
                else buffer_id(b.alias_of, f"buffer {b.name!r} is a view of"),
                mutates=b.mutates,
                birth=None if b.birth is None else op_id(b.birth, f"buffer {b.name!r} is born at"),
                alignment=b.alignment,
                pool=b.pool,
                pin=b.pin,
            )
            for b in self._buffers
        )
        inplace = tuple(
            (
                op_id(op, "in-place candidate of"),
                buffer_id(output, f"op {op!r}: in-place candidate writes"),
                buffer_id(source, f"op {op!r}: in-place candidate reads"),
            )
            for op, output, source in self._inplace
        )
        return Graph(self.name, ops, buffers, inplace, self.memory_model)

    def _add(self, name: str, size: int, alias_of: str | None = None) -> _BufferDraft:
        if name in self._known:
            raise GraphError(f"buffer {name!r} is defined twice")
        draft = _BufferDraft(name, size, alias_of=alias_of, alignment=self.alignment)
        self._known[name] = draft
        self._buffers.append(draft)
        return draft

    def _find(self, name: str, by: str) -> _BufferDraft:
        if name not in self._known:
            raise GraphError(f"{by} names unknown buffer {name!r}")
        return self._known[name]


def _policy(kind: type[_Policy], value: str, name: str) -> _Policy:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise GraphError(f"buffer {name!r}: policy {value!r} is none of {known}") from None
