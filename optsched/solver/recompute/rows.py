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

If the moment v comes before the moment w, that is, if d(w, v) = 1, what has run at v has run at w,
and what runs later than w runs later than v. One of two moments comes first:

    d(w, u) >= d(v, u) + d(w, v) - 1      "order"
    x(v, u) >= x(w, u) + d(w, v) - 1      "after"
    d(v, w) + d(w, v) >= 1                "either"

Where the graph orders v and w, these rows are made at once; elsewhere where a solution violates
them (:mod:`optsched.solver.recompute.pairs`).

Storages often come in multiples of a size q. Call `1 - l` released, let N bytes have to be released
and F = N - q * (ceil(N / q) - 1). With the function `f(a) = F * floor(a / q) + min(F, a mod q)`, of
which f(a + b) <= f(a) + f(b) is known, whole storages satisfy

    sum of f(size) * (1 - l) >= f(N) = F * ceil(N / q)         "round"

This is a mixed-integer rounding of "fit" (Nemhauser and Wolsey, 1990). Such rows are made for those
q at which a solution of the other rows violates them.

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
"""Kind of a row, and numbers: the node v, then nodes, bytes, or a storage and a node."""

Column = tuple[str, int, int]
"""`r`, `d`, `x` or `l`, the node v (-1 for `r`), and a node or a storage."""


class Affine(NamedTuple):
    """`constant + sign * column`; without a column if `column` is -1."""

    constant: int
    column: int = -1
    sign: int = 0


ZERO, ONE = Affine(0), Affine(1)


@dataclass(slots=True)
class CutRows:
    """Rows `sum of coefficients * columns >= bound` under a peak, in integers.

    They are made for one node after another. The first columns are `r` of the nodes that may run
    again, in their order.

    Parameters
    ----------
    problem
        The problem.
    peak
        Bytes that must not be exceeded.
    small
        Storages with fewer bytes have no `l`: they count where they are live for certain.
    """

    problem: RecomputeProblem
    peak: int
    small: int = 0
    columns: list[Column] = field(init=False)
    keys: list[Key] = field(default_factory=list)
    terms: list[tuple[tuple[int, int], ...]] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)
    active: list[int] = field(default_factory=list)
    fits: dict[int, tuple[dict[int, int], int]] = field(default_factory=dict)
    """Bytes by column and the bytes that must be released, of each node."""
    extra: set[Key] = field(default_factory=set)
    """Rows that were added because a solution violated them."""
    moments: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    """Column by node v, of each `d` and `x`."""
    nodes: dict[int, NodeRows] = field(default_factory=dict)
    pairs: dict[tuple[int, int], int] = field(default_factory=dict)
    """Column `d(w, v)` by moments v and w that the graph does not order."""

    def __post_init__(self) -> None:
        self.columns = [("r", -1, u) for u in self.problem.again]

    def add(self, v: int) -> bool:
        """Add the rows of a node; return False if they are there already."""
        if v in self.active:
            return False
        made = self.nodes[v] = NodeRows(self, v)
        made.make()
        for w in self.active:
            if not self.is_above(v, w) and not self.is_above(w, v):
                self.pairs[v, w] = self.nodes[w].first_run(v)
                self.pairs[w, v] = made.first_run(w)
                terms = ((self.pairs[v, w], 1), (self.pairs[w, v], 1))
                self.put(("either", v, w, 0), terms, 1)
        self.active.append(v)
        return True

    def round(self, v: int, q: int, least: int) -> bool:
        """Add the row "round" of a node; return False if it is there already.

        Storages of fewer than `least` bytes are taken as released.
        """
        key = ("round", v, q, max(least, self.small))
        if key in self.extra:
            return False
        self.extra.add(key)
        sizes, need = self.large(v, least)
        parts = {column: rounded(size, need, q) for column, size in sizes.items()}
        terms = tuple((column, -part) for column, part in parts.items())
        self.put(key, terms, rounded(need, need, q) - sum(parts.values()))
        return True

    def large(self, v: int, least: int) -> tuple[dict[int, int], int]:
        """Return the large storages by column, and the bytes that they must release."""
        sizes, need = self.fits[v]
        found = {column: size for column, size in sizes.items() if size >= least}
        return found, need - sum(sizes.values()) + sum(found.values())

    def put(self, key: Key, terms: tuple[tuple[int, int], ...], bound: int) -> None:
        """Append a row."""
        self.keys.append(key)
        self.terms.append(terms)
        self.bounds.append(bound)

    def column(self, kind: str, v: int, which: int) -> int:
        """Return a new column, and order it among those of other moments."""
        self.columns.append((kind, v, which))
        made = len(self.columns) - 1
        if kind != "l":
            self._order_moments(kind, v, which, made)
        return made

    def _order_moments(self, kind: str, v: int, u: int, made: int) -> None:
        """Add the rows "order" or "after" between a moment and those next to it."""
        known = self.moments.setdefault((kind, u), {})
        before = [w for w in known if self.is_above(w, v)]
        behind = [w for w in known if self.is_above(v, w)]
        pairs = [(w, v) for w in before if not any(self.is_above(w, y) for y in before)]
        pairs += [(v, w) for w in behind if not any(self.is_above(y, w) for y in behind)]
        known[v] = made
        for early, late in pairs:
            sign = 1 if kind == "x" else -1
            terms = ((known[early], sign), (known[late], -sign))
            self.put(("after" if kind == "x" else "order", early, late, u), terms, 0)

    def is_above(self, u: int, w: int) -> bool:
        """Return True if w needs u, directly or not."""
        return bool(self.problem.above[w] >> u & 1)


