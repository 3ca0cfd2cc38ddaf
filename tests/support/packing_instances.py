"""Packing problems: random ones whose least slab tends to exceed the load, and cut rectangles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.packing_problem import Gap, PackingProblem

Row = tuple[int, int, int]


def problem_of(
    rows: list[Row],
    alignment: list[int] | None = None,
    pins: dict[int, int] | None = None,
    gaps: dict[int, tuple[Gap, ...]] | None = None,
) -> PackingProblem:
    """Rows are start, end, size."""
    table = np.array(rows, np.int64).reshape(-1, 3)
    n = len(rows)
    pin = np.full(n, -1, np.int64)
    for i, offset in (pins or {}).items():
        pin[i] = offset
    return PackingProblem(
        names=tuple(f"b{i}" for i in range(n)),
        start=table[:, 0].copy(),
        end=table[:, 1].copy(),
        size=table[:, 2].copy(),
        alignment=np.array(alignment or [1] * n, np.int64),
        pin=pin,
        gaps=tuple((gaps or {}).get(i, ()) for i in range(n)) if gaps else (),
    )


def random_problem(random: np.random.Generator, kind: str, buffers: int = 12) -> PackingProblem:
    """A dense random problem; `kind` has letters a (alignment), p (pins), g (gaps), w (windows),
    k (pairs kept apart), s (groups that share an offset).

    Steps below the load are filled up with buffers that live there only: nearly no slack is left,
    and the least slab is often above the load.
    """
    steps = int(random.integers(4, 11))
    # A common divisor now and then, which the packer divides out.
    scale = int(random.choice([1, 1, 1, 6]))
    rows: list[Row] = []
    for _ in range(int(random.integers(buffers // 2, buffers + 1))):
        start = int(random.integers(steps))
        end = min(steps, start + int(random.choice([1, 2, 2, 3, 3, 4, 6])))
        rows.append((start, end, scale * int(random.choice([1, 2, 3, 4, 5, 7, 9]))))
    gaps: dict[int, tuple[Gap, ...]] = {}
    if "w" in kind:
        gaps = {i: random_windows(random, row) for i, row in enumerate(rows)}
    load = live_bytes(rows, gaps, steps)
    for step in range(steps):
        missing = int(load.max() - load[step])
        if missing and random.random() < 0.85:
            rows.append((step, step + 1, missing))
    n = len(rows)
    alignment = [1] * n
    if "a" in kind:
        choices = [[1, 1, 2, 4, 8], [4], [2, 4, 6]][int(random.integers(3))]
        alignment = [int(random.choice(choices)) for _ in range(n)]
    pins: dict[int, int] = {}
    if "p" in kind:
        for i in random.choice(n, min(n, int(random.integers(1, 4))), replace=False).tolist():
            offset = int(random.integers(max(1, int(load.max()))))
            # A pin must obey the alignment; pins that overlap would leave no packing at all.
            offset -= offset % alignment[i]
            if all(apart(rows[i], offset, rows[j], pins[j]) for j in pins):
                pins[i] = offset
    if "g" in kind:
        for i, (start, end, _) in enumerate(rows):
            if end - start >= 3 and random.random() < 0.6:
                low = int(random.integers(start + 1, end - 1))
                gaps[i] = (Gap(low, int(random.integers(low + 1, end))),)
    problem = problem_of(rows, alignment, pins, gaps)
    if "s" in kind:
        problem = with_groups(random, problem)
    return with_pairs(random, problem) if "k" in kind else problem


def with_pairs(random: np.random.Generator, problem: PackingProblem) -> PackingProblem:
    """Keep pairs apart, few or many, but no two of a group; pins may then be on the same bytes."""
    group = np.arange(len(problem))
    for members in problem.must_share:
        group[list(members)] = members[0]
    a, b = np.triu_indices(len(problem), 1)
    pairs = np.column_stack([a, b])[group[a] != group[b]]
    share = float(random.choice([0.02, 0.1, 0.3]))
    return replace(problem, keep_apart=pairs[random.random(len(pairs)) < share])


def with_groups(random: np.random.Generator, problem: PackingProblem) -> PackingProblem:
    """Let one to three groups of two or three buffers share an offset, at most one of each pinned.

    Members may be live together.
    """
    left = random.permutation(len(problem)).tolist()
    groups = []
    for _ in range(int(random.integers(1, 4))):
        size = int(random.integers(2, 4))
        members, left = left[:size], left[size:]
        pins = [int(problem.pin[i]) for i in members if problem.pin[i] >= 0]
        even = all(pin % problem.alignment[i] == 0 for pin in pins for i in members)
        # Two pins, or one that another member's alignment forbids, would contradict the group.
        if len(members) == size and len(pins) < 2 and even:
            groups.append(tuple(members))
    return replace(problem, must_share=tuple(groups))


def live_bytes(rows: list[Row], gaps: dict[int, tuple[Gap, ...]], steps: int) -> IntArray:
    """Bytes live at each step."""
    load = np.zeros(steps, np.int64)
    for i, (start, end, size) in enumerate(rows):
        load[start:end] += size
        for gap in gaps.get(i, ()):
            low, high = gap.window or (0, 0)
            load[gap.start : gap.end] -= size - (high - low)
    return load


def random_windows(random: np.random.Generator, row: Row) -> tuple[Gap, ...]:
    """Gaps anywhere in a live range, one after another, most of them with a part of the bytes."""
    start, end, size = row
    gaps: list[Gap] = []
    while start < end and random.random() < 0.7:
        first = int(random.integers(start, end))
        start = int(random.integers(first + 1, end + 1))
        low, high = sorted(int(x) for x in random.integers(0, size + 1, 2))
        low = 0 if random.random() < 0.3 else low
        gaps.append(Gap(first, start, (low, high) if random.random() < 0.85 else None))
    return tuple(gaps)


def apart(a: Row, offset_a: int, b: Row, offset_b: int) -> bool:
    """Return True if two placed buffers do not overlap."""
    return (
        a[1] <= b[0] or b[1] <= a[0] or offset_a + a[2] <= offset_b or offset_b + b[2] <= offset_a
    )


def cut(random: np.random.Generator, width: int, height: int, pieces: int) -> PackingProblem:
    """Buffers that fill a rectangle: it is cut in two, or into a pinwheel of five, again and again.

    The least slab is `height`.
    """
    rectangles = cut_up(random, width, height, pieces)
    order = random.permutation(len(rectangles))
    rows = [(a, b, high - low) for a, b, low, high in rectangles]
    return problem_of([rows[i] for i in order])


def cut_windows(
    random: np.random.Generator, width: int, height: int, pieces: int
) -> PackingProblem:
    """As `cut`, but rectangles that follow each other in part become one buffer with windows."""
    rectangles = cut_up(random, width, height, pieces)
    chains: list[list[Rectangle]] = []
    for one in sorted(rectangles):
        a, _, low, high = one
        before = [
            chain
            for chain in chains
            if chain[-1][1] == a and chain[-1][2] < high and low < chain[-1][3]
        ]
        if before and random.random() < 0.5:
            before[int(random.integers(len(before)))].append(one)
        else:
            chains.append([one])
    rows: list[Row] = []
    gaps: dict[int, tuple[Gap, ...]] = {}
    for i in random.permutation(len(chains)).tolist():
        bottom, top = min(x[2] for x in chains[i]), max(x[3] for x in chains[i])
        parts = [Gap(a, b, (low - bottom, high - bottom)) for a, b, low, high in chains[i]]
        whole = (0, top - bottom)
        gaps[len(rows)] = tuple(part for part in parts if part.window != whole)
        rows.append((chains[i][0][0], chains[i][-1][1], top - bottom))
    return problem_of(rows, gaps=gaps)


Rectangle = tuple[int, int, int, int]
"""Start, end, low, high."""


def cut_up(random: np.random.Generator, width: int, height: int, pieces: int) -> list[Rectangle]:
    """Cut a rectangle up."""
    rectangles = [(0, width, 0, height)]
    # A chosen rectangle may be too small to cut: try often, but not forever.
    for _ in range(20 * pieces):
        if len(rectangles) >= pieces:
            break
        at = int(random.integers(len(rectangles)))
        parts = pinwheel(random, *rectangles[at]) if random.random() < 0.5 else []
        parts = parts or guillotine(random, *rectangles[at])
        if parts:
            rectangles[at : at + 1] = parts
    return rectangles


def guillotine(random: np.random.Generator, a: int, b: int, low: int, high: int) -> list[Rectangle]:
    """Cut from side to side, if there is room."""
    if random.random() < 0.5 and b - a >= 2:
        x = int(random.integers(a + 1, b))
        return [(a, x, low, high), (x, b, low, high)]
    if high - low >= 2:
        y = int(random.integers(low + 1, high))
        return [(a, b, low, y), (a, b, y, high)]
    return []


def pinwheel(random: np.random.Generator, a: int, b: int, low: int, high: int) -> list[Rectangle]:
    """Four rectangles around a fifth: no cut runs from side to side."""
    if b - a < 3 or high - low < 3:
        return []
    x1, x2 = sorted(int(x) for x in random.choice(np.arange(a + 1, b), 2, replace=False))
    y1, y2 = sorted(int(y) for y in random.choice(np.arange(low + 1, high), 2, replace=False))
    return [
        (a, x2, low, y1),
        (x2, b, low, y2),
        (x1, b, y2, high),
        (a, x1, y1, high),
        (x1, x2, y1, y2),
    ]
