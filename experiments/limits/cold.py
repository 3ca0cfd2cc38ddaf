"""Loss of a first run: plans on a machine without compiled kernels, and on one that has them.

    python -m experiments.limits.cold [--limit 3] [--graph grid3000]

A solve with an empty folder for kernels is compared with the heuristics and with the same solve
that find their kernels on disk. Each runs in a process of its own; times are the processor's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import optsched
from experiments.limits.shapes import SHAPES
from experiments.limits.watch import watched
from optsched.model.graph import Graph

INSTANCES = Path(__file__).resolve().parents[2] / "instances"
GENERATED = {
    "random1000": ("random", 1_000),
    "transformer1000": ("transformer", 1_000),
    "narrow3000": ("narrow", 3_000),
    "grid3000": ("grid", 3_000),
    "random3000": ("random", 3_000),
    "training5600": ("training", 5_600),
    "layers8000": ("layers", 8_000),
    "fan10000": ("fan", 10_000),
}
"""Shape and ops by name."""
CAPTURED = (
    "inductor/googlenet_bs64.bwd.json.gz",
    "inductor/t5_small_bs4.bwd.json.gz",
    "inductor/mobilebert_qa_bs128.fwd.json.gz",
    "inductor/debertav2_qa_bs1.bwd.json.gz",
    "inductor/mobilebert_qa_bs128_ac0.5.bwd.json.gz",
    "searched/nasnet_ac0.3_cuda.bwd.json.gz",
    "searched/debertav2_default_qa_bs1_cuda.bwd.json.gz",
)
"""Files of :data:`INSTANCES`."""
HEAD = ("graph", "heuristics", "cold", "warm", "first plan s", "cold s", "not counted s", "warm s")


class Answer(NamedTuple):
    """Answer of a process."""

    slab: int
    first: float
    """Seconds until the first plan."""
    seconds: float
    compile_seconds: float
    """Part of the seconds that no limit counts."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="experiments.limits.cold")
    parser.add_argument("--limit", type=float, default=3.0)
    parser.add_argument("--graph", choices=[*GENERATED, *CAPTURED], nargs="+")
    parser.add_argument("--engine", default="auto", help="of --one")
    parser.add_argument("--one", action="store_true", help="in this process, as JSON")
    args = parser.parse_args(argv)
    names = args.graph or [*GENERATED, *CAPTURED]
    if args.one:
        print(json.dumps(solved(made(names[0]), args.limit, args.engine)))
        return 0
    print("\t".join(HEAD), flush=True)
    worse = 0
    for name in names:
        heuristics, cold, warm = compared(name, args.limit)
        worse += cold.slab > heuristics.slab
        row = (heuristics.slab, cold.slab, warm.slab)
        times = (cold.first, cold.seconds, cold.compile_seconds, warm.seconds)
        print("\t".join(map(str, (name, *row, *(round(x, 1) for x in times)))), flush=True)
    print(f"{worse} worse than the heuristics")
    return int(worse > 0)


def compared(name: str, limit: float) -> tuple[Answer, Answer, Answer]:
    """Return what the heuristics, the first run and a later run find within a limit."""
    asked("heuristics", name, limit)  # what it has to compile is on disk afterwards
    with tempfile.TemporaryDirectory() as folder:
        cold = asked("auto", name, limit, NUMBA_CACHE_DIR=folder)
    return asked("heuristics", name, limit), cold, asked("auto", name, limit)


def asked(engine: str, name: str, limit: float, **environment: str) -> Answer:
    """Run one process."""
    command = [sys.executable, "-m", "experiments.limits.cold", "--one", "--graph", name]
    command += ["--limit", str(limit), "--engine", engine]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return Answer(*json.loads(done.stdout))


def solved(graph: Graph, limit: float, engine: str) -> tuple[Any, ...]:
    """Solve in this process."""
    began = time.process_time()
    with watched():
        result = optsched.solve(graph, time_limit=limit, engine=engine)
        spent = time.process_time() - began
    first = next(event.seconds for event in result.trace if event.incumbent is not None)
    return result.slab, first, spent, result.compile_seconds


def made(name: str) -> Graph:
    """Return a graph by its name."""
    if name in GENERATED:
        shape, ops = GENERATED[name]
        return SHAPES[shape](ops)
    return optsched.read_graph(INSTANCES / name)


if __name__ == "__main__":
    sys.exit(main())
