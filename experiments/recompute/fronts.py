"""Fronts of the joint graphs against PyTorch's activation memory budgets.

    python -m experiments.recompute.fronts FOLDER [NETWORK ..] [--seconds S] [--cost MODEL]

FOLDER holds what `experiments.recompute.graphs` wrote. Each line has a budget: a peak that PyTorch
reaches, or a part of the least peak without repeats. Extra compute and bounds are in % of a step.
Seconds and limits are processor time (:mod:`experiments.recompute.processor`).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from experiments.recompute.processor import limit_by_processor
from optsched.certificate.recompute import certify_recompute
from optsched.check.runs import check_runs
from optsched.errors import PlanError
from optsched.formats import read_graph
from optsched.formats.costs import with_costs
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.master import Branches, Master, Relaxed
from optsched.solver.recompute.solve import Planner

PARTS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


def study(folder: Path, name: str, seconds: float, cost: str) -> None:
    """Print the front of one network."""
    graph = with_costs(read_graph(folder / f"{name}.json.gz"), cost)
    planner = Planner(graph)
    least = planner.find_base(Clock.of(Limits(seconds=10))).peak
    rows: list[tuple[int, str, int | None]] = [(int(p * least), f"{p} P0", None) for p in PARTS]
    for budget, names in json.loads((folder / f"{name}.torch.json").read_text()).items():
        try:
            own = check_runs(planner.problem.graph, [graph.op_ids[x] for x in names])
        except (PlanError, KeyError):
            continue
        rows.append((own.peak, f"torch {budget}", own.extra))
    print(f"{name}: {len(graph.ops)} ops, least peak without repeats {least:,} bytes")
    share = 100 / max(1, planner.problem.total)
    lost = watch_rounding()
    print("| budget | MB | PyTorch | optsched | bound | proof | seconds |", flush=True)
    print("|---|--:|--:|--:|--:|---|--:|")
    for peak, label, torch_cost in sorted(rows, reverse=True):
        start = time.process_time()
        result = planner.plan(peak, Clock.of(Limits(seconds=seconds)))
        spent = time.process_time() - start
        certify_recompute(result)
        shown = [
            "-" if x is None else f"{share * x:.3f}"
            for x in (torch_cost, result.extra, result.bound)
        ]
        row = (label, f"{peak / 1e6:.2f}", *shown, result.status, f"{spent:.1f}")
        print(f"| {' | '.join(row)} |", flush=True)
    print(f"\nbounds lose at most {100 * max(lost, default=0.0):.4f} % by rounding multipliers\n")


def watch_rounding() -> list[float]:
    """Collect by how much bounds in integers are below those of the solver's linear programs."""
    relax, lost = Master.relax, list[float]()

    def watched(master: Master, seconds: float, branches: Branches = ()) -> Relaxed | None:
        found = relax(master, seconds, branches)
        if found is not None and len(found.values) and master._linear.cost > 0:
            lost.append(1 - found.bound / master._linear.cost)
        return found

    setattr(Master, "relax", watched)  # noqa: B010
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--cost", default="roofline")
    args = parser.parse_args()
    limit_by_processor()
    found = sorted(x.name.removesuffix(".json.gz") for x in args.folder.glob("*.json.gz"))
    for name in args.networks or found:
        study(args.folder, name, args.seconds, args.cost)


if __name__ == "__main__":
    main()
