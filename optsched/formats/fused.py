"""Parts of fused nodes in a graph file: the key `extra.fusion` of a capture.

The key has the graph of the parts as an `optsched-graph/1` document, the parts of each fused node,
the local buffers, what rules in-place writes out, and the bytes that each part moves. Parts and
buffers are named.

Example: `{"graph": {..}, "nodes": [["buf0", "buf1"]], "local": ["buf0"]}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from optsched.check.fused import FusionBranch, FusionCertificate, FusionLeaf, FusionTree, leaf_graph
from optsched.errors import FormatError
from optsched.formats.certificate import certificate_document, read_certificate_document
from optsched.formats.fields import Record, check_format, show
from optsched.formats.native import graph_document, read_graph_document
from optsched.formats.opening import open_source
from optsched.formats.source import errors_named, label_of, write_bytes
from optsched.model.fused import Bytes, FusedGraph, Triple
from optsched.model.saving import Saving
from optsched.runtime.collector import paused_collector
from optsched.runtime.fold import fold

KEY = "fusion"
SPLIT_FORMAT = "optsched-split/1"
"""File of `optsched solve --unfuse -o`."""
CERTIFICATE_FORMAT = "optsched-fusion-certificate/1"
MOST_DEPTH = 400
"""Most branches above a leaf."""
_KEYS = {"graph", "nodes", "local", "blockers", "absorbed", "reads", "writes", "whole"}


def fused_document(fused: FusedGraph) -> dict[str, Any]:
    """Return a fused graph as a JSON object."""
    graph = fused.graph
    ops, buffers = [op.name for op in graph.ops], [buffer.name for buffer in graph.buffers]
    return {
        "graph": graph_document(graph),
        "nodes": [[ops[v] for v in node] for node in fused.nodes],
        "local": [buffers[b] for b in sorted(fused.local)],
        "blockers": [
            [ops[v], buffers[output], buffers[source], [ops[u] for u in sorted(row)]]
            for (v, output, source), row in fused.blockers
        ],
        "absorbed": [[buffers[b] for b in pair] for pair in fused.absorbed],
        "reads": [[list(pair) for pair in row] for row in fused.reads],
        "writes": [[list(pair) for pair in row] for row in fused.writes],
        "whole": dict(fused.whole),
    }


@paused_collector()
def read_fused(path: str | Path) -> FusedGraph:
    """Return the fused graph of a captured file.

    Raise `FormatError` if the file has no parts, or a field is malformed.
    """
    source = open_source(path)
    extra = source.document.get("extra") if isinstance(source.document, Mapping) else None
    if not isinstance(extra, Mapping) or KEY not in extra:
        raise FormatError(
            f"{label_of(path)}: the file does not list the parts of fused nodes; "
            "capture the graph again with `capture(..., parts=True)` of "
            "optsched.plugins.inductor.capture"
        )
    with errors_named(label_of(path)):
        return read_fused_document(extra[KEY])


def read_fused_document(document: object) -> FusedGraph:
    """Return the fused graph of a parsed entry `extra.fusion`."""
    top = Record(document, "extra.fusion")
    top.refuse_unknown(_KEYS)
    graph = read_graph_document(top.mapping("graph")).with_inplace()
    ops, buffers = graph.op_ids, graph.buffer_ids
    nodes = tuple(
        tuple(_id(ops, name, "part") for name in _list(row, "nodes")) for row in top.items("nodes")
    )
    local = frozenset(_id(buffers, name, "buffer") for name in top.texts("local"))
    blockers = tuple(_read_blockers(row, ops, buffers) for row in top.items("blockers", []))
    absorbed = tuple(_read_pair(row, buffers) for row in top.items("absorbed", []))
    whole = Record(top.mapping("whole", {}), "extra.fusion.whole")
    return FusedGraph(
        graph=graph,
        nodes=nodes,
        local=local,
        blockers=blockers,
        absorbed=absorbed,
        reads=tuple(_read_bytes(row) for row in top.items("reads", [])),
        writes=tuple(_read_bytes(row) for row in top.items("writes", [])),
        whole=tuple((name, whole.text(name)) for name in whole.value),
    )


@dataclass(frozen=True, slots=True)
class StatedGroups:
    """Groups by the names of parts, and the figures that a file states of them."""

    groups: list[list[str]]
    figures: dict[str, int]


@dataclass(frozen=True, slots=True)
class StatedSplit:
    """Statements of a file of `optsched-split/1`; names and types are checked."""

    best: StatedGroups
    whole: StatedGroups
    """`best` and `whole`: the split, and the fused nodes and other parts whole, in the order that
    it is compared with; empty if the file does not have one."""
    graph: str
    model: str
    """`graph` and `model`: name of the graph of parts, and its memory model; empty if not
    stated."""
    bound: int | None
    proved: bool
    """`bound` and `proved`: a bound on the peak of all splits, and True if the split is said to
    meet it."""
    saving: dict[str, int]
    """Bytes of the saving: `before`, `after` and `bound`."""
    front: list[dict[str, int]]
    """Peak, kernels and traffic of splits whose groups the file does not have."""


_FIGURES = ("peak", "kernels", "traffic")
_SPLIT_KEYS = {
    *("format", "graph", "instance", "saving", "all_fused", "best_split", "bound", "proved"),
    *("front", "stop_reason", "branches", "solves", "seconds", "knee", "whole", "memory_model"),
    *("versions", "certificate", "before"),
}
_SAVING_KEYS = {*(field.name for field in fields(Saving)), "saved"}


def read_split_document(document: object) -> StatedSplit:
    """Return the split of a parsed document."""
    top = Record(document, "split")
    check_format(top, SPLIT_FORMAT)
    top.refuse_unknown(_SPLIT_KEYS)
    saving = Record(top.mapping("saving", {}), "saving")
    saving.refuse_unknown(_SAVING_KEYS)
    points = [Record(point, "front") for point in top.items("front", [])]
    points += [Record(top.mapping("knee"), "knee")] if top.has("knee") else []
    for point in points:
        point.refuse_unknown(_FIGURES)
    return StatedSplit(
        best=_stated(top, "best_split"),
        whole=_stated(top, "all_fused") if top.has("all_fused") else StatedGroups([], {}),
        graph=top.text("graph", top.text("instance", "")),
        model=top.text("memory_model", ""),
        bound=top.count("bound") if top.has("bound") else None,
        proved=top.flag("proved", False),
        saving={x: saving.count(x) for x in ("before", "after", "bound") if saving.has(x)},
        front=[{x: point.count(x) for x in _FIGURES} for point in points],
    )


def _stated(top: Record, key: str) -> StatedGroups:
    record = Record(top.mapping(key), key)
    record.refuse_unknown((*_FIGURES, "groups"))
    figures = {x: record.count(x) for x in _FIGURES if record.has(x)}
    return StatedGroups(_groups(record), figures)


def _groups(record: Record) -> list[list[str]]:
    """Return the groups of a split, by the names of parts."""
    rows = [_list(row, "groups") for row in record.items("groups")]
    if not all(rows):
        raise FormatError(f"{record.where}: a group is empty")
    for name in (name for row in rows for name in row):
        if not isinstance(name, str):
            raise FormatError(f"{record.where}: groups name parts, got {show(name)}")
    return rows


def write_fusion_certificate(
    certificate: FusionCertificate, path: str | Path, fused: FusedGraph
) -> None:
    """Write a certificate as JSON; :func:`read_fusion_document` reads it."""
    document = {
        "format": CERTIFICATE_FORMAT,
        "graph": certificate.graph,
        "bound": certificate.bound,
        "tree": fold((certificate.tree, _NONE), _parts, partial(_part_document, fused)),
    }
    write_bytes(path, f"{json.dumps(document, separators=(',', ':'))}\n".encode())


def read_fusion_document(fused: FusedGraph, document: object) -> FusionCertificate:
    """Return the certificate of a parsed document.

    Raise `FormatError` if a field is missing, unknown or malformed. Raise `PlanError` if it names a
    buffer or an op that the graph does not have.
    """
    top = Record(document, "certificate")
    check_format(top, CERTIFICATE_FORMAT)
    top.refuse_unknown({"format", "graph", "bound", "tree"})
    root: tuple[object, _Choices] = (top.mapping("tree"), _NONE)
    tree: FusionTree = fold(root, partial(_read_parts, fused), partial(_read_part, fused))
    return FusionCertificate(top.text("graph"), top.count("bound"), tree)


_Choices: TypeAlias = tuple[frozenset[int], frozenset[int]]
"""Local buffers that stay inside one group, and that are cut."""
_NONE: _Choices = (frozenset(), frozenset())


def _sides(choices: _Choices, b: int) -> tuple[_Choices, _Choices]:
    stay, cut = choices
    return (stay | {b}, cut), (stay, cut | {b})


def _parts(at: tuple[FusionTree, _Choices]) -> list[tuple[FusionTree, _Choices]]:
    tree, choices = at
    if isinstance(tree, FusionLeaf):
        return []
    return [*zip((tree.stays, tree.cut), _sides(choices, tree.buffer), strict=True)]


def _part_document(
    fused: FusedGraph, at: tuple[FusionTree, _Choices], parts: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    tree, choices = at
    if isinstance(tree, FusionBranch):
        name = fused.graph.buffers[tree.buffer].name
        return {"buffer": name, "stays": parts[0], "cut": parts[1]}
    if tree.certificate is None:
        return {"impossible": True}
    graph, _ = leaf_graph(fused, *choices, allowed=tree.allowed)
    document: dict[str, Any] = {"certificate": certificate_document(graph, tree.certificate)}
    return {**document, "allowed": True} if tree.allowed else document


def _read_parts(fused: FusedGraph, at: tuple[object, _Choices]) -> list[tuple[object, _Choices]]:
    value, choices = at
    record = Record(value, "certificate: tree")
    if not record.has("buffer"):
        return []
    if sum(map(len, choices)) >= MOST_DEPTH:
        raise FormatError(f"certificate: the tree is deeper than {MOST_DEPTH}")
    b = _id(fused.graph.buffer_ids, record.text("buffer"), "buffer")
    both = (record.mapping("stays"), record.mapping("cut"))
    return [*zip(both, _sides(choices, b), strict=True)]


def _read_part(
    fused: FusedGraph, at: tuple[object, _Choices], parts: Sequence[FusionTree]
) -> FusionTree:
    record = Record(at[0], "certificate: tree")
    if parts:
        record.refuse_unknown({"buffer", "stays", "cut"})
        b = _id(fused.graph.buffer_ids, record.text("buffer"), "buffer")
        return FusionBranch(b, parts[0], parts[1])
    record.refuse_unknown({"impossible", "certificate", "allowed"})
    if record.flag("impossible", False):
        return FusionLeaf(None)
    allowed = record.flag("allowed", False)
    graph, _ = leaf_graph(fused, *at[1], allowed=allowed)
    return FusionLeaf(read_certificate_document(graph, record.mapping("certificate")), allowed)


def _read_blockers(
    row: object, ops: Mapping[str, int], buffers: Mapping[str, int]
) -> tuple[Triple, frozenset[int]]:
    if not isinstance(row, list) or len(row) != 4:
        raise FormatError(f"extra.fusion: expected op, output, input and parts, got {show(row)}")
    triple = (
        _id(ops, row[0], "part"),
        _id(buffers, row[1], "buffer"),
        _id(buffers, row[2], "buffer"),
    )
    return triple, frozenset(_id(ops, name, "part") for name in _list(row[3], "blockers"))


def _read_pair(row: object, buffers: Mapping[str, int]) -> tuple[int, int]:
    if not isinstance(row, list) or len(row) != 2:
        raise FormatError(f"extra.fusion: expected two buffers, got {show(row)}")
    return _id(buffers, row[0], "buffer"), _id(buffers, row[1], "buffer")


def _read_bytes(row: object) -> Bytes:
    found = []
    for pair in _list(row, "reads and writes"):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise FormatError(f"extra.fusion: expected a name and bytes, got {show(pair)}")
        if type(pair[1]) is not int or pair[1] < 0:
            raise FormatError(f"extra.fusion: {pair[0]!r}: expected bytes, got {show(pair[1])}")
        found.append((pair[0], pair[1]))
    return tuple(found)


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise FormatError(f"extra.fusion: {where} must be lists, got {show(value)}")
    return value


def _id(table: Mapping[str, int], name: object, what: str) -> int:
    if not isinstance(name, str) or name not in table:
        raise FormatError(f"extra.fusion names unknown {what} {show(name)}")
    return table[name]
