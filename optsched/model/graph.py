"""The graph model: ops that read and write buffers.

A :class:`Graph` is immutable and valid: every rule is checked once, when it is made, so nothing
behind this module looks at malformed data. Ops and buffers are known by their position (their
*id*); names are for people and files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from numbers import Integral

from optsched.errors import GraphError
from optsched.model.arrays import GraphArrays, build_arrays
from optsched.model.dependencies import find_cycle, find_predecessors

IN_PLACE = "; in-place"
"""What the name of a memory model ends with if ops may write into dying inputs."""

MAX_TOTAL_BYTES = 2**62
"""Sizes may add up to this much, so that no sum of live bytes leaves a signed 64-bit integer."""


class InputPolicy(StrEnum):
    """What happens to the bytes of a graph input."""

    EXCLUDED = "excluded"
    """Owned by the caller: never counted, never packed."""
    FREED = "freed"
    """Live from before the first step, released after its last use."""
    KEPT = "kept"
    """Live throughout."""


class OutputPolicy(StrEnum):
    """What happens to the bytes of a graph output."""

    LIVE = "live"
    """Stays live to the end."""
    OWN = "own"
    """Has an allocation of its own: never counted, never packed."""


@dataclass(frozen=True, slots=True)
class Op:
    """A node: reads buffers, writes buffers, may need workspace while it runs.

    Parameters
    ----------
    name
        Unique among the ops.
    reads
        Buffer ids in operand order; may repeat.
    uses
        Further buffer ids that stay live until this op ends although it does not read them under
        these names (it reads another name of the same bytes, say).
    writes
        Buffer ids this op produces, its workspace included.
    control
        Ids of ops that must run before this one although no buffer says so.
    workspace
        The buffer among `writes` that nobody reads and that holds scratch bytes, if any.
    kind
        The framework's operator type, for people.
    """

    name: str
    reads: tuple[int, ...] = ()
    uses: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    control: tuple[int, ...] = ()
    workspace: int | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Storage with a size in bytes, or a view: another name for a buffer.

    Parameters
    ----------
    name
        Unique among the buffers.
    size
        Bytes; 0 for a view.
    input, output
        Policy if the buffer is a graph input, a graph output, or both.
    alias_of
        Id of the buffer this one is a view of; its bytes are those of the root at the chain's end.
    mutates
        The op that makes this view overwrites the bytes: readers of the old name run before it.
    birth
        Id of the op at which the bytes are allocated, where that is not the producer
        (multi-output layouts: the parent allocates, the child only names a part).
    alignment, pool, pin
        Offset is a multiple of `alignment`, in the slab named `pool`, and equal to `pin` if given.
    """

    name: str
    size: int
    input: InputPolicy | None = None
    output: OutputPolicy | None = None
    alias_of: int | None = None
    mutates: bool = False
    birth: int | None = None
    alignment: int = 1
    pool: str = ""
    pin: int | None = None

    def __post_init__(self) -> None:
        # NumPy's integers are welcome; what is stored is `int`, which JSON can write.
        for key in ("size", "alignment", "pin"):
            value = getattr(self, key)
            if isinstance(value, Integral) and not isinstance(value, int):
                object.__setattr__(self, key, int(value))

    @property
    def external(self) -> bool:
        """Whether the bytes lie outside the slab and are never counted."""
        return self.input is InputPolicy.EXCLUDED or self.output is OutputPolicy.OWN


