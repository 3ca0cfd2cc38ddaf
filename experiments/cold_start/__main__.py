"""How long commands take with an empty cache of compiled code, and with a full one.

    python -m experiments.cold_start [--runs 3] [--write]

Every run is a process of its own; the median is shown. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from experiments.tables import markdown, replace_table
from optsched.formats import write_graph
from tests.support.families.wiring import training

CACHES = ("empty", "left by that run", "full")
SETTLED_SECONDS = 3.0
"""Longer than the process takes between two kernels."""
HEAD = ("command", "cache", "seconds", "seconds of the processor", "kernels")
LAYERS = (8, 1_400)
"""Of a training step that no kernel is worth compiling for, and of one of 5,000 ops."""
REAL = (
    *("resnet50_bs32.infer", "resnet50_bs32.bwd"),
    *("albert_qa_bs4_ac0.5_cuda.bwd", "mobilebert_qa_bs128.bwd"),
)
"""Graphs of `instances/inductor`: one that is easy, two that are searched, a large one."""
INSTANCES = Path(__file__).parents[2] / "instances" / "inductor"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="of each command")
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = markdown(HEAD, measure(Path(folder), args.runs))
    print(table, end="")
    if args.write:
        replace_table(Path(__file__).with_name("README.md"), "cold_start", table)
    return 0


def measure(folder: Path, runs: int) -> list[tuple[str, ...]]:
    """Measure all commands; graphs and caches are put into a folder."""
    commands = {"warmup": ("warmup",)}
    for layers in LAYERS:
        graph = training(layers, 1)
        write_graph(graph, folder / f"{layers}.json")
        commands[f"solve, {len(graph.ops):,} ops"] = ("solve", str(folder / f"{layers}.json"))
    for name in REAL:
        commands[f"solve, {name}"] = ("solve", str(INSTANCES / f"{name}.json.gz"))
    rows = []
    for name, command in commands.items():
        caches = [folder / f"{len(rows)}_{turn}" for turn in range(runs)]
        for cache in CACHES[: 1 if command == ("warmup",) else 2]:
            rows.append((name, cache, *measure_command(command, caches)))
    full = [folder / "full"] * runs
    run(commands["warmup"], full[0])
    rows += [
        (name, CACHES[2], *measure_command(command, full)) for name, command in commands.items()
    ]
    return rows


def measure_command(command: tuple[str, ...], caches: list[Path]) -> tuple[str, str, str]:
    """Return medians of seconds, and how many kernels a cache then has."""
    seen = []
    for cache in caches:
        seen.append(run(command, cache))
        settle(cache)
    wall, processor = (statistics.median(column) for column in zip(*seen, strict=True))
    return f"{wall:.2f}", f"{processor:.2f}", str(len(kept(caches[-1])))


def settle(cache: Path) -> None:
    """Wait until no kernel has come for some seconds: another process compiles them."""
    before = None
    while before != (before := kept(cache)) or any(map(is_locked, cache.rglob("*.lock"))):
        time.sleep(SETTLED_SECONDS)


def is_locked(file: Path) -> bool:
    """Whether a process is compiling; the file alone may be left of one that was ended."""
    try:
        with file.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def kept(cache: Path) -> list[Path]:
    """Return the kernels of a cache."""
    return sorted(path for path in cache.rglob("*") if path.suffix != ".lock" and path.is_file())


def run(command: tuple[str, ...], cache: Path) -> tuple[float, float]:
    """Seconds of the wall clock and, with processes that it waits for, of the processor."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        (sys.executable, "-m", "optsched", *command),
        check=False,  # a graph that stays open ends with a code of its own
        capture_output=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
