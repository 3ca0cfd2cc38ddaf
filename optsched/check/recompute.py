"""Check a bound on the extra compute of all sequences within a peak: integers, no solver.

A certificate is a tree. A leaf multiplies rows, which every sequence within the peak
satisfies while some op v runs for the first time, by integers of at least 0, and adds them up. This
module makes each row again from the graph. The variables lie between 0 and 1:

    r(u)  1 if u runs more than once        d(u)  1 if u has run before
    x(u)  1 if u runs now or later          l(b)  1 if the bytes of buffer b are live

    again  r(u) - x(u) - d(u) >= -1         a run before and one after are two runs
    first  x(u) + d(u) >= 1                 each op runs at some time
    down   d(p) - d(u) >= 0                 p is needed by u
    live   l(b) - x(w) + x(p) >= 0          w reads what only p makes
    fit    - sum of size * l >= bytes that v uses - peak
    order  d(w, u) - d(v, u) - d(w, v) >= -1      what has run at v has run at w, if v is first
    after  x(v, u) - x(w, u) - d(w, v) >= -1      what runs later than w runs later than v
    either d(v, w) + d(w, v) >= 1            one of two moments comes first
    round  sum of f(size) * (1 - l) >= f(N)  if "fit" says that N bytes must be released; storages
           of few bytes are taken as released, and f(a) = F * floor(a / q) + min(F, a mod q) for
           F = N - q * (ceil(N / q) - 1) grows with a and f(a + b) <= f(a) + f(b)

`x` and `d` of an op are numbers where the graph says so: what v needs has run, what needs v has
not, and an op that must not run again has `x = 1 - d`. A graph output is live once it is made. The
sum of the rows `A z >= b` with multipliers y proves `scale * cost >= y b + sum of min(0, c - y A)`,
for all such integers; with scale 0 and a positive right side no sequence fits.

A branch divides all sequences: at most k ops of a list run again, or at least k + 1. A branch may
also be about one op and the moment when another one starts: it has run by then, or it runs later.
Its bound is the smaller one of both parts.

Example: in the graph of :mod:`optsched.model.runs`, let `a` cost 3 and the peak be 8 bytes. The
rows of c with the multipliers again(a) 15, live(a, d) 15 and fit 3 at scale 5 add up to
15 r(a) >= 6, so the cost 3 r(a) is at least 6/5, and as an integer 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.model.runs import runs_once
from optsched.model.training import find_loss, forward_ops, with_barrier

KINDS = {
    "again": 1,
    "first": 1,
    "either": 1,
    "down": 2,
    "order": 2,
    "after": 2,
    "live": 2,
    "fit": 0,
    "round": 2,
}
"""Kinds of rows, and how many ids follow the op; "round" has two numbers of bytes instead."""


@dataclass(frozen=True, slots=True)
class RowUse:
    """A row of op `op` and its multiplier; `ids` are ops, or a buffer and an op for "live"."""

    kind: str
    op: int
    ids: tuple[int, ...]
    multiplier: int


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
    """A proof that sequences of a graph within a peak cost at least `bound` more.

    Parameters
    ----------
    graph
        Name of the graph.
    cost_unit
        Unit of its costs.
    loss
        Names of the ops that make the loss.
    peak
        Bytes.
    bound
        Least extra cost; None if no sequence fits.
    tree
        The proof.
    """

    graph: str
    cost_unit: str
    loss: tuple[str, ...]
    peak: int
    bound: int | None
    tree: RecomputeTree


def check_recompute(graph: Graph, certificate: RecomputeCertificate) -> int | None:
    """Check a certificate for a graph, and return its bound; None if no sequence fits.

    Raises
    ------
    PlanError
        If a row is not one of the graph, a multiplier is negative, or the sum proves less.
    """
    for what, stated, own in (
        ("graph", certificate.graph, graph.name),
        ("costs in", certificate.cost_unit, graph.cost_unit),
    ):
        if stated != own:
            raise PlanError(f"certificate is about {what} {stated!r}, this is {own!r}")
    if certificate.peak < 0:
        raise PlanError(f"peak must be at least 0, got {certificate.peak}")
    loss = find_loss(graph, certificate.loss)
    rows = _Rows(with_barrier(graph, loss), certificate.peak, forward_ops(graph, loss))
    found = rows.bound(certificate.tree, ())
    claimed = certificate.bound
    if found is not None and (claimed is None or found < claimed):
        what = "no sequence fits" if claimed is None else f"an extra cost of at least {claimed}"
        raise PlanError(f"certificate claims {what}, but its rows prove only {found}")
    return claimed


_Variable: TypeAlias = tuple[str, int, int]
_Terms: TypeAlias = dict[_Variable, int]
"""Coefficients of variables; the key "" has the constant."""
_CONSTANT: _Variable = ("", 0, 0)
_Above: TypeAlias = tuple[tuple[RecomputeBranch, bool], ...]


@dataclass(slots=True)
class _Rows:
    """Rows of a graph under a peak."""

    graph: Graph
    peak: int
    forward: frozenset[int]
    above: tuple[int, ...] = field(init=False)
    once: dict[int, str] = field(init=False)
    users: dict[int, set[int]] = field(init=False)
    """Ops that use a root or a view of it, except its maker."""

    def __post_init__(self) -> None:
        self.above, self.once = _ancestors(self.graph), runs_once(self.graph)
        self.users = {}
        for v, op in enumerate(self.graph.ops):
            for b in (*op.reads, *op.uses, *op.writes):
                self.users.setdefault(self.graph.roots[b], set()).add(v)

    def bound(self, tree: RecomputeTree, above: _Above) -> int | None:
        """Return the bound that a tree proves; None if no sequence fits."""
        if isinstance(tree, RecomputeLeaf):
            return self._leaf(tree, above)
        is_known = tree.kind == "r" or (tree.kind in "dx" and len(tree.ops) == 1)
        if tree.kind != "d" and not all(self._may_repeat(u) for u in tree.ops):
            raise PlanError("a branch lists an op that must not run again")
        if not is_known or len(set(tree.ops)) < len(tree.ops):
            raise PlanError("a branch lists an op twice, or several at a moment")
        parts = [
            self.bound(part, (*above, (tree, more)))
            for part, more in ((tree.fewer, False), (tree.more, True))
        ]
        known = [part for part in parts if part is not None]
        return min(known) if known else None

    def _leaf(self, leaf: RecomputeLeaf, above: _Above) -> int | None:
        if len(leaf.branches) != len(above):
            raise PlanError("a leaf needs one multiplier per branch above it")
        numbers = (leaf.scale, *leaf.branches, *(use.multiplier for use in leaf.rows))
        if min(numbers) < 0:
            raise PlanError(f"multipliers must be at least 0, got {min(numbers)}")
        left: _Terms = {}
        total = 0
        uses = [(use.multiplier, self._row(use)) for use in leaf.rows]
        for number, (branch, more) in zip(leaf.branches, above, strict=True):
            uses.append((number, self._branch_row(branch, more)))
        for number, row in uses:
            for variable, coefficient in row.items():
                if variable == _CONSTANT:
                    total -= number * coefficient
                else:
                    left[variable] = left.get(variable, 0) - number * coefficient
        for u in self.forward:
            if self._may_repeat(u):
                left["r", -1, u] = left.get(("r", -1, u), 0) + leaf.scale * self.graph.ops[u].cost
        total += sum(min(0, coefficient) for coefficient in left.values())
        if leaf.scale == 0:
            return None if total > 0 else 0
        return max(0, -(-total // leaf.scale))

    def _branch_row(self, branch: RecomputeBranch, more: bool) -> _Terms:
        constant, sign = (-(branch.most + 1), 1) if more else (branch.most, -1)
        if branch.kind == "r":
            row: _Terms = {("r", -1, u): sign for u in branch.ops}
            return row | {_CONSTANT: constant}
        value = self._has_run if branch.kind == "d" else self._later
        return _sum((sign, value(branch.at, branch.ops[0])), constant=constant)

    def _row(self, use: RowUse) -> _Terms:
        """Return a row as `terms + constant >= 0`."""
        if KINDS.get(use.kind) != len(use.ids):
            raise PlanError(f"unknown row {use.kind!r} with {len(use.ids)} ids")
        makers: dict[str, Callable[..., _Terms]] = {
            "fit": self._fit,
            "round": self._round,
            "live": self._live_row,
            "down": self._down,
            "order": self._order,
            "after": self._after,
            "either": self._either,
            "first": self._first,
            "again": self._again,
        }
        return makers[use.kind](use.op, *use.ids)

    def _first(self, v: int, u: int) -> _Terms:
        return _sum((1, self._later(v, u)), (1, self._has_run(v, u)), constant=-1)

    def _again(self, v: int, u: int) -> _Terms:
        if not self._may_repeat(u):
            raise PlanError(f"row 'again': {self._name(u)} must not run again")
        repeats: _Terms = {("r", -1, u): 1}
        return _sum((1, repeats), (-1, self._later(v, u)), (-1, self._has_run(v, u)), constant=1)

    def _down(self, v: int, p: int, u: int) -> _Terms:
        if not self.above[u] >> p & 1:
            raise PlanError(f"row 'down': {self._name(u)} does not need {self._name(p)}")
        return _sum((1, self._has_run(v, p)), (-1, self._has_run(v, u)))

    def _order(self, v: int, w: int, u: int) -> _Terms:
        first = self._has_run(w, v)
        return _sum((1, self._has_run(w, u)), (-1, self._has_run(v, u)), (-1, first), constant=1)

    def _after(self, v: int, w: int, u: int) -> _Terms:
        first = self._has_run(w, v)
        return _sum((1, self._later(v, u)), (-1, self._later(w, u)), (-1, first), constant=1)

    def _either(self, v: int, w: int) -> _Terms:
        if v == w:
            raise PlanError(f"row 'either' names {self._name(v)} twice")
        return _sum((1, self._has_run(v, w)), (1, self._has_run(w, v)), constant=-1)

    def _live_row(self, v: int, b: int, w: int) -> _Terms:
        maker = self.graph.producers[b]
        if self.graph.roots[b] != b or w not in self.users.get(b, ()) or w in (v, maker):
            raise PlanError(
                f"row 'live': {self._name(w)} does not read {self.graph.buffers[b].name!r} then"
            )
        return _sum((1, self._live(v, b)), (-1, self._later(v, w)), (1, self._made_later(v, b)))

    def _fit(self, v: int) -> _Terms:
        op = self.graph.ops[v]
        used = {self.graph.roots[b] for b in (*op.reads, *op.uses, *op.writes)}
        used |= {b for b, x in enumerate(self.graph.buffers) if x.birth == v}
        found: _Terms = {_CONSTANT: self.peak}
        for b, buffer in enumerate(self.graph.buffers):
            if self.graph.roots[b] != b or buffer.external or not buffer.size:
                continue
            always = buffer.input is not None and self.graph.kept[b]
            live = {_CONSTANT: 1} if always or b in used else self._live(v, b)
            for variable, coefficient in live.items():
                found[variable] = found.get(variable, 0) - buffer.size * coefficient
        return found

    def _round(self, v: int, q: int, least: int) -> _Terms:
        """Return the row of rounded bytes, without variables of fewer than `least` bytes."""
        if q < 1:
            raise PlanError(f"row 'round' divides by {q}")
        fit = self._fit(v)
        room = fit.pop(_CONSTANT)
        sizes = {variable: -x for variable, x in fit.items() if -x >= least}
        need = sum(sizes.values()) - room
        if need <= 0:
            return {_CONSTANT: 0}
        rest = need - q * (-(-need // q) - 1)

        def rounded(size: int) -> int:
            return rest * (size // q) + min(rest, size % q)

        found: _Terms = {variable: -rounded(size) for variable, size in sizes.items()}
        found[_CONSTANT] = -sum(found.values()) - rest * -(-need // q)
        return found

    def _live(self, v: int, b: int) -> _Terms:
        """Return `l` of a buffer that v does not use: a number where that is certain."""
        made = self._made_later(v, b)
        if self.graph.kept[b] and self.graph.buffers[b].input is None:
            return self._has_run(v, self._born(b))
        if made == {_CONSTANT: 1}:
            return {}
        readers = self.users.get(b, set()) - {self.graph.producers[b]}
        later = [self._later(v, w) for w in readers]
        if not made and {_CONSTANT: 1} in later:
            return {_CONSTANT: 1}
        return {("l", v, b): 1} if any(later) else {}

    def _born(self, b: int) -> int:
        birth, maker = self.graph.buffers[b].birth, self.graph.producers[b]
        assert maker is not None
        return maker if birth is None else birth

    def _made_later(self, v: int, b: int) -> _Terms:
        if self.graph.buffers[b].input is not None:
            return {}
        return self._later(v, self._born(b))

    def _has_run(self, v: int, u: int) -> _Terms:
        if self.above[v] >> u & 1:
            return {_CONSTANT: 1}
        if u == v or self.above[u] >> v & 1:
            return {}
        return {("d", v, u): 1}

    def _later(self, v: int, u: int) -> _Terms:
        has_run = self._has_run(v, u)
        if not has_run:
            return {_CONSTANT: 1}
        if self._may_repeat(u):
            return {("x", v, u): 1}
        return _sum((-1, has_run), constant=1)

    def _may_repeat(self, u: int) -> bool:
        return u in self.forward and u not in self.once

    def _name(self, v: int) -> str:
        return f"op {self.graph.ops[v].name!r}"


def _ancestors(graph: Graph) -> tuple[int, ...]:
    """Return by op all ops that it needs, directly or not, as bit masks."""
    masks: dict[int, int] = {}
    for start in range(len(graph.ops)):
        waiting = [start]
        while waiting:
            before = graph.predecessors[waiting[-1]]
            missing = [u for u in before if u not in masks]
            waiting += missing
            if not missing:
                v = waiting.pop()
                masks[v] = 0
                for u in before:
                    masks[v] |= masks[u] | 1 << u
    return tuple(masks[v] for v in range(len(graph.ops)))


def _sum(*parts: tuple[int, _Terms], constant: int = 0) -> _Terms:
    """Return a sum of multiplied terms without zeros."""
    found: _Terms = {_CONSTANT: constant}
    for number, terms in parts:
        for variable, coefficient in terms.items():
            found[variable] = found.get(variable, 0) + number * coefficient
    return {variable: x for variable, x in found.items() if x}
