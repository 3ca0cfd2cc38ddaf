"""By how much a time limit is passed on large graphs, and for how long nobody looks at the clock.

    python -m experiments.reach anytime [--ops 20000 100000] [--limit 2 5] [--shape star]

Each graph has a process of its own. Kernels are compiled before; loading them is part of the time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence

from experiments.reach.ladder import most_kibibytes
from experiments.reach.shapes import SHAPES
from experiments.reach.watch import watched
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve

HEAD = ("shape", "ops", "limit", "seconds", "over", "silence", "gap", "MiB", "stopped", "where")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="experiments.reach anytime", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--ops", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--limit", type=float, nargs="+", default=[2.0, 5.0])
    parser.add_argument("--shape", choices=SHAPES, nargs="+", default=list(SHAPES))
    parser.add_argument("--one", action="store_true", help="in this process, as JSON")
    args = parser.parse_args(argv)
    if args.one:
        print(json.dumps(measure(args.shape[0], args.ops[0], args.limit[0])))
        return 0
    print(line(HEAD), flush=True)
    for shape in args.shape:
        for ops in args.ops:
            for limit in args.limit:
                print(line(row(shape, ops, limit)), flush=True)
    return 0


def row(shape: str, ops: int, limit: float) -> tuple[object, ...]:
    """Measure one graph in a process of its own."""
    command = [sys.executable, "-m", "experiments.reach", "anytime", "--one", "--shape", shape]
    command += ["--ops", str(ops), "--limit", str(limit)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        return (shape, ops, limit, done.stderr.strip().splitlines()[-1])
    found = json.loads(done.stdout)
    return tuple(found[key] for key in HEAD)


def measure(shape: str, ops: int, limit: float) -> dict[str, object]:
    """Solve one graph within a limit; all times are the processor's."""
    graph = SHAPES[shape](ops)
    started = time.process_time()
    with watched() as watch:
        result = solve(graph, limits=Limits(seconds=limit))
    spent = time.process_time() - started
    slab = result.slab or 0
    return {
        "shape": shape,
        "ops": len(graph.ops),
        "limit": limit,
        "seconds": round(spent, 2),
        "over": round(max(0.0, spent - limit), 2),
        "silence": round(watch.silence, 2),
        "gap": f"{100 * (slab - result.slab_bound) / max(1, slab):.2f} %",
        "MiB": most_kibibytes() // 1024,
        "stopped": str(result.stop_reason),
        "where": watch.place,
    }


def line(cells: tuple[object, ...]) -> str:
    """One line of the table."""
    widths = (11, 8, 6, 8, 7, 8, 9, 7, 12, 0)
    return "  ".join(
        str(cell).ljust(width) if i in (0, 8, 9) else str(cell).rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=False))
    )
