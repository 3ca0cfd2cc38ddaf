"""Exactness of the packing engine on random problems whose least slab exceeds the load.

    python -m experiments.packing_exactness [--above 260] [--buffers 9 13] [--seed 1]

Question: does the engine, with random rules switched off, return the least slab that CP-SAT
proves? Eight kinds of problems (alignment, pins, gaps and their mixtures); of each kind, problems
are drawn until `--above` of them need more than the load. A packing at the load proves itself and
is only checked for overlaps. A search with random node limits runs beside: where it answers, the
answer must agree. Then rectangles cut up by guillotine and pinwheel are put together again.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import fields

import numpy as np

from optsched.check import check_packing
from optsched.packing import Rules, solve_packing
from optsched.packing.engine import Engine
from optsched.packing.kernels.search import EXHAUSTED, SOLVED
from optsched.packing.pieces import make_pieces
from optsched.problem import PackingProblem
from optsched.result import Limits
from tests.packing.instances import cut, random_problem
from tests.packing.oracle import least_slab

KINDS = ("", "a", "p", "g", "ap", "ag", "pg", "apg")
NAMES = {"a": "alignment", "p": "pins", "g": "gaps"}
HEAD = ("kind", "drawn", "above load", "compared", "open", "oracle open", "mismatches", "seconds")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--above", type=int, default=260, help="problems above the load per kind")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit per problem")
    parser.add_argument("--buffers", type=int, nargs=2, default=(9, 13), metavar=("LOW", "HIGH"))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print("  ".join(f"{title:>11}" for title in HEAD))
    mismatches = 0
    total = 0
    for number, kind in enumerate(KINDS):
        row = run_kind(kind, number, arguments)
        mismatches += row["mismatches"]
        total += row["compared"]
        label = " ".join(NAMES[letter] for letter in kind) or "plain"
        print("  ".join(f"{value:>11}" for value in (label, *row.values())), flush=True)
    wrong = run_cuts(arguments.seed)
    print(
        f"{total} compared above the load, {mismatches} mismatches; cut rectangles wrong: {wrong}"
    )
    return 1 if mismatches or wrong else 0


def run_kind(kind: str, number: int, arguments: argparse.Namespace) -> dict[str, int]:
    """Draw problems of a kind until enough need more than the load."""
    started = time.perf_counter()
    row = dict.fromkeys(("drawn", "above", "compared", "open", "oracle open", "mismatches"), 0)
    low, high = arguments.buffers
    while row["above"] < arguments.above:
        random = np.random.default_rng([arguments.seed, number, row["drawn"]])
        row["drawn"] += 1
        plain = not set(kind) & set("ap")
        buffers = high if plain else int(random.integers(low, high + 1))
        problem = random_problem(random, kind, buffers)
        rules = Rules(
            **{x.name: bool(random.random() < 0.75) for x in fields(Rules)}
            if random.random() < 0.5
            else {}
        )
        limits = Limits(seconds=arguments.seconds, seed=row["drawn"])
        outcome = solve_packing(problem, limits=limits, rules=rules)
        if outcome.offsets is None or outcome.slab is None:
            row["mismatches"] += 1
            continue
        check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)
        if outcome.slab == problem.max_load:
            continue
        row["above"] += 1
        row["open"] += outcome.slab != outcome.bound
        try:
            least = least_slab(problem, arguments.seconds)
        except TimeoutError:
            row["oracle open"] += 1
            continue
        row["compared"] += 1
        wrong = least is None or not outcome.bound <= least <= outcome.slab
        if wrong or not limited_search_agrees(problem, int(least or 0), random):
            row["mismatches"] += 1
            print(f"mismatch: kind {kind!r}, {least}, {outcome}, {rules}, {problem}")
    return {**row, "seconds": round(time.perf_counter() - started)}


def limited_search_agrees(problem: PackingProblem, least: int, random: np.random.Generator) -> bool:
    """Whether searches with few nodes never contradict the least slab."""
    pieces = list(make_pieces(problem, Rules(pieces=False)))
    for piece in pieces:
        engine = Engine(piece, Rules())
        for capacity in (least - 1, least, least + 1):
            rank = random.permutation(len(piece))
            rule, limit = int(random.integers(8)), int(random.integers(1, 400))
            answer = engine.decide(capacity, rank, rule, limit, lambda: True)
            if answer == (SOLVED if capacity < least else EXHAUSTED):
                return False
    return True


def run_cuts(seed: int) -> int:
    """Put rectangles together again; return how many failed or were not least."""
    wrong = 0
    for pieces in (10, 20, 30, 50, 80):
        for number in range(20):
            random = np.random.default_rng([seed, pieces, number])
            problem = cut(random, 3 * pieces, 40 * pieces, pieces)
            outcome = solve_packing(problem, limits=Limits(seconds=20))
            assert outcome.offsets is not None
            check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)
            wrong += outcome.slab != 40 * pieces or outcome.bound != 40 * pieces
    return wrong


if __name__ == "__main__":
    sys.exit(main())
