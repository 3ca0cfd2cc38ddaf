"""A store's writer is killed at every single write.

A scenario makes a store and changes it: plans, better plans, bounds, a certificate, searches, a
batch, rules, garbage. A child process goes through it on a disk that fails at the n-th
write, truncation, sync or deletion, for every n: the child is killed before it, in the middle of
it, or told that the disk is full from there on. Then the store is verified; it must be in the state
after the last change that was acknowledged, or after the one that was under way; and whoever goes
on from there must end where an undisturbed run ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from optsched import certify
from optsched.errors import OptschedError
from optsched.model.question import Question
from optsched.runtime.limits import Objective
from optsched.solver.resume import Resume
from optsched.store import PlanStore, collect_garbage, read_rule, revoke, verify
from tests.store.test_database import best, diamond, wasteful
from tests.support.failing_disk import FailingDisk, install

HOWS = ("kill", "tear", "full")

Step = Callable[[PlanStore], object]
State = list[tuple[object, ...]]


def scenario() -> list[Step]:
    """Return changes of a store; each is whole or not at all, and may be made again."""
    graphs = [diamond(size) for size in (1, 2, 3)]
    plans = [best(graph) for graph in graphs]
    poor = wasteful(graphs[0])
    certificate = certify(graphs[0], time_limit=10).certificate

    def batch(store: PlanStore) -> None:
        with store.batch() as all_at_once:
            for graph, plan in zip(graphs, plans, strict=True):
                all_at_once.put(Question(graph, objective=Objective.PEAK), plan)

    return [
        lambda store: store.put(graphs[0], poor),
        lambda store: store.put(graphs[0], plans[0], bound=5, proof="L3"),
        lambda store: store.put_bound(graphs[1], 3, "L2"),
        lambda store: store.put_certificate(graphs[0], certificate),
        lambda store: store.put_search(graphs[1], Resume(1, orders=(plans[1].order,))),
        batch,
        lambda store: revoke(store, read_rule("optsched>=0:L2")),
        collect_garbage,
    ]


def state_of(store: PlanStore) -> State:
    """Return what a store says, but for times and numbers of rows."""
    return [
        (
            *(r.key, f"{r.objective} {r.capacity}", r.peak, r.slab, r.search_bytes > 0),
            *sorted((b.quantity, b.value, b.proof, b.certified, b.withdrawn) for b in r.bounds),
        )
        for r in store.records()
    ]


def run(folder: Path, steps: Sequence[Step], disk: FailingDisk | None) -> tuple[int, int]:
    """Go through the steps in a child process; return how many were acknowledged, and its status.

    The status is that of the system; 0 after the last step. A full disk ends the child with 3.
    """
    reading, writing = os.pipe()
    # A process of its own, as the test kills it.
    child = os.fork()
    if not child:
        os.close(reading)
        code = 1
        try:
            if disk is not None:
                install(disk)
            store = PlanStore(folder / "plans.db")
            for step in steps:
                step(store)
                # Acknowledged: from here on the change must survive anything.
                os.write(writing, b".")
            if disk is not None:
                os.write(writing, b" " + str(disk.count).encode())
            code = 0
        except OptschedError:
            code = 3
        finally:
            # No clean-up: a killed process has none.
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    acknowledged, _, count = said.partition(b" ")
    return (int(count) if count and disk and disk.fail_at is None else len(acknowledged)), status


def begin(folder: Path) -> None:
    """Make a folder empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def expected(folder: Path, steps: Sequence[Step]) -> list[State]:
    """Return the states of an undisturbed run, before the first step and after each."""
    begin(folder)
    store = PlanStore(folder / "plans.db")
    states = [state_of(store)]
    for step in steps:
        step(store)
        states.append(state_of(store))
    return states


def crash(folder: Path, steps: Sequence[Step], states: Sequence[State], disk: FailingDisk) -> str:
    """Let one run fail; return the faults found afterwards, or an empty text."""
    begin(folder)
    done, status = run(folder, steps, disk)
    wanted = {"kill": signal.SIGKILL, "tear": signal.SIGKILL, "full": 3 << 8}[disk.how]
    if status not in (wanted, 0):
        return f"the child ended with {status}"
    store = PlanStore(folder / "plans.db")
    if troubles := verify(store):
        return f"after {done} steps: {troubles[0]}"
    # The change under way may be whole or missing, but not half.
    allowed = states[done : done + 2]
    if state_of(store) not in allowed:
        return f"after {done} steps: {state_of(store)} is none of {allowed}"
    # Steps may be made again, so it does not matter whether the last one was whole.
    for step in steps[done:]:
        step(store)
    if state_of(store) != states[-1]:
        return f"after {done} steps, and the rest: {state_of(store)} is not {states[-1]}"
    return "; ".join(verify(store))


def points(folder: Path, steps: Sequence[Step]) -> int:
    """Return how many writes, truncations, syncs and deletions an undisturbed run makes."""
    begin(folder)
    return run(folder, steps, FailingDisk())[0]


def fuzz(chosen: Callable[[int, str], Iterable[int]]) -> tuple[int, list[str]]:
    """Let runs fail at the points that are chosen of all; return how many, and what went wrong."""
    count, wrong = 0, []
    with tempfile.TemporaryDirectory() as place:
        folder, steps = Path(place, "store"), scenario()
        states = expected(folder, steps)
        total = points(folder, steps)
        for how in HOWS:
            for at in chosen(total, how):
                count += 1
                trouble = crash(folder, steps, states, FailingDisk(at, how))
                if trouble:
                    wrong.append(f"{how} at {at} of {total}: {trouble}")
    return count, wrong


def some_points(total: int, count: int, seed: int) -> range:
    """Return about `count` points of all, evenly spaced; the seed shifts them."""
    step = max(1, total // count)
    return range(1 + seed % step, total + 1, step)


def main(count: int = 1_000_000, seed: int = 0) -> int:
    """Let `count` writes of each kind fail."""
    runs, wrong = fuzz(lambda total, _: some_points(total, count, seed))
    print("\n".join(wrong[:20]))
    print(f"{runs:,} runs failed on purpose, {len(wrong):,} went wrong")
    return int(bool(wrong))
