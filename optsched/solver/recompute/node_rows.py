"""Rows of the moment at which one node runs for the first time.

:mod:`optsched.solver.recompute.rows` states them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from optsched.runtime.clock import Clock
from optsched.solver.recompute.problem import RecomputeProblem
from optsched.solver.recompute.table import ONE, ZERO, Affine, RowTable

LOOK = 256
"""Storages between two looks at the clock."""


@dataclass(slots=True)
class NodeRows:
    """Rows of one node; columns are made where a row needs them."""

    rows: RowTable
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
        self.repeat = self.rows.repeat
        # Asked for by every row of this node.
        self.problem.ancestors(self.v)
        self.problem.descendants(self.v)

    def make(self, clock: Clock | None = None) -> bool:
        """Make the rows; return False if the time was over before."""
        sizes: dict[int, int] = {}
        constant = self.problem.own_bytes(self.v)
        used = {*self.problem.reads[self.v], *self.problem.makes[self.v]}
        for s, storage in enumerate(self.problem.storages):
            if clock is not None and s % LOOK == 0 and clock.expired():
                return False
            if s in used:
                continue
            # Small storages get no column of their own; they count only if they are live in every
            # schedule.
            live = self._live(s) if self._bytes(s) >= self.rows.small else self._surely_live(s)
            constant += live.constant * storage.size
            if live.column >= 0:
                # Outputs of one node share its column `d`: together they count as one storage.
                sizes[live.column] = sizes.get(live.column, 0) + live.sign * storage.size
        self._order_first_runs()
        terms = tuple((column, -size) for column, size in sizes.items())
        self.rows.put(("fit", self.v, 0, 0), terms, constant - self.rows.peak)
        self.rows.fits[self.v] = (sizes, sum(sizes.values()) + constant - self.rows.peak)
        return True

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
        # Live between its maker and a later reader, provided that the maker does not run again.
        is_read = any(self.rows.is_above(self.v, w) for w in storage.readers)
        return ONE if is_made and is_read and storage.maker not in self.repeat else ZERO

    def _live(self, s: int) -> Affine:
        """Return whether a storage is live as a term of the fit."""
        storage = self.problem.storages[s]
        if storage.kept:
            return self._has_run(storage.maker)
        made = ZERO if storage.maker < 0 else self._runs_later(storage.maker)
        # The storage is made later in any case, so it is not live now.
        if made == ONE:
            return ZERO
        readers = [(w, x) for w in storage.readers if (x := self._runs_later(w)) != ZERO]
        # Made by now and read later, both for certain.
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
        # Every node runs at some time: if not before this moment, then later.
        if has_run == ZERO:
            return ONE
        # A node that never repeats runs later exactly if `d` is 0.
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
