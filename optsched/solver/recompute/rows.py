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

from dataclasses import dataclass, field

from optsched.runtime.clock import Clock
from optsched.solver.recompute.node_rows import NodeRows
from optsched.solver.recompute.table import Key, RowTable

STORAGE_SECONDS = 2e-5
"""Seconds for the rows of a node, by storages."""


@dataclass(slots=True)
class CutRows(RowTable):
    """Rows of a graph under a peak, made for one node after another."""

    active: list[int] = field(default_factory=list)
    extra: set[Key] = field(default_factory=set)
    """Rows that were added because a solution violated them."""
    nodes: dict[int, NodeRows] = field(default_factory=dict)
    pairs: dict[tuple[int, int], int] = field(default_factory=dict)
    """Column `d(w, v)` by moments v and w that the graph does not order."""

    def add(self, v: int, clock: Clock | None = None) -> bool:
        """Add the rows of a node; return False if they are there already, or the time is over.

        Rows of a node that are left unfinished hold like all others, and say little.
        """
        if v in self.nodes or (clock is not None and clock.expired()):
            return False
        made = NodeRows(self, v)
        if clock is not None:
            clock.spend(len(self.problem.storages), STORAGE_SECONDS)
        if not made.make(clock):
            return False
        self.nodes[v] = made
        # The graph does not order these two moments, so each needs a column that says which is
        # first.
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
        # Storages that are left out count as released, so what they release is not asked for.
        return found, need - sum(sizes.values()) + sum(found.values())


def rounded(size: int, need: int, q: int) -> int:
    """Return f of the rows "round"."""
    rest = (need - 1) % q + 1
    return size // q * rest + min(rest, size % q)
