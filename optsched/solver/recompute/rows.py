"""Rows that every schedule satisfies while an op runs for the first time.

Fix a node v and the moment at which its first run is under way. For another node u let

- `d` be 1 if u has run before this moment,
- `x` be 1 if u runs at this moment or later,
- `r` be 1 if u runs more than once.

Ancestors of v have `d = 1`, descendants `d = 0`. A node that may not run again has `x = 1 - d`.
All other nodes satisfy

    x + d >= 1              "first": each node runs at some time
    r >= x + d - 1          "again": one run before and one after are two runs
    d(p) >= d(u)            "down":  a node runs after its predecessor p

The bytes of a storage are live if a node w that reads it still runs and its maker p does not, since
its present copy is then the last one. The variable `l` of the storage therefore satisfies

    l >= x(w) - x(p)        "live"

and the bytes must fit:

    sum of size * l <= peak - bytes that v reads and writes        "fit"

Storages often come in multiples of a size q. Let a storage be large if it has at least q bytes, and
call `1 - l` released. The bytes to release, less all small storages, are at most the sum of
`size * (1 - l)` over the large ones. Dividing by q and rounding up gives

    sum of ceil(size / q) * (1 - l) >= ceil(large bytes to release / q)        "round"

All variables lie between 0 and 1 in every schedule, regardless of its order and its repeats.
The variable `r` of a node is the same in the rows of all v, so the least sum of `cost * r` over
the rows of any choice of nodes v is a lower bound on the extra compute.

Example: a (5 bytes) is read by b and d; b, c, d form a chain of 1, 4 and 1 bytes. While c runs, `a`
has run and `d` still has to, so l(a) >= 1 - x(a) and r(a) >= x(a). At a peak of 8 bytes,
5 l(a) <= 3 allows l(a) = 3/5, hence r(a) >= 2/5; as an integer r(a) = 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from optsched.solver.recompute.problem import RecomputeProblem

Key = tuple[str, int, int, int]
"""Kind of a row, and up to three numbers: the node v, then nodes, or a storage and a node."""


class Affine(NamedTuple):
    """`constant + sign * column`; without a column if `column` is -1."""

    constant: int
    column: int = -1
    sign: int = 0


ZERO, ONE = Affine(0), Affine(1)


@dataclass(slots=True)
class CutRows:
    """Rows `sum of coefficients * columns >= bound`, in integers, made for one node after another.

    The first columns are `r` of the nodes that may run again, in their order. A row "fit" is stored
    with the bytes that v reads and writes as its bound; :meth:`bound` takes the peak into account.

    Parameters
    ----------
    problem
        The problem.
    small
        Storages with fewer bytes are left out, which only lowers the bounds.
    most_divisors
        Rows "round" per node.
    """

    problem: RecomputeProblem
    small: int = 0
    most_divisors: int = 6
    columns: int = field(init=False)
    keys: list[Key] = field(default_factory=list)
    terms: list[tuple[tuple[int, int], ...]] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)
    active: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.columns = len(self.problem.again)

    def add(self, v: int) -> bool:
        """Add the rows of a node; return False if they are there already."""
        if v in self.active:
            return False
        self.active.append(v)
        _NodeRows(self, v).make()
        return True

    def bound(self, i: int, peak: int) -> int:
        """Return the bound of a row under a peak."""
        kind, _, q, _ = self.keys[i]
        if kind == "fit":
            return self.bounds[i] - peak
        if kind == "round":
            # The bound is `own bytes + large bytes`; released are the parts of the large storages.
            parts = -sum(value for _, value in self.terms[i])
            return -(-(self.bounds[i] - peak) // q) - parts
        return self.bounds[i]

    def put(self, key: Key, terms: tuple[tuple[int, int], ...], bound: int) -> None:
        """Append a row."""
        self.keys.append(key)
        self.terms.append(terms)
        self.bounds.append(bound)

    def column(self) -> int:
        """Return a new column."""
        self.columns += 1
        return self.columns - 1


@dataclass(slots=True)
class _NodeRows:
    """Rows of one node while they are made; columns are made where a row needs them."""

    rows: CutRows
    v: int
    problem: RecomputeProblem = field(init=False)
    repeat: dict[int, int] = field(init=False)
    done: dict[int, int] = field(default_factory=dict)
    """Column `d` by node."""
    later: dict[int, Affine] = field(default_factory=dict)
    """`x` by node."""

    def __post_init__(self) -> None:
        self.problem = self.rows.problem
        self.repeat = {u: i for i, u in enumerate(self.problem.again)}

    def make(self) -> None:
        # Outputs of one node share its column `d`: together they count as one storage.
        bytes_: dict[int, int] = {}
        constant = self.problem.own_bytes(self.v)
        used = {*self.problem.reads[self.v], *self.problem.makes[self.v]}
        for s, storage in enumerate(self.problem.storages):
            if s in used or storage.size < self.rows.small:
                continue
            live = self._live(s)
            constant += live.constant * storage.size
            if live.column >= 0:
                bytes_[live.column] = bytes_.get(live.column, 0) - live.sign * storage.size
        fit = list(bytes_.items())
        self._order_first_runs()
        # -sum(size * l) >= constant - peak
        self.rows.put(("fit", self.v, 0, 0), tuple(fit), constant)
        for q in self._divisors(fit):
            large = [(column, size) for column, size in fit if -size >= q]
            # Sizes are negative here, so that rounding down rounds their number up.
            terms = tuple((column, size // q) for column, size in large)
            total = constant - sum(size for _, size in large)
            self.rows.put(("round", self.v, q, 0), terms, total)

    def _divisors(self, fit: list[tuple[int, int]]) -> list[int]:
        """Return the sizes that rows "round" divide by: those of the most bytes."""
        bytes_: dict[int, int] = {}
        for _, size in fit:
            bytes_[-size] = bytes_.get(-size, 0) - size
        return sorted(bytes_, key=lambda size: -bytes_[size])[: self.rows.most_divisors]

    def _live(self, s: int) -> Affine:
        """Return whether a storage is live as a term of the fit."""
        storage = self.problem.storages[s]
        if storage.kept:
            return self._has_run(storage.maker)
        made = ZERO if storage.maker < 0 else self._runs_later(storage.maker)
        if made == ONE:
            return ZERO
        readers = [(w, x) for w in storage.readers if (x := self._runs_later(w)) != ZERO]
        if made == ZERO and any(x == ONE for _, x in readers):
            return ONE
        if not readers:
            return ZERO
        column = self.rows.column()
        for w, x in readers:
            terms = {column: 1}
            for term, sign in ((x, -1), (made, 1)):
                if term.column >= 0:
                    terms[term.column] = terms.get(term.column, 0) + sign * term.sign
            bound = x.constant - made.constant
            self.rows.put(("live", self.v, s, w), tuple(terms.items()), bound)
        return Affine(0, column, 1)

    def _is_above(self, u: int, w: int) -> bool:
        return bool(self.problem.above[w] >> u & 1)

    def _has_run(self, u: int) -> Affine:
        """Return `d`."""
        if self._is_above(u, self.v):
            return ONE
        if u == self.v or self._is_above(self.v, u):
            return ZERO
        if u not in self.done:
            self.done[u] = self.rows.column()
        return Affine(0, self.done[u], 1)

    def _runs_later(self, u: int) -> Affine:
        """Return `x`, and make the rows that define it."""
        if u not in self.later:
            self.later[u] = self._make_later(u)
        return self.later[u]

    def _make_later(self, u: int) -> Affine:
        has_run = self._has_run(u)
        if has_run == ZERO:
            return ONE
        if u not in self.repeat:
            return Affine(1 - has_run.constant, has_run.column, -has_run.sign)
        column, again = self.rows.column(), (self.repeat[u], 1)
        if has_run == ONE:
            self.rows.put(("again", self.v, u, 0), (again, (column, -1)), 0)
        else:
            done = has_run.column
            self.rows.put(("first", self.v, u, 0), ((column, 1), (done, 1)), 1)
            self.rows.put(("again", self.v, u, 0), (again, (column, -1), (done, -1)), -1)
        return Affine(0, column, 1)

    def _order_first_runs(self) -> None:
        """Make the rows "down" of all nodes in question, and of the nodes between them."""
        waiting = list(self.done)
        while waiting:
            u = waiting.pop()
            for p in self._free_predecessors(u):
                if p not in self.done:
                    self.done[p] = self.rows.column()
                    waiting.append(p)
                terms = ((self.done[p], 1), (self.done[u], -1))
                self.rows.put(("down", self.v, p, u), terms, 0)

    def _free_predecessors(self, u: int) -> Iterator[int]:
        for p in self.problem.preds[u]:
            if p != self.v and not self._is_above(p, self.v) and not self._is_above(self.v, p):
                yield p
