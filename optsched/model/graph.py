"""The graph model: ops that read and write buffers.

A :class:`Graph` is immutable and valid. All rules are checked once, when it is made, so no other
module has to handle malformed data. Ops and buffers are identified by their position, called *id*;
names are used in messages and files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter

from optsched.errors import GraphError, UsageError, expect
from optsched.model.arrays import GraphArrays, build_arrays, with_bytes
from optsched.model.dependencies import check_streams, find_cycle, find_predecessors
from optsched.model.digest import digest_of
from optsched.model.elements import (
    MAX_ADDRESS,
    MAX_TOTAL_BYTES,
    Buffer,
    Op,
    OutputPolicy,
    require_id,
    require_integer,
)
from optsched.model.inplace import admissible_pairs
from optsched.model.origin import Origin
from optsched.model.sharing import graph_sharing
from optsched.model.wiring import find_kept, find_producers, find_roots
from optsched.runtime.collector import paused_collector
from optsched.runtime.keywords import keywords
from optsched.runtime.shown import Told
from optsched.runtime.text import counted, nearest_word


@keywords
@dataclass(frozen=True)
class Graph(Told):
    """Ops and buffers of a tensor program, checked and ready to be planned.

    Parameters
    ----------
    name
        Name shown in tables and reports.
    ops, buffers
        Ops and buffers in program order; their positions are their ids.
    inplace_candidates
        `(op, output buffer, input buffer)`: the kernel of the op could write the output into the
        input. Candidates have no effect unless they are listed in `inplace`, too.
    memory_model
        One line that describes how sizes and live ranges were determined.
    inplace
        The candidates that ops may make use of: none, or those that :meth:`with_inplace` permits.
        See :mod:`optsched.model.inplace`.
    keep_apart
        Pairs of buffers that must not share any byte, even if they are never live together.
    must_share
        Groups of buffers that start at the same offset. While one of them is live, as many bytes as
        the largest has are reserved. In no order may two of them be live together.
    cost_unit
        Unit and origin of the ops' costs, such as `"flops (from shapes)"`; empty without costs.
    dims
        Sizes, by name, of the dimensions that the model's file leaves open. They determined the
        sizes of the buffers, and have no further effect.
    origin
        Format and recorded orders of the graph's file; None for a graph made in Python. Savings are
        measured against the framework that it names.
    variant
        In words, the choices by which this graph was made of another one, such as "these repeats":
        its plans are not all plans of that graph. Empty for a graph of its own.

    Attributes
    ----------
    op_ids, buffer_ids
        Ids of the ops and of the buffers by name.
    roots, kept, producers, predecessors
        Derived, see :mod:`optsched.model.wiring` and :mod:`optsched.model.dependencies`.

    Raises
    ------
    GraphError
        On the first broken rule, naming op, buffer and value.

    Examples
    --------
    >>> from optsched import Buffer, Graph, Op
    >>> ops = (Op("make", writes=(0,)), Op("use", reads=(0,), writes=(1,)))
    >>> graph = Graph("pair", ops, (Buffer("a", 8), Buffer("b", 4)))
    >>> graph, graph.predecessors
    (Graph('pair', 2 ops, 2 buffers), ((), (0,)))
    """

    name: str
    ops: tuple[Op, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    inplace_candidates: tuple[tuple[int, int, int], ...] = ()
    memory_model: str = "default"
    inplace: tuple[tuple[int, int, int], ...] = ()
    keep_apart: tuple[tuple[int, int], ...] = ()
    must_share: tuple[tuple[int, ...], ...] = ()
    cost_unit: str = ""
    dims: tuple[tuple[str, int], ...] = field(default=(), repr=False, compare=False)
    origin: Origin | None = field(default=None, repr=False, compare=False)
    variant: str = field(default="", repr=False, compare=False)
    op_ids: dict[str, int] = field(init=False, repr=False, compare=False)
    buffer_ids: dict[str, int] = field(init=False, repr=False, compare=False)
    roots: tuple[int, ...] = field(init=False, repr=False, compare=False)
    kept: tuple[bool, ...] = field(init=False, repr=False, compare=False)
    producers: tuple[int | None, ...] = field(init=False, repr=False, compare=False)
    predecessors: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    @paused_collector()
    def __post_init__(self) -> None:
        expect("name of a graph", self.name, str)
        # The class is frozen; derived fields are set once, here.
        put = object.__setattr__
        put(self, "op_ids", _ids_by_name("op", [op.name for op in self.ops]))
        put(self, "buffer_ids", _ids_by_name("buffer", [x.name for x in self.buffers]))
        _check_sizes(self.buffers)
        put(self, "roots", find_roots(self.buffers))
        put(self, "kept", find_kept(self.buffers, self.roots))
        put(self, "producers", find_producers(self.ops, self.buffers))
        # Order of checks: later ones rely on what earlier ones have established.
        _check_roles(self)
        _check_references(self)
        put(self, "predecessors", find_predecessors(self))
        cycle = find_cycle(self.predecessors)
        if cycle:
            path = " -> ".join(repr(self.ops[v].name) for v in cycle)
            raise GraphError(f"ops form a cycle: {path}")
        check_streams(self)
        if self.inplace and self.on_streams:
            raise GraphError(f"{self.name}: ops on several streams cannot write in place")
        if self.must_share and self.on_streams:
            raise GraphError(f"{self.name}: must-share groups are not supported on several streams")
        # Rules of sharing need predecessors and are rare, so they come last.
        if self.keep_apart or self.must_share:
            apart, shared = graph_sharing(self, self.keep_apart, self.must_share)
            put(self, "keep_apart", apart)
            put(self, "must_share", shared)
            _check_inplace(self)

    def __repr__(self) -> str:
        ops, buffers = counted(len(self.ops), "op"), counted(len(self.buffers), "buffer")
        return f"Graph({self.name!r}, {ops}, {buffers})"

    def op(self, name: str) -> Op:
        """Return the op with this name; raise UsageError, with the nearest name, if none has it.

        Examples
        --------
        >>> from optsched import Graph, Op
        >>> Graph("one", (Op("conv1"),)).op("conv1").name
        'conv1'
        """
        return self.ops[_id_of("op", name, self.op_ids, self)]

    def buffer(self, name: str) -> Buffer:
        """Return the buffer with this name; raise UsageError, as :meth:`op` does, without one.

        Examples
        --------
        >>> from optsched import Buffer, Graph, Op
        >>> Graph("one", (Op("conv1", writes=(0,)),), (Buffer("y", 8),)).buffer("y").size
        8
        """
        return self.buffers[_id_of("buffer", name, self.buffer_ids, self)]

    @cached_property
    def outside(self) -> frozenset[int]:
        """Buffers whose bytes lie outside the slab."""
        # Most buffers have neither policy, and a property per buffer takes longer.
        rows = enumerate(self.buffers)
        named = [b for b, x in rows if x.input is not None or x.output is not None]
        return frozenset(b for b in named if self.buffers[b].external)

    @cached_property
    def arrays(self) -> GraphArrays:
        """Flat int64 arrays for compiled code, built on first use."""
        return build_arrays(self, admissible_pairs(self, self.inplace))

    @cached_property
    def digest(self) -> bytes:
        """Digest of all data on which bounds depend: everything but names."""
        shared = (self.inplace, self.keep_apart, self.must_share)
        return digest_of(self.ops, self.buffers, shared)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams that ops run on, in order of their first ops."""
        return tuple(dict.fromkeys(op.stream for op in self.ops))

    @property
    def on_streams(self) -> bool:
        """Return True if ops run on several streams."""
        return len(self.streams) > 1

    @property
    def in_place(self) -> bool:
        """Return True if some op may write an output into an input."""
        return bool(self.inplace)

    @property
    def model_name(self) -> str:
        """Description of the memory model, as shown in results."""
        return f"{self.memory_model}; in-place" if self.in_place else self.memory_model

    def refuse_streams(self, what: str) -> None:
        """Raise an error if ops run on several streams; `what` names the method that rejects it."""
        if self.on_streams:
            raise UsageError(f"{self.name}: ops on several streams are not supported by {what}")

    def refuse_inplace(self, what: str) -> None:
        """Raise an error if the graph is in-place; `what` names a method without in-place support.

        The answers of such a method would be those of another memory model.
        """
        if self.in_place:
            raise UsageError(f"{self.name}: the in-place memory model is not supported by {what}")

    def with_inplace(self) -> Graph:
        """Return the graph in which ops may use all candidates that pairs and groups allow.

        An output that must be kept apart from another buffer is not written in place. The same
        holds for outputs and inputs that belong to a must-share group.
        """
        chosen = tuple(filter(self._may_write, self.inplace_candidates))
        # Candidates are checked already; streams and groups have rules about those in use.
        if self.on_streams or self._tied:
            return replace(self, inplace=chosen)
        return self._rewritten(inplace=chosen)

    @cached_property
    def _grouped(self) -> frozenset[int]:
        return frozenset(b for group in self.must_share for b in group)

    @cached_property
    def _tied(self) -> frozenset[int]:
        """Buffers of groups and of keep-apart pairs."""
        return self._grouped.union(*self.keep_apart)

    def _may_write(self, pair: tuple[int, int, int]) -> bool:
        """Return True unless a pair or group forbids that an op writes an output into an input."""
        return pair[1] not in self._tied and self.roots[pair[2]] not in self._grouped

    def without_inplace(self) -> Graph:
        """Return the graph in which no op writes in place."""
        return self._rewritten(inplace=()) if self.inplace else self

    def in_pools(self, pools: Sequence[str]) -> Graph:
        """Return the graph whose buffers lie in these pools, one name per buffer.

        Buffers of different pools stay separate if they come to lie in the same one: ops do not
        write one into the other.
        """
        buffers = tuple(
            buffer if buffer.pool == pool else replace(buffer, pool=pool)
            for buffer, pool in zip(self.buffers, pools, strict=True)
        )
        inplace = tuple(x for x in self.inplace if self._share_pool(*x[1:]))
        if self.must_share:
            return replace(self, buffers=buffers, inplace=inplace)
        # No other check depends on pools, and all would take as long as a replay of a plan.
        moved = self._rewritten(buffers=buffers, inplace=inplace)
        # Arrays depend on pools only by the in-place pairs.
        if "arrays" in self.__dict__ and not self.inplace:
            moved.__dict__["arrays"] = self.arrays
        return moved

    def with_sizes(self, buffers: tuple[Buffer, ...]) -> Graph:
        """Return the graph with these buffers, which differ from its own in sizes and pins alone.

        The wiring depends on neither, so predecessors, rows and their checks are taken over: that
        is most of the time that a large graph takes to make.
        """
        _check_sizes(buffers)
        made = self._rewritten(buffers=buffers)
        pairs = admissible_pairs(made, made.inplace)
        made.__dict__["arrays"] = with_bytes(self.arrays, made, pairs)
        return made

    def with_control(self, after: Mapping[int, Sequence[int]]) -> Graph:
        """Return the graph in which some ops wait for more ops, which must not wait for them."""
        ops, rows = list(self.ops), list(self.predecessors)
        for v, more in after.items():
            ops[v] = replace(ops[v], control=tuple(dict.fromkeys((*ops[v].control, *more))))
            rows[v] = tuple(sorted({*rows[v], *more}))
        # Groups are tested against the order of the ops.
        if self.keep_apart or self.must_share or self.on_streams:
            return replace(self, ops=tuple(ops))
        return self._rewritten(ops=tuple(ops), predecessors=tuple(rows))

    def with_costs(self, costs: Sequence[int], unit: str) -> Graph:
        """Return the graph with a cost per op, an integer of at least 0, in a unit."""
        names = [each.name for each in fields(Op)]
        at, values = names.index("cost"), attrgetter(*names)
        ops = []
        for op, cost in zip(self.ops, costs, strict=True):
            if type(cost) is not int or cost < 0:
                require_integer(cost, f"op {op.name!r}: cost")
            # In half of the time of `replace`.
            row = list(values(op))
            row[at] = cost
            ops.append(Op(*row))
        return self._rewritten(ops=tuple(ops), cost_unit=unit)

    def read_from(self, origin: Origin, dims: Mapping[str, int] | None = None) -> Graph:
        """Return the graph with its origin, and with the sizes of dimensions if any were given."""
        kept = tuple(dims.items()) if dims else self.dims
        return self._rewritten(origin=origin, dims=kept)

    def _rewritten(self, **changed: object) -> Graph:
        """Return a copy with some fields changed, without the checks of a new graph."""
        # Fields that change here cannot make a valid graph invalid.
        made = object.__new__(Graph)
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        made.__dict__.update(known | changed)
        return made

    def _share_pool(self, one: int, other: int) -> bool:
        return self.buffers[one].pool == self.buffers[other].pool

    def without_streams(self) -> Graph:
        """Return the graph on a single stream; syncs remain as control edges."""
        if self.streams in ((), ("",)):
            return self
        return replace(self, ops=tuple(replace(op, stream="") for op in self.ops))


