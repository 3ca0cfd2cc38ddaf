"""States up to identical blocks, and blocks in line: searches without any bound, and of stretches.

    python -m tests.fuzz ordering.blocks --count 6000 --seed 100 [--coarse]

Each graph (up to 13 ops, see `block_graphs`; half of them in-place) is searched for an order of
least peak without bounds, or for one below the optimum, which there is not: with half of the other
rules, as it is or with blocks in line. The optimum is that of `definition`, which shares no code
with this package. Then a random stretch of an order is searched with and without the rule. With
`--coarse` colors are refined once only, so that much is proposed that is not identical, and all
depends on what is verified. A line is printed for each mistake, and one at the end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np

from optsched.formats.native import read_graph_document
from optsched.model.graph import Graph
from optsched.ordering import ALL_RULES, OrderingRules
from optsched.ordering.context import SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.problem import build_problem, topological
from optsched.ordering.reduce import blocks
from optsched.ordering.reduce.contraction import contract
from optsched.ordering.reduce.symmetry import order_copies
from optsched.ordering.search.feasibility import search_all
from optsched.ordering.search.segment import Segment
from optsched.runtime import kernel as kernels
from tests.support.block_graphs import block_document
from tests.support.definition import Model

RUNS = 3
MOST_DOWNSETS = 60_000
ENDLESS, STATES = 2**62, 10**6
OTHERS = [field.name for field in fields(OrderingRules) if field.name != "symmetry"]


def main(count: int = 6_000, seed: int = 0, *, coarse: bool = False) -> int:
    if coarse:
        # Colors then tell hardly anything apart: most proposed blocks are not identical.
        blocks.MOST_ROUNDS = 1
    counts: Counter[str] = Counter(wrong=0)
    for number in range(count):
        for mistake in examine(random.Random(f"{seed}-{number}"), counts):
            counts["wrong"] += 1
            print(f"seed {seed}, graph {number}: {mistake}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


def examine(rng: random.Random, counts: Counter[str]) -> Iterator[str]:
    """Search a random graph a few times and say what is wrong."""
    document = block_document(rng, rng.choice([6, 9, 12, 13]))
    graph = read_graph_document(document)
    in_place = rng.random() < 0.5
    graph = graph.with_inplace() if in_place else graph
    optimum = Model(document, in_place=in_place).least_peak(MOST_DOWNSETS)
    if optimum is None:
        return
    counts["graphs"] += 1
    for _ in range(RUNS):
        kernels.policy.force = rng.choice([None, kernels.compiled_form])
        searched, in_order = prepare(rng, graph)
        if searched is None:
            continue
        counts["runs"] += 1
        counts["runs in line"] += in_order
        yield from search(rng, searched, optimum)
        yield from search_stretch(rng, searched)
        searched.collect()
        counts["states"] += searched.statistics.expanded


SOON = replace(EFFORT, first_turn=1)
"""Blocks are looked for in short searches as well."""


def prepare(rng: random.Random, graph: Graph) -> tuple[SearchContext | None, bool]:
    """The problem with some rules, and whether its blocks are in line; None without blocks."""
    rules = replace(ALL_RULES, **{name: rng.random() < 0.5 for name in OTHERS})
    small = contract(build_problem(graph.arrays), merge=rules.contract)
    found = SearchContext(small.problem, rules, SOON)
    families = found.families(wanted=True)
    if not families:
        return None, False
    if rng.random() < 0.4:
        return found, False
    weight = np.array([rng.randrange(9) for _ in range(found.ops)])
    return order_copies(found, families, weight).context, True


def search(rng: random.Random, searched: SearchContext, optimum: int) -> Iterator[str]:
    """Search for an order, or refute all below the optimum."""
    bounds = [0]
    # With the optimum as ceiling the search must prove that nothing lies below.
    ceiling = rng.choice([ENDLESS, optimum])
    answer = search_all(searched, 0, ceiling, STATES, bounds.append)
    if max(bounds) > optimum:
        yield f"a bound of {max(bounds)}, the optimum is {optimum}"
    if ceiling == optimum:
        if not answer.refuted:
            yield f"{answer} below the optimum {optimum}"
    elif answer.order is None or searched.follow(answer.order)[0] != optimum:
        yield f"{answer}, the optimum is {optimum}"


def search_stretch(rng: random.Random, searched: SearchContext) -> Iterator[str]:
    """Search a stretch of an order with the rule and without."""
    order = topological(searched.problem)
    first, end = sorted(rng.sample(range(len(order) + 1), 2))
    low, high = np.zeros((2, len(order)), np.bool_)
    low[order[:first]] = high[order[:end]] = True
    peaks = []
    for either in (searched, replace(searched, rules=replace(searched.rules, symmetry=False))):
        part = Segment(either, low, high, 0, ENDLESS)
        part.run(STATES)
        whole = [*order[:first], *part.moves, *order[end:]]
        peaks.append(int(searched.follow(whole)[1][first:end].max()))
    if peaks[0] != peaks[1]:
        yield f"steps {first} to {end}: {peaks[0]}, without the rule {peaks[1]}"
