"""Packings of a few buffers in Python integers: exact whatever the sizes, alignments and pins.

Take the lowest offsets that obey the alignments, the pins and a set of rules "this one lies above
that one". If two buffers then share bytes while both are live, one of them lies above the other in
every packing: try both rules. If none do, this is the smallest packing that obeys the rules. As no
rule is ever guessed without its opposite being tried, a search that ends without a packing is a
proof that there is none.

>>> import numpy as np
>>> columns = np.array([[0, 2, 5, 8, -1], [1, 3, 5, 8, -1]], np.int64).T
>>> pack_tiny(PackingProblem(("a", "b"), *columns), 13)
[0, 8]
"""

from __future__ import annotations

from optsched.model.packing_problem import PackingProblem

MAX_BUFFERS = 14
"""Up to this many live buffers the search is tried."""
MAX_NODES = 20_000
"""Sets of rules that are looked at before the search gives up."""
MAX_ROUNDS = 1_000
"""Rounds in which offsets may rise before a set of rules is given up."""


Rule = tuple[int, int, int]
"""Below, above, and how many bytes the second offset must be above the first at least."""


class GiveUpError(Exception):
    """A search has reached its limits without an answer."""


def pack_tiny(problem: PackingProblem, capacity: int) -> list[int] | None:
    """Return offsets with which all buffers end at or below a capacity, or None if there are none.

    Raises
    ------
    GiveUpError
        If there are too many buffers, or the search has taken too many nodes.
    """
    live = (problem.end > problem.start).tolist()
    if sum(live) > MAX_BUFFERS:
        raise GiveUpError
    return _RuleSearch(problem, capacity, live).run()


class _RuleSearch:
    def __init__(self, problem: PackingProblem, capacity: int, live: list[bool]) -> None:
        self.capacity, self.nodes = capacity, 0
        self.size: list[int] = problem.size.tolist()
        self.alignment: list[int] = problem.alignment.tolist()
        self.pin: list[int] = problem.pin.tolist()
        self.live, self.has_gaps = live, bool(problem.gaps)
        parts = problem.parts
        columns = (parts.owner, parts.start, parts.end, parts.low, parts.high)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        self.meeting = [
            (a, b)
            for i, a in enumerate(rows)
            for b in rows[:i]
            if a[0] != b[0] and max(a[1], b[1]) < min(a[2], b[2])
        ]

    def run(self) -> list[int] | None:
        """Search depth first, the lower of two packings first."""
        start = self._lowest([max(0, pin) for pin in self.pin], [])
        stack: list[tuple[list[int], list[Rule]]] = [] if start is None else [(start, [])]
        while stack:
            self.nodes += 1
            if self.nodes > MAX_NODES:
                raise GiveUpError
            offsets, rules = stack.pop()
            clash = self._clash(offsets)
            if clash is None:
                return offsets
            (a, _, _, a_low, a_high), (b, _, _, b_low, b_high) = clash
            children = []
            for rule in ((a, b, a_high - b_low), (b, a, b_high - a_low)):
                lowest = self._lowest(offsets, [*rules, rule])
                if lowest is not None:
                    children.append((lowest, [*rules, rule]))
            stack += sorted(children, key=lambda child: -self._top(child[0]))
        return None

    def _lowest(self, offsets: list[int], rules: list[Rule]) -> list[int] | None:
        """Raise offsets until they obey all rules `offset[above] >= offset[below] + rise`."""
        found = offsets.copy()
        for _ in range(MAX_ROUNDS):
            moved = False
            for below, above, rise in rules:
                if found[above] < found[below] + rise:
                    step = self.alignment[above]
                    found[above] = -(-(found[below] + rise) // step) * step
                    moved = True
                    if self.pin[above] >= 0 or found[above] + self.size[above] > self.capacity:
                        return None
            if not moved:
                return found if self._top(found) <= self.capacity else None
        raise GiveUpError

    def _clash(self, offsets: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        for a, b in self.meeting:
            low, high = offsets[a[0]], offsets[b[0]]
            if low + a[3] < high + b[4] and high + b[3] < low + a[4]:
                return a, b
        return None

    def _top(self, offsets: list[int]) -> int:
        ends = (
            x + size for x, size, live in zip(offsets, self.size, self.live, strict=True) if live
        )
        return max(ends, default=0)
