"""Gain of packing the core first: `python -m experiments.packing_heuristics.core`.

Question: on traces where no packer of the portfolio meets the load, does
the exact engine, which packs large buffers first (`optsched.packing.capacity_search`)?
"""

from __future__ import annotations

import argparse
import time

from heuristics import PACKINGS
from heuristics.portfolio import packing_turn
from optsched.check.packing import check_packing
from optsched.model.packing_problem import PackingProblem
from optsched.packing import solve_packing
from optsched.runtime.limits import Limits
from tests.support.families.traces import training_trace

BUFFERS = (1000, 2000, 3000, 5000, 20000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=12, help="traces of each size and kind")
    parser.add_argument("--seconds", type=float, default=3.0, help="limit per trace")
    args = parser.parse_args()
    print("| trace | seed | portfolio % | core first % | by | s |")
    print("|---|---:|---:|---:|---|---:|")
    traces = 0
    for buffers in BUFFERS:
        for repeated in (True, False):
            for seed in range(args.seeds):
                traces += 1
                row = compare(training_trace(buffers, seed, repeated=repeated), args.seconds)
                if row is not None:
                    name = f"{'repeated' if repeated else 'scattered'}_{buffers}"
                    print(f"| {name} | {seed} | {row}", flush=True)
    print(f"\n{traces} traces; on those not listed the portfolio meets the load.")


def compare(problem: PackingProblem, seconds: float) -> str | None:
    """Return the rest of a row; None where the portfolio meets the load."""
    load, best = problem.max_load, None
    for name in packing_turn(len(problem)):
        slab = load if best == load else problem.slab_size(PACKINGS[name](problem))
        best = slab if best is None else min(best, slab)
    if best is None or best == load:
        return None
    started = time.process_time()
    sources = ["-"]
    outcome = solve_packing(
        problem,
        limits=Limits(seconds=seconds),
        on_event=lambda event: sources.append(event.source),
    )
    assert outcome.offsets is not None
    excess = 100 * (check_packing(problem, outcome.offsets.tolist()) / load - 1)
    spent = time.process_time() - started
    return f"{100 * (best / load - 1):.4f} | {excess:.4f} | {sources[-1]} | {spent:.2f} |"


if __name__ == "__main__":
    main()
