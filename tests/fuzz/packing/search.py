"""Exactness of the packing engine on random problems whose least slab exceeds the load.

    python -m tests.fuzz packing.search --count 260 --seed 1 [--windows | --sharing]

Question: does the engine, with random rules switched off, return the least slab that CP-SAT proves?
Eight kinds of problems (alignment, pins, gaps and their mixtures); of each kind, problems are drawn
until `--above` of them need more than the load. A packing at the load proves itself and is only
checked for overlaps. With `--windows` the kinds are the four in which gaps leave a window of the
buffer, with `--sharing` those with pairs kept apart or groups that share an offset; brute
force tries every offset of at most `--tiny` buffers. A search with random node limits
runs beside: where it answers, the answer must agree. Then rectangles cut up by guillotine and
pinwheel are put together again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from optsched.check.packing import check_packing
from optsched.model.packing_problem import PackingProblem
from optsched.model.selection import select
from optsched.packing import PackingEffort, Rules, solve_packing
from optsched.packing.components import make_components
from optsched.packing.engine import PackingEngine
from optsched.packing.kernels.branch import SECTION_RULES
from optsched.packing.kernels.search import EXHAUSTED, SOLVED
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support import brute
from tests.support.packing_instances import cut, cut_windows, random_problem
from tests.support.packing_oracle import least_slab

KINDS = ("", "a", "p", "g", "ap", "ag", "pg", "apg")
WINDOW_KINDS = ("w", "aw", "pw", "apw")
SHARING_KINDS = ("k", "s", "ks", "ak", "gk", "wk", "as", "ws", "apgwks")
NAMES = {
    "a": "alignment", "p": "pins", "g": "gaps", "w": "windows", "k": "pairs", "s": "groups",
}  # fmt: skip
HEAD = (
    "kind", "drawn", "above load", "above bound", "compared", "brute force", "open", "oracle open",
    "mismatches", "seconds",
)  # fmt: skip
TINY_BYTES = 24
"""Brute force tries every offset in slabs up to this size."""


@dataclass(frozen=True)
class Settings:
    """Problems above the load per kind, and limits: seconds, buffers, buffers for brute force."""

    above: int
    seed: int
    seconds: float = 20.0
    buffers: tuple[int, int] = (9, 13)
    tiny: int = 6


def main(
    count: int = 260,
    seed: int = 1,
    *,
    seconds: float = 20.0,
    windows: bool = False,
    sharing: bool = False,
) -> int:
    """Compare `count` problems above the load of each kind: windows in gaps, pairs or groups."""
    settings = Settings(count, seed, seconds)
    print("  ".join(f"{title:>11}" for title in HEAD))
    mismatches = 0
    total = 0
    kinds = WINDOW_KINDS if windows else KINDS
    kinds = SHARING_KINDS if sharing else kinds
    for number, kind in enumerate(kinds):
        row = run_kind(kind, number, settings)
        mismatches += row["mismatches"]
        total += row["compared"]
        label = " ".join(NAMES[letter] for letter in kind) or "plain"
        print("  ".join(f"{value:>11}" for value in (label, *row.values())), flush=True)
    wrong = run_cuts(seed, cut_windows if windows else cut)
    print(
        f"{total} compared above the load, {mismatches} mismatches; cut rectangles wrong: {wrong}"
    )
    return 1 if mismatches or wrong else 0


def run_kind(kind: str, number: int, settings: Settings) -> dict[str, int]:
    """Draw problems of a kind until enough need more than the load."""
    started = time.perf_counter()
    titles = ("drawn", "above", "searched", "compared", "brute", "open", "oracle open")
    row = dict.fromkeys((*titles, "mismatches"), 0)
    low, high = settings.buffers
    while row["above"] < settings.above:
        random = np.random.default_rng([settings.seed, number, row["drawn"]])
        row["drawn"] += 1
        plain = not set(kind) & set("apw")
        buffers = high if plain else int(random.integers(low, high + 1))
        problem = random_problem(random, kind, buffers)
        # Without any valid packing there is nothing to compare.
        if problem.joined.problem.clashing_pins() is not None:
            continue
        rules = Rules(
            **{x.name: bool(random.random() < 0.75) for x in fields(Rules)}
            if random.random() < 0.5
            else {}
        )
        limits = Limits(seconds=settings.seconds, seed=row["drawn"])
        outcome = solve_packing(problem, limits=limits, rules=rules)
        if outcome.offsets is None or outcome.slab is None:
            row["mismatches"] += 1
            continue
        check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)
        # A packing at the load is its own proof.
        if outcome.slab == problem.max_load:
            continue
        row["above"] += 1
        given, problem = problem, problem.joined.problem
        bounds = [component.bound for component in make_components(problem, rules)]
        bounds.append(problem.slab_size(np.maximum(0, problem.pin)))
        row["searched"] += outcome.slab > max(bounds)
        row["open"] += outcome.slab != outcome.bound
        try:
            least = least_slab(given, settings.seconds)
        except TimeoutError:
            # The oracle gave up: counted apart, as such a problem shows nothing.
            row["oracle open"] += 1
            continue
        row["compared"] += 1
        wrong = least is None or not outcome.bound <= least <= outcome.slab
        is_odd = given.gaps or given.must_share or len(given.keep_apart)
        if is_odd and len(given) <= settings.tiny and outcome.slab <= TINY_BYTES:
            row["brute"] += 1
            # A second oracle, by trying all offsets, where that is possible.
            wrong |= brute.least_slab(given) != least
        if wrong or not limited_search_agrees(problem, int(least or 0), random):
            row["mismatches"] += 1
            print(f"mismatch: kind {kind!r}, {least}, {outcome}, {rules}, {problem}")
    return {**row, "seconds": round(time.perf_counter() - started)}


def limited_search_agrees(problem: PackingProblem, least: int, random: np.random.Generator) -> bool:
    """Return True if searches with few nodes do not contradict the least slab."""
    for component in make_components(problem, Rules(components=False)):
        never_there = np.setdiff1d(np.arange(len(problem)), component.ids)
        alone = select(problem, never_there)
        # A pinned buffer elsewhere decides the slab: this component may be anything below.
        if alone.slab_size(np.maximum(0, alone.pin)) >= least:
            return True
        engine = PackingEngine(component, Rules(), PackingEffort())
        for capacity in (least - 1, least, least + 1):
            rank = random.permutation(len(component))
            rule, limit = int(random.integers(SECTION_RULES)), int(random.integers(1, 400))
            answer = engine.decide(capacity, rank, rule, limit, Clock.of(Limits()))
            # Out of nodes is a fair answer; the wrong one of the other two is not.
            if answer == (SOLVED if capacity < least else EXHAUSTED):
                return False
    return True


def run_cuts(seed: int, cut: Callable[..., PackingProblem]) -> int:
    """Put rectangles together again; return how many failed or were not least."""
    wrong = 0
    for pieces in (10, 20, 30, 50, 80):
        for number in range(20):
            random = np.random.default_rng([seed, pieces, number])
            # The pieces fill the rectangle, so its height is the least slab, without any oracle.
            problem = cut(random, 3 * pieces, 40 * pieces, pieces)
            outcome = solve_packing(problem, limits=Limits(seconds=20))
            assert outcome.offsets is not None
            check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)
            if outcome.slab == outcome.bound == 40 * pieces:
                continue
            # With little of the processor, the limit may end a search: it is open, not wrong.
            is_open = outcome.stop_reason.is_limit and outcome.bound <= 40 * pieces
            wrong += not is_open
            found = f"{outcome.slab}, {outcome.bound}{', open' if is_open else ''}"
            print(f"cut into {pieces}, number {number}: {found}")
    return wrong
