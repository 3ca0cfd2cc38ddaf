"""AITemplate's greedy by size, from the description of its rule; no alignment, no pins."""

from __future__ import annotations

from optsched.model.packing_problem import PackingProblem


def greedy_by_size(problem: PackingProblem) -> list[int]:
    offsets: dict[int, int] = {}
    by_offset: list[int] = []
    sizes = [int(x) for x in problem.size]
    for i in sorted(range(len(problem)), key=lambda i: -sizes[i]):
        meets = [
            j
            for j in by_offset
            if max(problem.start[i], problem.start[j]) < min(problem.end[i], problem.end[j])
        ]
        holes: list[tuple[int, int, int]] = []
        top = 0
        for j in meets:
            if offsets[j] - top >= sizes[i]:
                holes.append((offsets[j] - top, len(holes), top))
            top = max(top, offsets[j] + sizes[j])
        offsets[i] = min(holes)[2] if holes else top
        at = sum(offsets[j] <= offsets[i] for j in by_offset)
        by_offset.insert(at, i)
    return [offsets[i] for i in range(len(problem))]