def _id_of(what: str, name: str, ids: Mapping[str, int], graph: Graph) -> int:
    """Return the id of a named op or buffer; raise UsageError that names the nearest one."""
    expect(f"name of {what}", name, str)
    if name not in ids:
        near = nearest_word(name, ids)
        hint = f": did you mean {near!r}?" if near else f", which has {counted(len(ids), what)}"
        raise UsageError(f"{what} {name!r} is not in graph {graph.name!r}{hint}")
    return ids[name]


def _check_inplace(graph: Graph) -> None:
    for v, output, source in graph.inplace:
        if not graph._may_write((v, output, source)):
            raise GraphError(
                f"op {graph.ops[v].name!r} writes {graph.buffers[output].name!r} in place, "
                "which keep-apart pairs or must-share groups forbid"
            )


def _ids_by_name(what: str, names: Sequence[str]) -> dict[str, int]:
    """Return ids by name; raise an error for a name that is missing or occurs twice."""
    if {str}.issuperset(map(type, names)):
        found = {name: i for i, name in enumerate(names)}
        if len(found) == len(names) and "" not in found:
            return found
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise GraphError(f"{what} number {position} has no name (got {name!r})")
        if name in seen:
            raise GraphError(
                f"{what} {name!r} is defined twice (numbers {seen[name]} and {position})"
            )
        seen[name] = position
    return seen


