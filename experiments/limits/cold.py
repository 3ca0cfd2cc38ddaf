"""Loss of a first run: plans on a machine without compiled kernels, and on one that has them.

    python -m experiments.limits.cold [--limit 3] [--graph grid3000]
    python -m experiments.limits.cold --command --limit 2 --graph random1000

A solve with an empty folder for kernels is compared with the heuristics and with the same solve
that find their kernels on disk. Each runs in a process of its own; times are the processor's.
With `--command` the first run is that of the command line: kernels are compiled in the background,
the limit holds, and seconds count from the start of the process.
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
NO_LIMIT = 60.0
"""Seconds that suffice for all heuristics."""
LATEST = 3.0
"""Seconds after which a command must have shown the heuristics' plan."""
HEAD = ("graph", "heuristics", "cold", "warm", "first plan s", "cold s", "not counted s", "warm s")


COMMAND_HEAD = (
    "graph",
    "heuristics",
    "cold",
    "first plan s",
    "heuristics' plan s",
    "end s",
    "warm",
    "warm s",
)


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
    parser.add_argument("--command", action="store_true", help="as the command line runs")
    args = parser.parse_args(argv)
    names = args.graph or [*GENERATED, *CAPTURED]
    if args.command:
        return commands(names, args.limit, in_this_process=args.one)
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


def commands(names: Sequence[str], limit: float, *, in_this_process: bool) -> int:
    """Run the command line on graphs; return 1 if one is late or above the heuristics."""
    if in_this_process:
        print(json.dumps(commanded(names[0], limit)))
        return 0
    print("\t".join(COMMAND_HEAD), flush=True)
    failed = 0
    for name in names:
        heuristics = asked("heuristics", name, NO_LIMIT)
        with tempfile.TemporaryDirectory() as folder:
            events, slab, end = command_events(name, limit, NUMBA_CACHE_DIR=folder)
        _, warm, warm_end = command_events(name, limit)
        reached = [seconds for seconds, value in events if value <= heuristics.slab]
        late = reached[0] if reached else float("nan")
        failed += not late < LATEST
        times = (round(x, 2) for x in (events[0][0], late, end))
        row = (name, heuristics.slab, slab, *times, warm, round(warm_end, 2))
        print("\t".join(map(str, row)), flush=True)
    return int(failed > 0)


def command_events(name: str, limit: float, **environment: str) -> Any:
    """Run one process; return when which slab was found, the last slab and the time of the end."""
    command = [sys.executable, "-m", "experiments.limits.cold", "--one", "--command"]
    command += ["--graph", name, "--limit", str(limit)]
    ran = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return json.loads(ran.stdout)


def commanded(name: str, limit: float) -> tuple[list[tuple[float, int]], int, float]:
    """Solve in this process as the command does; see :func:`command_events`."""
    from optsched.runtime.background import compiler
    from optsched.runtime.clock import Clock
    from optsched.runtime.limits import Event, Limits

    # Other processes of the machine take nothing of the limit.
    time.monotonic = time.perf_counter = time.process_time
    found: list[tuple[float, int]] = []

    def note(event: Event) -> None:
        if event.incumbent is not None:
            found.append((time.process_time(), event.incumbent))

    compiler.is_on = True
    result = optsched.solve(made(name), limits=Clock.watched(Limits(seconds=limit)), on_event=note)
    assert result.slab is not None
    return found, result.slab, time.process_time()


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
