"""Costs of a fleet: `python -m experiments.fleet STUDY [options]`, see `main`."""

from __future__ import annotations

import argparse
import time
from collections import deque
from typing import Any

from experiments.fleet.kills import sleep_and_tell, with_loky, with_pool
from experiments.fleet.overhead import overhead
from experiments.fleet.recovery import recovery
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.engines import open_engine
from optsched.runtime.limits import Limits
from optsched.runtime.worker_pool import Tasks
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from tests.support.families.wiring import random_wiring

MOST_WORK = 3_000_000


def easy(args: argparse.Namespace) -> None:
    """Easy graphs, small ones and captured ones: solved bare, and tuned into a store by two."""
    overhead(args.graphs, args.ops, args.times)


def stop(args: argparse.Namespace) -> None:
    """Stop proofs and resume them; return the total work relative to undisturbed runs."""
    print("| graph | work | stopped at | resumed | most | restarted |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for number in range(args.first, args.first + args.graphs):
        graph = random_wiring(args.ops, number, unit=False)
        whole = [_prove(graph, MOST_WORK, seed)[1] for seed in range(args.seeds)]
        for share in (0.3, 0.6, 0.9):
            on, anew = [], 0
            for seed, work in enumerate(whole):
                found, before = _prove(graph, max(1, int(work * share)), seed)
                known = {"warm_start": found.plan, "progress": found.resume}
                on.append(before + _prove(graph, MOST_WORK, seed, **known)[1])
                anew += before + work
            most = max(work / alone for work, alone in zip(on, whole, strict=True))
            row = f"{sum(on) / sum(whole):.2f} | {most:.2f} | {anew / sum(whole):.2f}"
            print(f"| {graph.name} | {sum(whole):,} | {share:.0%} | {row} |", flush=True)


def _prove(graph: Graph, work: int, seed: int, **known: Any) -> tuple[Result, int]:
    """Search orders until the least peak is proved or the work is used up; return the work done."""
    clock = Clock.of(Limits(work=work, seed=seed))
    found = solve(graph, objective="peak", limits=clock, **known)
    return found, round(clock.now())


def go_on(args: argparse.Namespace) -> None:
    """Four units that resume each other, four that restart, and one of the same work."""
    print("| graph | | peak | slab | peak bound | seconds |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    units = [args.work * 4**number // 85 for number in range(4)]
    for seed in range(3, 3 + args.graphs):
        graph = random_wiring(args.ops, seed, unit=False)
        for what, run in (("one unit", at_once), ("resumed", on), ("restarted", anew)):
            started = time.process_time()
            found, bound = run(graph, units)
            seconds = f"{time.process_time() - started:.1f}"
            numbers = f"{found.peak:,} | {found.slab:,} | {bound:,} | {seconds}"
            print(f"| {graph.name} | {what} | {numbers} |")


def at_once(graph: Graph, units: list[int]) -> tuple[Result, int]:
    """Search once with all the work."""
    found = solve(graph, work=sum(units))
    return found, found.peak_bound


def on(graph: Graph, units: list[int]) -> tuple[Result, int]:
    """Search in units that resume each other."""
    found = solve(graph, work=units[0])
    for seed, work in enumerate(units[1:], 1):
        known = {"warm_start": found.plan, "progress": found.resume}
        found = solve(graph, work=work, seed=seed, **known)  # type: ignore[arg-type]
    return found, found.peak_bound


def anew(graph: Graph, units: list[int]) -> tuple[Result, int]:
    """Search in units that are independent."""
    found = [solve(graph, work=work, seed=seed) for seed, work in enumerate(units)]
    return min(found, key=lambda x: x.slab or 0), max(x.peak_bound for x in found)


def kill(args: argparse.Namespace) -> None:
    """Kill one of two workers half way through, with our pool and with loky."""
    print("| | tasks | done | lost | reported as lost |\n| --- | ---: | ---: | ---: | --- |")
    for name, run in (("worker pool", with_pool), ("joblib, loky", with_loky)):
        done, lost, reported = run(args.tasks, args.seconds)
        print(f"| {name} | {args.tasks} | {done} | {lost} | {reported} |")


def recover(args: argparse.Namespace) -> None:
    """Break a fleet in every way, and wait until it has its table again."""
    recovery(args.times, args.engine.split(","), args.graphs, 4)


def scaling(args: argparse.Namespace) -> None:
    """Units that sleep: seconds of sleep over workers times wall time."""
    count = args.jobs * args.rounds
    queue = deque([args.seconds] * args.jobs * 2)
    done: list[float] = []

    def take() -> float | None:
        return queue.popleft() if queue else None

    def lose(task: float, loss: object) -> float:
        return task

    with open_engine(args.engine, args.jobs, args.address) as engine:
        engine.run(Tasks(take, sleep_and_tell, lambda task, message: None, lose))
        queue.extend([args.seconds] * count)
        started = time.monotonic()
        used = time.process_time()
        engine.run(Tasks(take, sleep_and_tell, lambda task, message: done.append(message), lose))
        wall, used = time.monotonic() - started, time.process_time() - used
    share = count * args.seconds / (args.jobs * wall)
    numbers = f"{len(done)} | {wall:.2f} | {share:.0%} | {1000 * used / count:.2f}"
    print(f"| {args.engine} | {args.jobs} | {numbers} |")


def main() -> None:
    """Run one of the studies."""
    parser = argparse.ArgumentParser(description=__doc__)
    sub = parser.add_subparsers(required=True)
    for name, run in (
        ("overhead", easy),
        ("continue", go_on),
        ("stop", stop),
        ("kill", kill),
        ("recovery", recover),
        ("scaling", scaling),
    ):
        one = sub.add_parser(name, help=run.__doc__)
        one.set_defaults(run=run)
        one.add_argument("--graphs", type=int, default=3)
        one.add_argument("--first", type=int, default=3, help="graph of a study of stops")
        one.add_argument("--ops", type=int, default=30)
        one.add_argument("--work", type=int, default=60_000)
        one.add_argument("--tasks", type=int, default=8)
        one.add_argument("--seconds", type=float, default=1.0)
        one.add_argument("--jobs", type=int, default=2)
        one.add_argument("--seeds", type=int, default=3)
        one.add_argument("--times", type=int, default=3)
        one.add_argument("--rounds", type=int, default=10)
        one.add_argument("--engine", default="local", help="of recovery several, by commas")
        one.add_argument("--address")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
