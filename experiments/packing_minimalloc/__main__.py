"""MiniMalloc's eleven instances, and plans of real graphs in given orders.

    python -m experiments.packing_minimalloc DIR [--graphs DIR...] [--seeds 10] [--seconds 60]

DIR holds `NAME.CAPACITY.csv`. Three tables: seconds per seed to decide all instances at their
capacity in one process, imports included; the least slab of each with seconds per seed; and for
each graph, the best heuristic order packed into its own peak, beside greedy by size.
Kernels are compiled before anything is timed. Beside wall clock stands processor time, which says
more on a busy machine.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from optsched.check.packing import check_packing
from optsched.formats import read_packing
from optsched.model.packing_problem import PackingProblem
from optsched.packing import PackingOutcome, solve_packing
from optsched.runtime.limits import Limits

MODULE = "experiments.packing_minimalloc"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--graphs", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--least-seeds", type=int, default=3, help="seeds of the second table")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit per problem")
    parser.add_argument("--decide", type=int, metavar="SEED", help="decide all once, print times")
    arguments = parser.parse_args()
    files = sorted(path for path in arguments.folder.glob("*.csv") if capacity_of(path) > 10_000)
    if arguments.decide is not None:
        return decide(files, arguments.decide, arguments.seconds)
    warm_up(files)
    if arguments.seeds:
        print_decisions(arguments.folder, arguments.seeds)
    if arguments.least_seeds:
        print_least_slabs(files, arguments.least_seeds, arguments.seconds)
    for folder in arguments.graphs:
        print_graphs(folder, arguments.seconds)
    return 0


def capacity_of(path: Path) -> int:
    """Return the capacity that a file's name gives."""
    return int(path.name.split(".")[1])


def checked(problem: PackingProblem, outcome: PackingOutcome) -> int:
    """Check an outcome's packing and return its slab."""
    assert outcome.offsets is not None
    return check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)


def warm_up(files: Sequence[Path]) -> None:
    """Compile every kernel, or load it from the cache."""
    started = time.perf_counter()
    problem = read_packing(files[0]).problem
    solve_packing(problem, limits=Limits(seconds=600), capacity=capacity_of(files[0]))
    seconds = time.perf_counter() - started
    print(f"first decision, search compiled or loaded: {seconds:.1f} s")
    started = time.perf_counter()
    hard = next(path for path in files if path.name.startswith("D"))
    solve_packing(read_packing(hard).problem, limits=Limits(seconds=600))
    print(f"first least slab of D, beam compiled or loaded: {time.perf_counter() - started:.1f} s")


def decide(files: Sequence[Path], seed: int, seconds: float) -> int:
    """Decide every instance at its capacity and print the milliseconds of each."""
    cells = []
    for path in files:
        problem = read_packing(path).problem
        started = time.perf_counter()
        outcome = solve_packing(
            problem, limits=Limits(seconds=seconds, seed=seed), capacity=capacity_of(path)
        )
        cells.append(f"{1000 * (time.perf_counter() - started):6.0f}")
        if checked(problem, outcome) > capacity_of(path):
            return 1
    print(" ".join(cells))
    return 0


def print_decisions(folder: Path, seeds: int) -> None:
    """Time one process per seed."""
    print("\nDecided at their capacities: seed, seconds, processor seconds, milliseconds of each")
    totals = []
    for seed in range(seeds):
        started, used = time.perf_counter(), children_seconds()
        run = subprocess.run(
            [sys.executable, "-m", MODULE, str(folder), "--decide", str(seed)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        totals.append(time.perf_counter() - started)
        used = children_seconds() - used
        print(f"{seed:4} {totals[-1]:7.2f} {used:7.2f}   {run.stdout.strip()}", flush=True)
    print(f"median {statistics.median(totals):.2f} s, most {max(totals):.2f} s")


def children_seconds() -> float:
    """Return the processor time of processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def print_least_slabs(files: Sequence[Path], seeds: int, seconds: float) -> None:
    """Prove the least slabs."""
    print("\nLeast slabs: instance, buffers, slab, bound, proof, seconds/processor seconds by seed")
    sums = [0.0] * seeds
    for path in files:
        problem = read_packing(path).problem
        cells = []
        for seed in range(seeds):
            started, used = time.perf_counter(), time.process_time()
            outcome = solve_packing(problem, limits=Limits(seconds=seconds, seed=seed))
            wall, used = time.perf_counter() - started, time.process_time() - used
            sums[seed] += wall
            cells.append(f"{wall:7.3f}/{used:.3f}")
            if outcome.slab != outcome.bound:
                cells[-1] += f" (open at {outcome.slab})"
            checked(problem, outcome)
        line = f"{path.name[0]:>4} {len(problem):5} {outcome.slab:9} {outcome.bound:9}"
        print(f"{line} {outcome.proof} {' '.join(cells)}", flush=True)
    print("sums " + " ".join(f"{total:.1f}" for total in sums))


def print_graphs(folder: Path, seconds: float) -> None:
    """Pack the best heuristic order of each graph of a folder."""
    from heuristics import ORDERINGS, PACKINGS
    from optsched.formats import read_graph
    from optsched.model.liveness import peak_memory
    from optsched.model.packing_problem import packing_problem

    print(f"\n{folder.name}: graph, buffers, peak, slab, proof, greedy by size, seconds, nodes")
    times = []
    for path in sorted(folder.glob("*.json*")):
        graph = read_graph(path)
        orders = [make(graph, 0) for name, make in ORDERINGS.items() if "random" not in name]
        order = min(orders, key=lambda found: peak_memory(graph, found))
        problem, _ = packing_problem(graph, np.asarray(order))
        started = time.perf_counter()
        outcome = solve_packing(problem, limits=Limits(seconds=seconds))
        times.append(time.perf_counter() - started)
        slab = checked(problem, outcome)
        greedy = problem.slab_size(PACKINGS["greedy_by_size"](problem)) / problem.max_load - 1
        print(
            f"{path.name.split('.json')[0]:36} {len(problem):5} {problem.max_load:12} {slab:12} "
            f"{outcome.proof or '--'} {greedy:7.2%} {times[-1]:8.3f} "
            f"{outcome.statistics['nodes']:7}",
            flush=True,
        )
    print(f"median {statistics.median(times):.4f} s, most {max(times):.2f} s, {len(times)} graphs")


if __name__ == "__main__":
    sys.exit(main())
