"""The format `optsched-recompute-certificate/1`: a proof of a bound on extra compute.

Ops and buffers are named. A leaf is `{"scale": n, "rows": [[kind, op, name.., multiplier]..],
"branches": [n..]}`; a branch is `{"ops": [..], "at_most": k, "fewer": .., "more": ..}`, with
`"has_run_at": op` or `"runs_later_than": op` if it is about a moment instead of repeats.
:mod:`optsched.check.recompute` says what the rows are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from optsched.check.recompute import (
    RecomputeBranch,
    RecomputeCertificate,
    RecomputeLeaf,
    RecomputeTree,
)
from optsched.check.recompute_rows import KINDS, RowUse
from optsched.errors import FormatError, PlanError
from optsched.formats.fields import Record, check_format, show
from optsched.formats.source import write_bytes
from optsched.model.graph import Graph
from optsched.runtime.fold import fold

RECOMPUTE_FORMAT = "optsched-recompute-certificate/1"
MOMENTS = {"d": "has_run_at", "x": "runs_later_than"}
"""Field of the moment of a branch, by its variable."""
MOST_DEPTH = 500
"""Most branches above a leaf."""
_KEYS = ("format", "graph", "cost_unit", "loss", "peak", "bound", "tree")


def recompute_document(graph: Graph, certificate: RecomputeCertificate) -> dict[str, Any]:
    """Return a certificate as a JSON object; `bound` is null if no sequence fits."""
    return {
        "format": RECOMPUTE_FORMAT,
        "graph": certificate.graph,
        "cost_unit": certificate.cost_unit,
        "loss": list(certificate.loss),
        "peak": certificate.peak,
        "bound": certificate.bound,
        "tree": _tree_document(graph, certificate.tree),
    }


def _tree_document(graph: Graph, tree: RecomputeTree) -> dict[str, Any]:
    return fold(tree, _parts, partial(_part_document, graph))


def _parts(tree: RecomputeTree) -> tuple[RecomputeTree, ...]:
    return (tree.fewer, tree.more) if isinstance(tree, RecomputeBranch) else ()


def _part_document(
    graph: Graph, tree: RecomputeTree, parts: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    if isinstance(tree, RecomputeBranch):
        at = {MOMENTS[tree.kind]: graph.ops[tree.at].name} if tree.kind in MOMENTS else {}
        names = [graph.ops[v].name for v in tree.ops]
        return at | {"ops": names, "at_most": tree.most, "fewer": parts[0], "more": parts[1]}
    rows: list[list[Any]] = []
    # A round names sizes, not ops or buffers, after its op.
    for use in tree.rows:
        if use.kind == "round":
            rows.append([use.kind, graph.ops[use.op].name, *use.ids, use.multiplier])
            continue
        # A live row has a buffer and an op, all others have ops.
        things = (graph.buffers, graph.ops) if use.kind == "live" else (graph.ops, graph.ops)
        names = [things[i][x].name for i, x in enumerate(use.ids)]
        rows.append([use.kind, graph.ops[use.op].name, *names, use.multiplier])
    return {"scale": tree.scale, "rows": rows, "branches": list(tree.branches)}


def write_recompute(certificate: RecomputeCertificate, path: str | Path, graph: Graph) -> None:
    """Write a certificate as JSON, compressed if the name ends in .gz."""
    text = json.dumps(recompute_document(graph, certificate), separators=(",", ":"))
    write_bytes(path, f"{text}\n".encode())


def read_recompute_document(graph: Graph, document: object) -> RecomputeCertificate:
    """Return the certificate of a parsed document.

    Raise `FormatError` if a field is missing, unknown or malformed. Raise `PlanError` if it names
    an op or buffer that the graph does not have.
    """
    top = Record(document, "certificate")
    check_format(top, RECOMPUTE_FORMAT)
    top.refuse_unknown(_KEYS)
    bound = top.count("bound") if top.has("bound") else None
    below: _Below = (top.mapping("tree"), 0)
    tree: RecomputeTree = fold(below, _read_parts, partial(_read_part, graph))
    return RecomputeCertificate(
        top.text("graph"),
        top.text("cost_unit"),
        tuple(top.texts("loss")),
        top.count("peak"),
        bound,
        tree,
    )


_Below: TypeAlias = tuple[object, int]
"""A part of a document, and its depth."""


def _read_parts(at: _Below) -> tuple[_Below, ...]:
    value, depth = at
    record = Record(value, "certificate: tree")
    if "ops" not in record.value:
        return ()
    # Each level has a row of its own in every leaf, so a crafted file could grow without end.
    if depth >= MOST_DEPTH:
        raise FormatError(f"certificate: the tree is deeper than {MOST_DEPTH}")
    return tuple((record.value.get(x), depth + 1) for x in ("fewer", "more"))


def _read_part(graph: Graph, at: _Below, parts: Sequence[RecomputeTree]) -> RecomputeTree:
    record = Record(at[0], "certificate: tree")
    if parts:
        record.refuse_unknown(("ops", "at_most", "fewer", "more", *MOMENTS.values()))
        ops = tuple(_id(graph.op_ids, name, "op") for name in record.texts("ops"))
        # A branch without a moment is about the number of runs of an op.
        kind = next((kind for kind, field in MOMENTS.items() if record.has(field)), "r")
        when = _id(graph.op_ids, record.value[MOMENTS[kind]], "op") if kind in MOMENTS else -1
        return RecomputeBranch(ops, record.count("at_most"), parts[0], parts[1], kind, when)
    record.refuse_unknown(("scale", "rows", "branches"))
    rows = tuple(_read_row(graph, row) for row in record.items("rows"))
    branches = [_integer(x) for x in record.items("branches", [])]
    return RecomputeLeaf(record.count("scale"), rows, tuple(branches))


def _read_row(graph: Graph, row: object) -> RowUse:
    if not isinstance(row, list) or len(row) < 3 or row[0] not in KINDS:
        raise FormatError(f"certificate: {show(row)} is not a row")
    # The kind, the op, what the kind names, and the multiplier.
    if len(row) != 3 + KINDS[row[0]]:
        raise FormatError(f"certificate: row {show(row)} must name {KINDS[row[0]] + 1} things")
    if row[0] == "round":
        op, *sizes = _id(graph.op_ids, row[1], "op"), _integer(row[2]), _integer(row[3])
        return RowUse("round", op, tuple(sizes), _integer(row[4]))
    kinds = ["buffer", "op"] if row[0] == "live" else ["op"] * (len(row) - 3)
    tables = {"op": graph.op_ids, "buffer": graph.buffer_ids}
    ids = [_id(tables[what], name, what) for what, name in zip(kinds, row[2:-1], strict=True)]
    return RowUse(row[0], _id(graph.op_ids, row[1], "op"), tuple(ids), _integer(row[-1]))


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FormatError(f"certificate: a multiplier must be an integer, got {show(value)}")
    return value


def _id(table: dict[str, int], name: object, what: str) -> int:
    if not isinstance(name, str) or name not in table:
        raise PlanError(f"certificate names {what} {show(name)}, which is not in the graph")
    return table[name]