@dataclass(frozen=True)
class Graph:
    """Ops and buffers, checked and ready to be planned.

    Parameters
    ----------
    name
        Shown in tables and reports.
    ops, buffers
        In program order; their positions are their ids.
    inplace
        Candidates `(op, output buffer, input buffer)`: the op may write the output into the input.
    memory_model
        One line that says by which rules sizes and live ranges were filled in.
    in_place
        Whether ops may use the candidates; see :mod:`optsched.model.inplace`. An option, not part
        of the graph's files: set by :meth:`with_inplace`.

    Raises
    ------
    GraphError
        On the first broken rule, naming op, buffer and value.
    """

    name: str
    ops: tuple[Op, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    inplace: tuple[tuple[int, int, int], ...] = ()
    memory_model: str = "default"
    in_place: bool = False
    roots: tuple[int, ...] = field(init=False, repr=False, compare=False)
    producers: tuple[int | None, ...] = field(init=False, repr=False, compare=False)
    predecessors: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_names("op", [op.name for op in self.ops])
        _check_names("buffer", [buffer.name for buffer in self.buffers])
        _check_sizes(self.buffers)
        put = object.__setattr__
        put(self, "producers", _find_producers(self.ops, self.buffers))
        put(self, "roots", _resolve_aliases(self.buffers))
        _check_roles(self)
        _check_references(self)
        put(self, "predecessors", find_predecessors(self))
        cycle = find_cycle(self.predecessors)
        if cycle:
            path = " -> ".join(repr(self.ops[v].name) for v in cycle)
            raise GraphError(f"ops form a cycle: {path}")

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self.ops)} ops, {len(self.buffers)} buffers)"

    @cached_property
    def op_ids(self) -> dict[str, int]:
        """Id of every op by name."""
        return {op.name: v for v, op in enumerate(self.ops)}

    @cached_property
    def buffer_ids(self) -> dict[str, int]:
        """Id of every buffer by name."""
        return {buffer.name: b for b, buffer in enumerate(self.buffers)}

    @cached_property
    def arrays(self) -> GraphArrays:
        """Flat int64 arrays for compiled code, built on first use."""
        return build_arrays(self)

    def with_inplace(self) -> Graph:
        """Return the graph in the memory model in which ops may write into inputs that die."""
        if self.in_place:
            return self
        return replace(self, in_place=True, memory_model=self.memory_model + IN_PLACE)

    def without_inplace(self) -> Graph:
        """Return the graph in the memory model in which every output has bytes of its own."""
        if not self.in_place:
            return self
        return replace(self, in_place=False, memory_model=self.memory_model.removesuffix(IN_PLACE))

    def is_kept(self, buffer: int) -> bool:
        """Whether a root buffer stays live to the end, on its own account or a view's."""
        return self._kept[buffer]

    @cached_property
    def _kept(self) -> tuple[bool, ...]:
        kept = [False] * len(self.buffers)
        for b, buffer in enumerate(self.buffers):
            if buffer.output is not None or buffer.input is InputPolicy.KEPT:
                kept[self.roots[b]] = True
        return tuple(kept)


def _check_names(what: str, names: Sequence[str]) -> None:
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise GraphError(f"{what} number {position} has no name (got {name!r})")
        if name in seen:
            raise GraphError(
                f"{what} {name!r} is defined twice (numbers {seen[name]} and {position})"
            )
        seen[name] = position


