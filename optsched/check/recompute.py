"""Check a bound on the extra compute of all sequences within a peak: integers, no solver.

A certificate is a tree. A leaf multiplies rows, which every sequence within the peak
satisfies while some op v runs for the first time, by integers of at least 0, and adds them up.
:mod:`optsched.check.recompute_rows` makes each row again from the graph.

The sum of the rows `A z >= b` with multipliers y proves, for all such integers,
`scale * cost >= y b + sum of min(0, c - y A)`; with scale 0 and a positive right side no sequence
fits.

A branch divides all sequences: at most k ops of a list run again, or at least k + 1. A branch may
also be about one op and the moment when another one starts: it has run by then, or it runs later.
Its bound is the smaller one of both parts.

Example: in the graph of :mod:`optsched.model.runs`, let `a` cost 3 and the peak be 8 bytes. The
rows of c with the multipliers again(a) 15, live(a, d) 15 and fit 3 at scale 5 add up to
15 r(a) >= 6, so the cost 3 r(a) is at least 6/5, and as an integer 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from optsched.check.recompute_rows import CONSTANT, Rows, RowUse, Terms, add_up
from optsched.errors import PlanError, UsageError
from optsched.model.graph import Graph
from optsched.model.training import find_loss, forward_ops, with_barrier


@dataclass(frozen=True, slots=True)
class RecomputeLeaf:
    """Multiplied rows; `branches` has the multipliers of the branches above, outermost first."""

    scale: int
    rows: tuple[RowUse, ...]
    branches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RecomputeBranch:
    """Parts in which at most `most` of the ops run again, and more.

    `kind` is the variable that is meant, `r`, or `d` or `x` of a single op when op `at` runs first.
    """

    ops: tuple[int, ...]
    most: int
    fewer: RecomputeTree
    more: RecomputeTree
    kind: str = "r"
    at: int = -1


RecomputeTree: TypeAlias = RecomputeLeaf | RecomputeBranch


@dataclass(frozen=True, slots=True)
class RecomputeCertificate:
    """A proof that sequences of a graph within a peak cost at least `bound` more."""

    graph: str
    """Name of the graph."""
    cost_unit: str
    """Unit of its costs."""
    loss: tuple[str, ...]
    """Names of the ops that make the loss."""
    peak: int
    """Bytes."""
    bound: int | None
    """Least extra cost; None if no sequence fits."""
    tree: RecomputeTree
    """The proof."""


def check_recompute(
    graph: Graph, certificate: RecomputeCertificate, loss: Sequence[str] | None = None
) -> int | None:
    """Check a certificate for a graph, and return its bound; None if no sequence fits.

    The bound is about repeats of the ops that `loss` needs, the certificate's own by default: its
    rows may hold for another loss as well.

    Raise `PlanError` if a row is not one of the graph, a multiplier is negative, or the sum proves
    less.
    """
    # A certificate is about one graph, with costs in one unit.
    for what, stated, own in (
        ("graph", certificate.graph, graph.name),
        ("costs in", certificate.cost_unit, graph.cost_unit),
    ):
        if stated != own:
            raise PlanError(f"certificate is about {what} {stated!r}, this is {own!r}")
    if certificate.peak < 0:
        raise PlanError(f"peak must be at least 0, got {certificate.peak}")
    try:
        ends = find_loss(graph, certificate.loss if loss is None else loss)
    except UsageError as error:
        raise PlanError(str(error)) from None
    rows = Rows(with_barrier(graph, ends), certificate.peak, forward_ops(graph, ends))
    found = _Proof(rows).bound(certificate.tree)
    claimed = certificate.bound
    # A claim below what the rows prove is allowed: it is true as well.
    if found is not None and (claimed is None or found < claimed):
        what = "no sequence fits" if claimed is None else f"an extra cost of at least {claimed}"
        raise PlanError(f"certificate claims {what}, but its rows prove only {found}")
    return claimed


_Above: TypeAlias = tuple[tuple[RecomputeBranch, bool], ...]


@dataclass(frozen=True, slots=True)
class _Proof:
    """Adds up the rows of a tree."""

    rows: Rows

    def bound(self, tree: RecomputeTree) -> int | None:
        """Return the bound that a tree proves; None if no sequence fits."""
        waiting: list[tuple[RecomputeTree, _Above]] = [(tree, ())]
        known: list[int] = []
        # Not by recursion, as files may have branches of any depth.
        while waiting:
            at, above = waiting.pop()
            if isinstance(at, RecomputeBranch):
                self._check_branch(at)
                waiting += [(at.more, (*above, (at, True))), (at.fewer, (*above, (at, False)))]
            elif (part := self._leaf(at, above)) is not None:
                known.append(part)
        # A part without any sequence does not lower the bound of the whole.
        return min(known, default=None)

    def _check_branch(self, branch: RecomputeBranch) -> None:
        # Rows of a branch on `d` or `x` are about one op at one moment.
        is_known = branch.kind == "r" or (branch.kind in "dx" and len(branch.ops) == 1)
        if branch.kind != "d" and not all(self.rows.may_repeat(u) for u in branch.ops):
            raise PlanError("a branch lists an op that must not run again")
        if not is_known or len(set(branch.ops)) < len(branch.ops):
            raise PlanError("a branch lists an op twice, or several at a moment")

    def _leaf(self, leaf: RecomputeLeaf, above: _Above) -> int | None:
        if len(leaf.branches) != len(above):
            raise PlanError("a leaf needs one multiplier per branch above it")
        numbers = (leaf.scale, *leaf.branches, *(use.multiplier for use in leaf.rows))
        # Negative multipliers would turn a row around.
        if min(numbers) < 0:
            raise PlanError(f"multipliers must be at least 0, got {min(numbers)}")
        left: Terms = {}
        total = 0
        uses = [(use.multiplier, self.rows.row(use)) for use in leaf.rows]
        for number, (branch, more) in zip(leaf.branches, above, strict=True):
            uses.append((number, self._branch_row(branch, more)))
        for number, row in uses:
            for variable, coefficient in row.items():
                if variable == CONSTANT:
                    total -= number * coefficient
                else:
                    left[variable] = left.get(variable, 0) - number * coefficient
        # Only repeats of forward ops that may repeat can cost anything.
        for u in self.rows.forward:
            if self.rows.may_repeat(u):
                cost = leaf.scale * self.rows.graph.ops[u].cost
                left["r", -1, u] = left.get(("r", -1, u), 0) + cost
        # Variables lie between 0 and 1, so a negative coefficient may count in full.
        total += sum(min(0, coefficient) for coefficient in left.values())
        # Without the cost, a positive right side means that no sequence fits.
        if leaf.scale == 0:
            return None if total > 0 else 0
        return max(0, -(-total // leaf.scale))

    def _branch_row(self, branch: RecomputeBranch, more: bool) -> Terms:
        # Written as `terms + constant >= 0`, like all rows.
        constant, sign = (-(branch.most + 1), 1) if more else (branch.most, -1)
        if branch.kind == "r":
            row: Terms = {("r", -1, u): sign for u in branch.ops}
            return row | {CONSTANT: constant}
        value = self.rows.has_run if branch.kind == "d" else self.rows.later
        return add_up((sign, value(branch.at, branch.ops[0])), constant=constant)
