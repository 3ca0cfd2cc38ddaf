"""TorchInductor's simulator file, as written by `export_graph_for_simulator`.

The file is a JSON object with `nodes` and `buffers`. An extended capture adds the key `extra` with
facts that the file lacks: orderings without a buffer, dependencies by raw name, true bytes of
inputs, op kinds, in-place candidates. Both forms are read, and give the same plan if the graph is
the same.

References
----------
torch/_inductor/memory.py, functions `export_graph_for_simulator` and `estimate_peak_memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optsched.errors import FormatError
from optsched.formats.fields import Record, show
from optsched.formats.format import CHOSEN, InputBytes, Source
from optsched.formats.inductor_names import Names, Uses, find_names, read_real_names
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph


@dataclass
class _BufferRow:
    """An entry of `buffers`, with values derived from it."""

    name: str
    size: int
    alloc: int
    is_input: bool
    is_output: bool
    deps: list[str]
    birth: int | None = None
    leftover: bool = False


def read_inductor(
    document: Mapping[str, Any],
    *,
    name: str = "graph",
    input_bytes: InputBytes = InputBytes.RECORDED,
) -> Graph:
    """Return the graph of a simulator file's parsed JSON.

    `TRUE` input bytes need the key `extra.freeable_true_nbytes`. `FormatError` is raised if a field
    is missing or of the wrong type, `GraphError` if the graph breaks a rule.
    """
    top = Record(document, "simulator file")
    extra = Record(top.mapping("extra", {}), "extra")
    nodes = [Record(x, f"node number {i}") for i, x in enumerate(top.items("nodes"))]
    op_names = [node.text("name") for node in nodes]
    # By name; a duplicate would vanish here, hence the comparison below.
    rows = {row.name: row for row in map(_read_row, top.items("buffers"))}
    if len(rows) != len(top.items("buffers")):
        raise FormatError("buffers: duplicate name")
    if input_bytes is InputBytes.TRUE:
        _use_true_bytes(rows, extra)
    writes = [[b for b in node.texts("buffer_names") if b in rows] for node in nodes]
    producer = {b: v for v, names in enumerate(writes) for b in names}
    # Inputs are made by the caller, all others by a node.
    for row in rows.values():
        if not row.is_input and row.name not in producer:
            raise FormatError(f"buffer {row.name!r} is not an input and not listed by a node")
        for dep in row.deps:
            if dep not in rows:
                raise FormatError(f"buffer {row.name!r} depends on unknown buffer {dep!r}")
    _find_births(rows, producer)
    ids = {b: i for i, b in enumerate(rows)}
    uses = _uses(op_names, writes, rows, extra)
    sizes = {row.name: (row.alloc, row.size) for row in rows.values()}
    real = read_real_names(extra, sizes, producer)
    names = Names(real)
    if not extra.has("pred_nodes"):
        # Without Inductor's own predecessors, only this makes readers of the old contents run
        # before these buffers are overwritten.
        overwriting = [x for x in extra.mapping("mutation_real_name", {}) if x in real]
        names = find_names(real, overwriting, producer, uses)
        uses = [names.without_repeats(row) for row in uses]
    ops = _make_ops(op_names, writes, uses, ids, producer, extra)
    source = extra.text("source", "inductor")
    model = f"{source}; input bytes {input_bytes}"
    buffers = tuple(_make_buffer(row, names, ids) for row in rows.values())
    inplace = _read_inplace(extra, op_names, ids)
    return Graph(name, ops, buffers, inplace, model)


def _read_row(value: object) -> _BufferRow:
    entry = Record(value, "entry of buffers")
    name = entry.text("name")
    entry = Record(value, f"buffer {name!r}")
    return _BufferRow(
        name=name,
        alloc=entry.count("size_alloc"),
        size=entry.count("size_free"),
        is_input=entry.flag("is_input"),
        is_output=entry.flag("is_output"),
        deps=list(dict.fromkeys(entry.texts("deps"))),
    )


def _use_true_bytes(rows: Mapping[str, _BufferRow], extra: Record) -> None:
    true = Record(extra.mapping("freeable_true_nbytes"), "extra.freeable_true_nbytes")
    for row in rows.values():
        if row.is_input:
            row.size = row.alloc = true.count(row.name)


def _find_births(rows: Mapping[str, _BufferRow], producer: Mapping[str, int]) -> None:
    """Set the op of birth of buffers that a parent op allocates (multi-output layouts).

    In such a layout, the parent's buffer allocates the sum and frees nothing, and each child
    allocates nothing and frees its own part. The file does not name the parent, but a child depends
    on it.
    """
    # Bytes that a buffer allocates and does not free itself.
    left = {row.name: row.alloc for row in rows.values() if row.alloc and not row.size}
    for row in rows.values():
        if row.alloc == row.size or row.name in left:
            continue
        if row.alloc or row.is_input:
            raise FormatError(
                f"buffer {row.name!r} allocates {row.alloc} bytes and frees {row.size}"
            )
        # The first dependency with enough bytes left is the parent.
        parents = [d for d in row.deps if d in producer and left.get(d, -1) >= row.size]
        if not parents:
            raise FormatError(
                f"buffer {row.name!r} frees {row.size} bytes that no buffer it depends on allocated"
            )
        left[parents[0]] -= row.size
        row.birth = producer[parents[0]]
    for name, remainder in left.items():
        # Bytes that are never freed stay live to the end, as in Inductor's estimate.
        rows[name].size = remainder
        rows[name].leftover = remainder > 0


def _make_buffer(row: _BufferRow, names: Names, ids: Mapping[str, int]) -> Buffer:
    root = names.view_of.get(row.name)
    return Buffer(
        name=row.name,
        size=row.size,
        input=InputPolicy.FREED if row.is_input else None,
        output=OutputPolicy.LIVE if row.is_output or row.leftover else None,
        alias_of=None if root is None else ids[root],
        mutates=row.name in names.mutates,
        birth=row.birth,
    )


def _uses(
    names: Sequence[str],
    writes: Sequence[Sequence[str]],
    rows: Mapping[str, _BufferRow],
    extra: Record,
) -> list[Uses]:
    """Return the dependencies of each node, by raw name if the file has these."""
    raw = _per_node(extra, "unmet_dep_names", len(names))
    found = []
    for v, own in enumerate(writes):
        deps = dict.fromkeys(d for b in own for d in rows[b].deps)
        used = [d for d in deps if d not in own]
        # A direct use names the buffer as it is; others come through views, as Inductor's estimate
        # has them.
        named = set(used if raw is None else [d for d in raw[v] if isinstance(d, str)])
        direct = dict.fromkeys(d for d in used if rows[d].is_input or d in named)
        found.append(Uses(list(direct), [d for d in used if d not in direct]))
    return found


def _make_ops(
    names: Sequence[str],
    writes: Sequence[Sequence[str]],
    uses: Sequence[Uses],
    ids: Mapping[str, int],
    producer: Mapping[str, int],
    extra: Record,
) -> tuple[Op, ...]:
    ordering = _per_node(extra, "pred_nodes", len(names))
    _check_positions(ordering or [], len(names))
    kinds = extra.texts("kinds", []) or extra.texts("ops", [])
    ops = []
    for v, name in enumerate(names):
        used = (*uses[v].direct, *uses[v].transferred)
        carried = {producer[d] for d in used if d in producer}
        control: set[int] = set()
        if ordering is not None:
            # Order that already follows from data needs no edge of its own.
            control = {u for u in ordering[v] if u not in carried}
        ops.append(
            Op(
                name=name,
                reads=tuple(ids[d] for d in uses[v].direct),
                uses=tuple(ids[d] for d in uses[v].transferred),
                writes=tuple(ids[b] for b in writes[v]),
                control=tuple(sorted(control)),
                kind=kinds[v] if v < len(kinds) else "",
            )
        )
    return tuple(ops)


def _per_node(extra: Record, key: str, count: int) -> list[Any] | None:
    rows = extra.items(key, None)
    if rows is not None and len(rows) != count:
        raise FormatError(f"extra.{key} has {len(rows)} entries for {count} nodes")
    for v, row in enumerate(rows or []):
        if not isinstance(row, list):
            raise FormatError(f"extra.{key}: entry {v} must be an array, got {show(row)}")
    return rows


def _check_positions(rows: list[list[Any]], count: int) -> None:
    for v, row in enumerate(rows):
        for u in row:
            if type(u) is not int or not 0 <= u < count:
                raise FormatError(f"extra.pred_nodes: entry {v} names node {show(u)} of {count}")


def _read_inplace(
    extra: Record, op_names: Sequence[str], ids: Mapping[str, int]
) -> tuple[tuple[int, int, int], ...]:
    op_ids = {name: v for v, name in enumerate(op_names)}
    found = []
    candidates = Record(extra.mapping("inplace_candidates", {}), "extra.inplace_candidates")
    for op in candidates.value:
        for pair in candidates.items(op):
            if not (isinstance(pair, list) and [type(x) for x in pair] == [str, str]):
                raise FormatError(
                    f"op {op!r}: in-place candidate must be a pair of names, got {show(pair)}"
                )
            for known, what in ((op_ids, op), (ids, pair[0]), (ids, pair[1])):
                if what not in known:
                    raise FormatError(f"op {op!r}: in-place candidate names unknown {what!r}")
            found.append((op_ids[op], ids[pair[0]], ids[pair[1]]))
    return tuple(found)


def read_simulator_file(source: Source, input_bytes: InputBytes = InputBytes.RECORDED) -> Graph:
    """Return the graph of a file; see :func:`read_inductor`."""
    return read_inductor(source.document, name=source.name, input_bytes=input_bytes)


def read_orders(source: Source) -> dict[str, tuple[int, ...]]:
    """Return the orders of a file; see :func:`recorded_orders`."""
    return recorded_orders(source.document)


def recorded_orders(document: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the orders in a simulator file, as op ids by name; empty if it has none.

    Captures of Inductor have `extra.orders` (node positions by method) and `extra.chosen`; those of
    other frameworks have `extra.reference_order` (node names). The chosen order is also listed as
    :data:`CHOSEN`. Only names and types are checked; `optsched.check.plan` checks orders.
    """
    top = Record(document, "simulator file")
    extra = Record(top.mapping("extra", {}), "extra")
    orders = Record(extra.mapping("orders", {}), "extra.orders")
    found = {name: tuple(map(_position, orders.items(name))) for name in orders.value}
    taken = extra.text(CHOSEN, "")
    if taken in found:
        found[CHOSEN] = found[taken]
    if extra.has("reference_order"):
        ids = {Record(x, "node").text("name"): v for v, x in enumerate(top.items("nodes"))}
        names = extra.texts("reference_order")
        for name in names:
            if name not in ids:
                raise FormatError(f"extra.reference_order names unknown node {show(name)}")
        found[CHOSEN] = tuple(ids[name] for name in names)
    return found


def _position(value: object) -> int:
    if type(value) is not int:
        raise FormatError(f"extra.orders: expected node positions, got {show(value)}")
    return value