def require_integer(value: object, what: str, least: int = 0) -> int:
    """Return `value` if it is an integer of at least `least`; else say what it is in one line."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise GraphError(f"{what} must be an integer, got {value!r}")
    if value < least:
        raise GraphError(f"{what} must be at least {least}, got {value}")
    return value


def _check_sizes(buffers: Sequence[Buffer]) -> None:
    total = 0
    for buffer in buffers:
        label = f"buffer {buffer.name!r}"
        total += require_integer(buffer.size, f"{label}: size")
        require_integer(buffer.alignment, f"{label}: alignment", least=1)
        if buffer.pin is not None:
            require_integer(buffer.pin, f"{label}: pin")
            if buffer.pin % buffer.alignment:
                raise GraphError(
                    f"{label}: pin {buffer.pin} is not a multiple of alignment {buffer.alignment}"
                )
        if max(total, buffer.alignment, buffer.pin or 0) > MAX_TOTAL_BYTES:
            raise GraphError(
                f"{label}: sizes up to here add up to {total}, above the limit of 2**62 bytes"
            )


def _find_producers(ops: Sequence[Op], buffers: Sequence[Buffer]) -> tuple[int | None, ...]:
    producers: list[int | None] = [None] * len(buffers)
    for v, op in enumerate(ops):
        for b in op.writes:
            _require_id(b, len(buffers), f"op {op.name!r} writes buffer")
            other = producers[b]
            if other is not None:
                raise GraphError(
                    f"buffer {buffers[b].name!r} has two producers: "
                    f"{ops[other].name!r} and {op.name!r}"
                )
            producers[b] = v
    return tuple(producers)


def _require_id(value: int, count: int, what: str) -> None:
    if not 0 <= value < count:
        raise GraphError(f"{what} number {value}, but there are only {count}")


def _resolve_aliases(buffers: Sequence[Buffer]) -> tuple[int, ...]:
    roots = [-1] * len(buffers)
    for start in range(len(buffers)):
        path: dict[int, None] = {}
        at = start
        while roots[at] < 0:
            path[at] = None
            parent = buffers[at].alias_of
            if parent is None:
                roots[at] = at
                break
            _require_id(parent, len(buffers), f"buffer {buffers[at].name!r} is a view of buffer")
            if parent in path:
                names = " -> ".join(repr(buffers[b].name) for b in [*path, parent])
                raise GraphError(f"views form a cycle: {names}")
            at = parent
        for b in path:
            roots[b] = roots[at]
    return tuple(roots)


def _check_roles(graph: Graph) -> None:
    for b, buffer in enumerate(graph.buffers):
        label, producer = f"buffer {buffer.name!r}", graph.producers[b]
        if buffer.alias_of is not None:
            if buffer.size or buffer.pin is not None or buffer.birth is not None:
                raise GraphError(f"{label} is a view: it can have no size, pin or birth of its own")
            if buffer.output is OutputPolicy.OWN or buffer.input is not None:
                raise GraphError(f"{label} is a view: give the input or 'own' policy to its root")
        if producer is None and buffer.input is None:
            raise GraphError(f"{label} is written by no op and is no graph input")
        if producer is not None and buffer.input is not None:
            raise GraphError(
                f"{label} is a graph input but op {graph.ops[producer].name!r} writes it"
            )
        if buffer.mutates and buffer.alias_of is None:
            raise GraphError(f"{label} mutates nothing: it is no view")
        if buffer.birth is not None:
            _require_id(buffer.birth, len(graph.ops), f"{label} is born at op")
            if producer is None:
                raise GraphError(f"{label} is a graph input: it can not be born at an op")


def _check_references(graph: Graph) -> None:
    for op in graph.ops:
        label = f"op {op.name!r}"
        own = set(op.writes)
        for b in (*op.reads, *op.uses):
            _require_id(b, len(graph.buffers), f"{label} reads buffer")
            if b in own:
                raise GraphError(f"{label} reads buffer {graph.buffers[b].name!r}, its own output")
        for u in op.control:
            _require_id(u, len(graph.ops), f"{label} has a control edge from op")
        if op.workspace is not None and op.workspace not in own:
            raise GraphError(f"{label}: workspace must be among the buffers it writes")
    for v, output, source in graph.inplace:
        _require_id(v, len(graph.ops), "in-place candidate names op")
        op = graph.ops[v]
        for b in (output, source):
            _require_id(
                b,
                len(graph.buffers),
                f"op {op.name!r}: in-place candidate names buffer",
            )
        if output not in op.writes:
            name = graph.buffers[output].name
            raise GraphError(
                f"op {op.name!r}: in-place output {name!r} is no buffer that it writes"
            )
        if source not in op.reads:
            name = graph.buffers[source].name
            raise GraphError(f"op {op.name!r}: in-place input {name!r} is no buffer that it reads")
