"""Reference packers, written from their descriptions: one step and one byte range at a time."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.model.packing_problem import PackingProblem


class Rows:
    """The problem as Python integers; only buffers that have bytes and are ever live."""

    def __init__(self, problem: PackingProblem) -> None:
        self.start, self.end = problem.start.tolist(), problem.end.tolist()
        self.size, self.pin = problem.size.tolist(), problem.pin.tolist()
        self.alignment = problem.alignment.tolist()
        self.ids = [i for i in range(len(problem)) if self.size[i] and self.end[i] > self.start[i]]

    def up(self, offset: int, i: int) -> int:
        # The next multiple of the alignment.
        over = offset % self.alignment[i]
        return offset if over == 0 else offset - over + self.alignment[i]

    def meet(self, i: int, j: int) -> bool:
        return any(self.start[j] <= step < self.end[j] for step in self.steps(i))

    def steps(self, i: int) -> range:
        return range(self.start[i], self.end[i])

    def lifetime(self, i: int) -> int:
        return len(self.steps(i))


def in_turn(rows: Rows, sequence: Sequence[int], *, tightest: bool) -> dict[int, int]:
    """Try every offset on which a buffer can rest."""
    offsets = {i: rows.pin[i] for i in rows.ids if rows.pin[i] >= 0}
    for i in sequence:
        if i in offsets:
            continue
        met = [(offsets[j], offsets[j] + rows.size[j]) for j in offsets if rows.meet(i, j)]
        holes: dict[int, int] = {}
        top = rows.up(max((high for _, high in met), default=0), i)
        # Each offset at which a buffer could lie: 0, or on top of another one.
        for at in sorted({rows.up(x, i) for x in [0, *(high for _, high in met)]}):
            free = all(high <= at or at + rows.size[i] <= low for low, high in met)
            # The next buffer above closes the hole.
            ceiling = min((low for low, _ in met if low > at), default=None)
            if free and at < top and ceiling is not None:
                holes.setdefault(ceiling, at)
        if not holes:
            offsets[i] = top
        # The tightest hole, the lowest among equals.
        elif tightest:
            offsets[i] = min((ceiling - at, at) for ceiling, at in holes.items())[1]
        else:
            offsets[i] = min(holes.values())
    return offsets


def by_size(rows: Rows) -> list[int]:
    return sorted(rows.ids, key=lambda i: (-rows.size[i], -rows.lifetime(i)))


def by_size_alone(rows: Rows) -> list[int]:
    return sorted(rows.ids, key=lambda i: -rows.size[i])


def by_size_last_first(rows: Rows) -> list[int]:
    return sorted(rows.ids, key=lambda i: (-rows.size[i], -i))


def by_area(rows: Rows) -> list[int]:
    return sorted(rows.ids, key=lambda i: -rows.size[i] * rows.lifetime(i))


def by_start(rows: Rows) -> list[int]:
    return sorted(rows.ids, key=lambda i: (rows.start[i], -rows.size[i]))


def by_start_alone(rows: Rows) -> list[int]:
    return sorted(rows.ids, key=lambda i: rows.start[i])


def by_lifetime(rows: Rows) -> list[int]:
    return sorted(rows.ids, key=lambda i: (-rows.lifetime(i), -rows.size[i]))


def by_conflicts(rows: Rows) -> list[int]:
    # Buffers without bytes are counted as well, those never live are not.
    others = [j for j in range(len(rows.size)) if rows.lifetime(j)]
    degree = {i: sum(rows.meet(i, j) for j in others) for i in rows.ids}
    return sorted(rows.ids, key=lambda i: (-degree[i], -rows.size[i]))


def by_breadth(rows: Rows) -> list[int]:
    """Op after op as in Pisarchyk and Lee: profile, breadth, the profile's buffers by size."""
    profiles = {
        step: [i for i in rows.ids if step in rows.steps(i)]
        for step in range(max(rows.end, default=0))
    }
    sequence: list[int] = []
    for step in sorted(profiles, key=lambda s: (-sum(rows.size[i] for i in profiles[s]), s)):
        fresh = [i for i in profiles[step] if i not in sequence]
        sequence += sorted(fresh, key=lambda i: (-rows.size[i], i))
    return sequence


def free_list(rows: Rows) -> dict[int, int]:
    """First fit of arrivals without pins: a set of live byte ranges, cleared of what has ended."""
    live: list[int] = []
    offsets: dict[int, int] = {}
    for i in by_start_alone(rows):
        # Ranges that have ended are free again.
        live = [j for j in live if rows.end[j] > rows.start[i]]
        at = 0
        for low, high in sorted((offsets[j], offsets[j] + rows.size[j]) for j in live):
            if rows.up(at, i) + rows.size[i] <= low:
                break
            at = max(at, high)
        offsets[i] = rows.up(at, i)
        live.append(i)
    return offsets


def skyline(rows: Rows) -> dict[int, int]:
    """Lowest height that any buffer can have over all its steps; the longest, then the largest."""
    height = [0] * max(rows.end, default=0)
    offsets: dict[int, int] = {}
    while len(offsets) < len(rows.ids):
        _, _, _, i = min(
            # The buffer that can lie lowest; the longest, then the largest, among equals.
            (max(height[s] for s in rows.steps(i)), -rows.lifetime(i), -rows.size[i], i)
            for i in rows.ids
            if i not in offsets
        )
        offsets[i] = rows.up(max(height[s] for s in rows.steps(i)), i)
        for s in rows.steps(i):
            height[s] = offsets[i] + rows.size[i]
    return offsets
