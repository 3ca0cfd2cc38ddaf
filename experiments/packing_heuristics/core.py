"""What core and fill adds to the portfolio: `python -m experiments.packing_heuristics.core`.

Question: on traces where no packer of the portfolio meets the load, does
`optsched.solver.core_first`?
"""

from __future__ import annotations

import argparse
import time

from heuristics import PACKINGS
from heuristics.portfolio import packing_turn
from optsched.check.plan import check_packing
from optsched.model.packing_problem import PackingProblem
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.core_first import core_packings
from tests.support.families.traces import training_trace

BUFFERS = (1000, 2000, 3000, 5000, 20000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=12, help="traces of each size and kind")
    parser.add_argument("--seconds", type=float, default=3.0, help="limit per trace")
    args = parser.parse_args()
    print("| trace | seed | portfolio % | core and fill % | by | s |")
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
    found = []
    for name, offsets in core_packings(problem, load, Clock.of(Limits(seconds=seconds))):
        found.append((check_packing(problem, offsets.tolist()), name))
        if found[-1][0] == load:
            break
    least, by = min(found, default=(0, "no core packs"))
    excess = f"{100 * (least / load - 1):.4f}" if found else "-"
    spent = time.process_time() - started
    return f"{100 * (best / load - 1):.4f} | {excess} | {by} | {spent:.2f} |"


if __name__ == "__main__":
    main()
