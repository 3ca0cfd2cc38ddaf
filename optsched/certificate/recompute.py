"""Certificates of bounds on extra compute, made of a planner's proof.

The proof counts nodes and rows by numbers; a certificate names ops and buffers, so that the checker
needs nothing of the solver. It is checked before it is handed out.

Example: the planner knows op 7 and buffer 3; the certificate calls them `exp` and `exp.out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from optsched.check.recompute import (
    RecomputeBranch,
    RecomputeCertificate,
    RecomputeLeaf,
    RecomputeTree,
    check_recompute,
)
from optsched.check.recompute_rows import RowUse
from optsched.runtime.fold import fold
from optsched.solver.recompute.bound import Leaf, Tree
from optsched.solver.recompute.result import RecomputeResult
from optsched.solver.recompute.rows import CutRows
from optsched.solver.recompute.table import Key


def certify_recompute(result: RecomputeResult) -> RecomputeCertificate:
    """Return the certificate of a result's bound, accepted by the checker."""
    rows = result.proof.rows
    tree: RecomputeTree = fold(result.proof.tree, _parts, partial(_named, rows))
    # A bound for a larger peak holds for a smaller one.
    peak = result.budget if rows is None else rows.peak
    certificate = RecomputeCertificate(
        result.graph.name, result.graph.cost_unit, result.loss, peak, result.bound, tree
    )
    # Checked here, so that a certificate that is handed out is never refused.
    check_recompute(result.graph, certificate)
    return certificate


def _parts(tree: Tree) -> tuple[Tree, ...]:
    return () if isinstance(tree, Leaf) else (tree.fewer, tree.more)


def _named(rows: CutRows | None, tree: Tree, parts: Sequence[RecomputeTree]) -> RecomputeTree:
    if isinstance(tree, Leaf):
        uses = [] if rows is None else [_use(rows, rows.keys[i], y) for i, y in tree.rows.items()]
        return RecomputeLeaf(tree.scale, tuple(uses), tree.branches)
    assert rows is not None
    kind, v, _ = rows.columns[tree.columns[0]]
    ops = tuple(rows.problem.ops[rows.columns[column][2]] for column in tree.columns)
    at = rows.problem.ops[v] if kind != "r" else -1
    return RecomputeBranch(ops, tree.most, parts[0], parts[1], kind, at)


def _use(rows: CutRows, key: Key, multiplier: int) -> RowUse:
    kind, v, a, b = key
    op, problem = rows.problem.ops[v], rows.problem
    if kind == "fit":
        return RowUse(kind, op, (), multiplier)
    if kind == "round":
        return RowUse(kind, op, (a, b), multiplier)
    if kind == "live":
        return RowUse(kind, op, (problem.storages[a].buffer, problem.ops[b]), multiplier)
    two = kind in ("down", "order", "after")
    ids = (problem.ops[a], problem.ops[b]) if two else (problem.ops[a],)
    return RowUse(kind, op, ids, multiplier)