def _check_sizes(buffers: Sequence[Buffer]) -> None:
    total = 0
    for buffer in buffers:
        _check_numbers(buffer)
        total += buffer.size
        # Checked per buffer, so that the message can name the first that is too large.
        if max(total, buffer.alignment, (buffer.pin or 0) + buffer.size) > MAX_TOTAL_BYTES:
            _refuse_large(buffer, total)


def _refuse_large(buffer: Buffer, total: int) -> None:
    """Raise an error about a number of a buffer that is too large.

    `total` is the sum of the sizes up to this buffer.
    """
    label, end = f"buffer {buffer.name!r}", (buffer.pin or 0) + buffer.size
    for what, value in (("alignment", buffer.alignment), ("pin", buffer.pin or 0)):
        if value > MAX_TOTAL_BYTES:
            raise GraphError(f"{label}: {what} {value} is above the limit of 2**62 bytes")
    if total > MAX_TOTAL_BYTES:
        raise GraphError(
            f"{label}: sizes up to this buffer add up to {total}, above the limit of 2**62 bytes"
        )
    if end > MAX_ADDRESS:
        raise GraphError(f"{label}: pinned to {buffer.pin} it ends at {end}, beyond 2**63 - 1")


def _check_numbers(buffer: Buffer) -> None:
    size, alignment, pin = buffer.size, buffer.alignment, buffer.pin
    # Most buffers pass this quick check, which formats no message.
    if type(size) is type(alignment) is int and size >= 0 and alignment > 0 and pin is None:
        return
    label = f"buffer {buffer.name!r}"
    require_integer(size, f"{label}: size")
    require_integer(alignment, f"{label}: alignment", least=1)
    if pin is not None and require_integer(pin, f"{label}: pin") % alignment:
        raise GraphError(f"{label}: pin {pin} is not a multiple of alignment {alignment}")


