"""A worker killed half way through equal tasks: what our pool loses, and what loky does."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from optsched.runtime.worker_pool import WorkerLoss, run_tasks
from tests.support.fleets import command_of, descendants

Counts = tuple[int, int, str]
"""Tasks done, tasks lost, and who was said to have been lost."""


def tell_and_sleep(task: tuple[int, float], tell: Callable[[Any], None]) -> None:
    """Tell the process, sleep, tell the number."""
    tell(("pid", os.getpid()))
    time.sleep(task[1])
    tell(("done", task[0]))


def with_pool(tasks: int, seconds: float) -> Counts:
    """Kill one of two workers of our pool; what is lost is not done again."""
    done: list[int] = []
    reported: list[str] = []
    pids: set[int] = set()

    def handle(task: object, message: tuple[str, int]) -> None:
        what, number = message
        if what == "done":
            done.append(number)
            return
        if number not in pids and len(pids) == 1:
            _kill_soon(number, seconds / 2)
        pids.add(number)

    def lose(task: tuple[int, float], loss: WorkerLoss) -> None:
        reported.append(f"task {task[0]}: {loss.reason}")

    run_tasks([(number, seconds) for number in range(tasks)], tell_and_sleep, handle, lose, jobs=2)
    return len(done), len(reported), "; ".join(reported)


def sleep_and_tell(seconds: float, tell: Callable[[Any], None]) -> None:
    """Sleep, and tell the process: a unit that needs no processor."""
    time.sleep(seconds)
    tell(os.getpid())


def nap(number: int, seconds: float) -> int:
    """Sleep, and say the number."""
    time.sleep(seconds)
    return number


def with_loky(tasks: int, seconds: float) -> Counts:
    """Kill one of two workers of joblib's loky backend."""
    from joblib import Parallel, delayed

    done: list[int] = []
    with Parallel(n_jobs=2, batch_size=1, return_as="generator_unordered") as parallel:
        list(parallel(delayed(nap)(0, 0.1) for _ in range(2)))
        workers = [pid for pid in descendants(os.getpid()) if "LokyProcess" in command_of(pid)]
        _kill_soon(workers[0], seconds / 2)
        reported = ""
        try:
            for number in parallel(delayed(nap)(number, seconds) for number in range(tasks)):
                done.append(number)
        except Exception as error:
            reported = f"{type(error).__name__}, no task named"
    return len(done), tasks - len(done), reported


def _kill_soon(pid: int, seconds: float) -> None:
    threading.Timer(seconds, os.kill, (pid, signal.SIGKILL)).start()
