"""Members of a must-share group: buffers that no order has live at one step.

Buffer `a` is *before* buffer `b` if every op at which `a` is live precedes the op that allocates
`b`. A buffer is *momentary* if it is live only at the op that allocates it. Two buffers are never
live at one step in exactly two cases: one is before the other, or both are momentary and allocated
by different ops. "Before" is transitive, and ops that precede others have a smaller depth. Sorted
by depth, the members of a group thus need to be compared with their neighbors only, up to the
nearest member on either side that is not momentary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from optsched.model.dependencies import topological_order
from optsched.model.wiring import Wired


class Lifetimes:
    """Lifetimes of some buffers over all orders of a graph.

    `buffers`: ids of the buffers, all of them roots.
    """

    def __init__(self, graph: Wired, buffers: Iterable[int]) -> None:
        self.graph = graph
        self.births = {b: _birth(graph, b) for b in buffers}
        self.users: dict[int, set[int]] = {b: set() for b in self.births}
        """Ops at which each buffer is live, by buffer; the op that allocates it is one of them."""
        for b, birth in self.births.items():
            # An input is live from the start and has no op that allocates it.
            self.users[b] |= set() if birth is None else {birth}
        for v, op in enumerate(graph.ops):
            for b in (*op.reads, *op.uses, *op.writes):
                if graph.roots[b] in self.users:
                    self.users[graph.roots[b]].add(v)
        self.depths = _depths(graph.predecessors)

    def meeting(self, group: Sequence[int]) -> tuple[int, int] | None:
        """Return two members that some order has live at once, or None."""
        live = [b for b in group if self.users[b] or self.graph.kept[b]]
        for a, b in self._neighbors(sorted(live, key=self._depth)):
            if not self._is_before(a, b):
                return min(a, b), max(a, b)
        return None

    def _neighbors(self, members: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield the pairs whose first member must be before the second."""
        last: list[int] = []
        """The latest member that is not momentary, if any."""
        moments: dict[int | None, int] = {}
        """The momentary members after it, by the op that allocates them."""
        for b in members:
            # The last one that is not momentary must come before each of the next.
            yield from ((a, b) for a in last)
            birth = self.births[b]
            if self._is_momentary(b):
                # Two momentary members of one op are live together there.
                if birth in moments:
                    yield moments[birth], b
                moments[birth] = b
            else:
                yield from ((a, b) for a in moments.values())
                last, moments = [b], {}

    def _depth(self, b: int) -> int:
        # Inputs come before every op.
        birth = self.births[b]
        return -1 if birth is None else self.depths[birth]

    def _is_momentary(self, b: int) -> bool:
        return self.users[b] == {self.births[b]} and not self.graph.kept[b]

    def _is_before(self, a: int, b: int) -> bool:
        """Return True if every op at which `a` is live precedes the op that allocates `b`."""
        birth = self.births[b]
        if birth is None or self.graph.kept[a]:
            return False
        missing = set(self.users[a])
        lowest = min(self.depths[u] for u in missing)
        seen, left = set(), [birth]
        # Walk back from the op that allocates `b` until all users of `a` are found.
        while left and missing:
            for u in self.graph.predecessors[left.pop()]:
                # An op that precedes a user of `a` has a smaller depth than that user.
                if self.depths[u] >= lowest and u not in seen:
                    seen.add(u)
                    left.append(u)
                    missing.discard(u)
        return not missing


def _birth(graph: Wired, b: int) -> int | None:
    """Return the op that allocates a buffer; None for an input."""
    birth = graph.buffers[b].birth
    return graph.producers[b] if birth is None else birth


def _depths(predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Return the number of ops on a longest path to each op."""
    depths = [0] * len(predecessors)
    for v in topological_order(predecessors):
        depths[v] = max((depths[u] + 1 for u in predecessors[v]), default=0)
    return depths