def _check_roles(graph: Graph) -> None:
    for buffer, producer in zip(graph.buffers, graph.producers, strict=True):
        label = f"buffer {buffer.name!r}"
        if buffer.alias_of is not None:
            if buffer.size or buffer.pin is not None or buffer.birth is not None:
                raise GraphError(
                    f"{label} is a view: it cannot have a size, pin or birth of its own"
                )
            if buffer.output is OutputPolicy.OWN or buffer.input is not None:
                raise GraphError(f"{label} is a view: give the input or 'own' policy to its root")
        if producer is None and buffer.input is None:
            raise GraphError(f"{label} is not written by any op and is not a graph input")
        if producer is not None and buffer.input is not None:
            raise GraphError(
                f"{label} is a graph input but op {graph.ops[producer].name!r} writes it"
            )
        if buffer.mutates and buffer.alias_of is None:
            raise GraphError(f"{label} is marked as mutating, but it is not a view")
        if buffer.birth is not None:
            require_id(buffer.birth, len(graph.ops), f"{label} is born at op")
            if producer is None:
                raise GraphError(f"{label} is a graph input: it cannot be born at an op")


def _check_references(graph: Graph) -> None:
    count = len(graph.buffers)
    for op in graph.ops:
        if type(op.cost) is not int or op.cost < 0:
            require_integer(op.cost, f"op {op.name!r}: cost")
        # An op that reads its own output would wait for itself.
        own = set(op.writes)
        for b in (*op.reads, *op.uses):
            if 0 <= b < count and b not in own:
                continue
            require_id(b, count, f"op {op.name!r} reads buffer")
            name = graph.buffers[b].name
            raise GraphError(f"op {op.name!r} reads buffer {name!r}, its own output")
        for u in op.control:
            require_id(u, len(graph.ops), f"op {op.name!r} has a control edge from op")
        if op.workspace is not None and op.workspace not in own:
            raise GraphError(f"op {op.name!r}: workspace must be among the buffers it writes")
    for v, output, source in (*graph.inplace_candidates, *graph.inplace):
        require_id(v, len(graph.ops), "in-place candidate names op")
        op = graph.ops[v]
        if output in op.writes and source in op.reads:
            continue
        for b in (output, source):
            require_id(b, len(graph.buffers), f"op {op.name!r}: in-place candidate names buffer")
        for b, known, what in (
            (output, op.writes, "output {!r} is not a buffer that it writes"),
            (source, op.reads, "input {!r} is not a buffer that it reads"),
        ):
            if b not in known:
                text = what.format(graph.buffers[b].name)
                raise GraphError(f"op {op.name!r}: in-place {text}")
