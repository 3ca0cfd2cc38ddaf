"""Exactness of `pack` where everything a buffer may ask for comes together.

    python -m tests.fuzz packing.combinations [--count 2000] [--seed 1]

Question: do the slab of `pack`, its proof and its answer to "does it fit?" agree with CP-SAT for
all combinations? Of alignment, pins, upper limits, gaps, windows, pairs kept apart, groups that
share an offset and reserved regions each problem has its own; the regions may overlap, end before
the last step and reach over the slab. Each problem is packed twice: for the least slab, and under a
capacity near it. Brute force tries every offset of the smallest ones without regions. A pin inside
a region must be refused, and no other problem.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import numpy as np

from optsched.check.packing import check_packing
from optsched.errors import GraphError
from optsched.model.packing_problem import PackingProblem
from optsched.model.reserved import Region
from optsched.runtime.limits import Limits
from optsched.solver.pack import pack
from optsched.solver.packing_result import PackingResult
from optsched.solver.status import Status
from tests.support import brute
from tests.support.packing_instances import random_problem
from tests.support.packing_oracle import least_slab

TINY, TINY_BYTES = 6, 24
"""Buffers and bytes of a slab that brute force can take."""


BUFFERS = (5, 10)
"""Fewest and most buffers of a problem."""


def main(count: int = 2_000, seed: int = 1, *, seconds: float = 20.0) -> int:
    started = time.perf_counter()
    counts, wrong = run(count, BUFFERS, seed, seconds)
    print(f"{count} problems: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    print(f"{len(wrong)} wrong, {time.perf_counter() - started:.0f} s")
    print("\n".join(wrong))
    return 1 if wrong else 0


def run(
    problems: int, buffers: tuple[int, int], seed: int, seconds: float
) -> tuple[Counter[str], list[str]]:
    """Pack random problems and compare; return counts, and the faults."""
    count: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(problems):
        random = np.random.default_rng([seed, number])
        kind = "".join(letter for letter in "apgwksrl" if random.random() < 0.5)
        size = int(random.integers(buffers[0], buffers[1] + 1))
        problem = random_problem(random, kind, size)
        regions = random_regions(random, problem) if "r" in kind else []
        problem = random_limits(random, problem) if "l" in kind else problem
        try:
            trouble = compare(problem, regions, random, seconds, count)
        except TimeoutError:
            count["oracle open"] += 1
            continue
        if trouble is not None:
            wrong.append(f"number {number}, kind {kind!r}, {trouble}: {regions}, {problem}")
    return count, wrong


def random_limits(random: np.random.Generator, problem: PackingProblem) -> PackingProblem:
    """Let a third of the buffers end at or below an address, most of these within the load."""
    below = problem.below.copy()
    for i in np.flatnonzero(random.random(len(problem)) < 0.3).tolist():
        lowest = max(0, int(problem.pin[i])) + int(problem.size[i])
        below[i] = lowest + int(random.integers(1 + problem.max_load))
    return replace(problem, below=below)


def random_regions(random: np.random.Generator, problem: PackingProblem) -> list[Region]:
    """One to three regions about as high as the load, half of them for some steps only."""
    load, last = max(1, problem.max_load), int(problem.end.max())
    found = []
    for _ in range(int(random.integers(1, 4))):
        low = int(random.integers(0, load + 1))
        high = low + int(random.integers(1, 1 + max(1, load // 3)))
        start = int(random.integers(0, last)) if random.random() < 0.5 else None
        end = None if start is None else int(random.integers(start + 1, last + 3))
        found.append(Region(low, high, start, end))
    return found


def compare(
    problem: PackingProblem,
    regions: list[Region],
    random: np.random.Generator,
    seconds: float,
    count: Counter[str],
) -> str | None:
    """Return what the oracles contradict, if anything."""
    limits = Limits(seconds=seconds)
    least = least_slab(problem, seconds, regions)
    try:
        result = pack(problem, reserved=regions, limits=limits)
    except GraphError:
        count["refused"] += 1
        return None if least is None else f"refused, but {least} bytes do"
    if least is None:
        return "packed an impossible problem"
    count["above load"] += least > problem.max_load
    count["with regions"] += bool(regions)
    count["with pairs"] += bool(len(problem.keep_apart))
    count["with groups"] += bool(problem.must_share)
    count["not closed"] += result.status is not Status.OPTIMAL
    trouble = contradiction(problem, regions, result, least)
    if trouble is None and not regions and len(problem) <= TINY and least <= TINY_BYTES:
        count["brute force"] += 1
        if brute.least_slab(problem) != least:
            trouble = "brute force disagrees"
    return trouble or compare_capacity(problem, regions, least, random, seconds, count)


def compare_capacity(
    problem: PackingProblem,
    regions: list[Region],
    least: int,
    random: np.random.Generator,
    seconds: float,
    count: Counter[str],
) -> str | None:
    """Ask whether it fits into a little more or less than the least slab."""
    capacity = max(1, least + int(random.integers(-3, 3)))
    # Bytes from the capacity on are out of reach: regions end there.
    clipped = [
        replace(region, high=min(region.high, capacity))
        for region in regions
        if region.low < capacity
    ]
    needed = least_slab(problem, seconds, clipped) if clipped != regions else least
    fits = needed is not None and needed <= capacity
    try:
        result = pack(problem, capacity=capacity, reserved=regions, limits=Limits(seconds=seconds))
    except GraphError:
        return f"refused at capacity {capacity}"
    count["fits" if fits else "does not fit"] += 1
    count["not decided"] += result.status is Status.UNKNOWN
    if result.status is Status.INFEASIBLE and fits:
        return f"called infeasible at {capacity}, but {needed} bytes do"
    if result.status in (Status.OPTIMAL, Status.FEASIBLE):
        if not fits:
            return f"fits in {capacity}, but {needed} bytes are needed"
        assert result.slab is not None
        return contradiction(problem, clipped, result, needed or 0)
    return None


def contradiction(
    problem: PackingProblem, regions: list[Region], result: PackingResult, least: int
) -> str | None:
    """Return the contradictions between a packing, its bound or proof, and the least slab."""
    if result.offsets is None or result.slab is None:
        return "no packing"
    check_packing(problem, result.offsets.tolist())
    parts = problem.parts
    for region in regions:
        for j, i in enumerate(parts.owner.tolist()):
            place = int(result.offsets[i])
            apart = place + parts.high[j] <= region.low or region.high <= place + parts.low[j]
            in_time = (region.start is None or region.start < parts.end[j]) and (
                region.end is None or parts.start[j] < region.end
            )
            there = parts.low[j] < parts.high[j] and parts.start[j] < parts.end[j]
            if there and in_time and not apart:
                return f"{problem.names[i]} lies in region {region}"
    if not result.slab_bound <= least <= result.slab:
        return f"slab {result.slab}, bound {result.slab_bound}, least {least}"
    if result.status is Status.OPTIMAL and result.slab != least:
        return f"called optimal at {result.slab}, least {least}"
    return None