def rounded(size: int, need: int, q: int) -> int:
    """Return f of the rows "round"."""
    rest = (need - 1) % q + 1
    return size // q * rest + min(rest, size % q)


@dataclass(slots=True)
class NodeRows:
    """Rows of one node; columns are made where a row needs them."""

    rows: CutRows
    v: int
    problem: RecomputeProblem = field(init=False)
    repeat: dict[int, int] = field(init=False)
    done: dict[int, int] = field(default_factory=dict)
    """Column `d` by node."""
    later: dict[int, Affine] = field(default_factory=dict)
    """`x` by node."""
    ordered: set[int] = field(default_factory=set)
    """Nodes whose rows "down" are made."""

    def __post_init__(self) -> None:
        self.problem = self.rows.problem
        self.repeat = {u: i for i, u in enumerate(self.problem.again)}

    def make(self) -> None:
        """Make the rows."""
        sizes: dict[int, int] = {}
        constant = self.problem.own_bytes(self.v)
        used = {*self.problem.reads[self.v], *self.problem.makes[self.v]}
        for s, storage in enumerate(self.problem.storages):
            if s in used:
                continue
            live = self._live(s) if self._bytes(s) >= self.rows.small else self._surely_live(s)
            constant += live.constant * storage.size
            if live.column >= 0:
                # Outputs of one node share its column `d`: together they count as one storage.
                sizes[live.column] = sizes.get(live.column, 0) + live.sign * storage.size
        self._order_first_runs()
        terms = tuple((column, -size) for column, size in sizes.items())
        self.rows.put(("fit", self.v, 0, 0), terms, constant - self.rows.peak)
        self.rows.fits[self.v] = (sizes, sum(sizes.values()) + constant - self.rows.peak)

    def _bytes(self, s: int) -> int:
        """Return the bytes that share the column of a storage."""
        storage, all_ = self.problem.storages[s], self.problem.storages
        if not storage.kept or storage.maker < 0:
            return storage.size
        made = (all_[b] for b in self.problem.makes[storage.maker])
        return sum(each.size for each in made if each.kept)

    def _surely_live(self, s: int) -> Affine:
        """Return one if the bytes of a storage are live for every set of repeats."""
        storage = self.problem.storages[s]
        is_made = storage.maker < 0 or self.rows.is_above(storage.maker, self.v)
        if storage.kept:
            return ONE if is_made else ZERO
        is_read = any(self.rows.is_above(self.v, w) for w in storage.readers)
        return ONE if is_made and is_read and storage.maker not in self.repeat else ZERO

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
        column = self.rows.column("l", self.v, s)
        for w, x in readers:
            terms = {column: 1}
            for term, sign in ((x, -1), (made, 1)):
                if term.column >= 0:
                    terms[term.column] = terms.get(term.column, 0) + sign * term.sign
            bound = x.constant - made.constant
            self.rows.put(("live", self.v, s, w), tuple(terms.items()), bound)
        return Affine(0, column, 1)

    def first_run(self, u: int) -> int:
        """Return the column `d` of a node that the graph does not order."""
        column = self._has_run(u).column
        self._order_first_runs()
        return column

    def known_first(self, u: int) -> Affine | None:
        """Return `d` if it is a number or has a column."""
        is_free = u != self.v and not self.rows.is_above(u, self.v)
        is_free = is_free and not self.rows.is_above(self.v, u)
        return self._has_run(u) if u in self.done or not is_free else None

    def _has_run(self, u: int) -> Affine:
        """Return `d`."""
        if self.rows.is_above(u, self.v):
            return ONE
        if u == self.v or self.rows.is_above(self.v, u):
            return ZERO
        if u not in self.done:
            self.done[u] = self.rows.column("d", self.v, u)
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
        column, again = self.rows.column("x", self.v, u), (self.repeat[u], 1)
        if has_run == ONE:
            self.rows.put(("again", self.v, u, 0), (again, (column, -1)), 0)
        else:
            done = has_run.column
            self.rows.put(("first", self.v, u, 0), ((column, 1), (done, 1)), 1)
            self.rows.put(("again", self.v, u, 0), (again, (column, -1), (done, -1)), -1)
        return Affine(0, column, 1)

    def _order_first_runs(self) -> None:
        """Make the rows "down" of all nodes in question, and of the nodes between them."""
        waiting = [u for u in self.done if u not in self.ordered]
        while waiting:
            u = waiting.pop()
            self.ordered.add(u)
            for p in self._free_predecessors(u):
                if p not in self.done:
                    self.done[p] = self.rows.column("d", self.v, p)
                    waiting.append(p)
                terms = ((self.done[p], 1), (self.done[u], -1))
                self.rows.put(("down", self.v, p, u), terms, 0)

    def _free_predecessors(self, u: int) -> Iterator[int]:
        is_above = self.rows.is_above
        for p in self.problem.preds[u]:
            if p != self.v and not is_above(p, self.v) and not is_above(self.v, p):
                yield p
