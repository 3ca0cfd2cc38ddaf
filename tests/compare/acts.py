"""Tasks that go wrong on purpose; workers import them by name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from optsched.compare.methods import parse_methods, with_reference
from optsched.compare.task import Message, Started, Task, work_on
from optsched.compare.workers import run_tasks
from optsched.runtime.limits import Limits

CULPRIT = "bfs"


def dying(task: Task, tell: Callable[[Message], None]) -> None:
    """Be killed by the system while one method runs."""
    work_on(task, _at_culprit(tell, _die))


def hanging(task: Task, tell: Callable[[Message], None]) -> None:
    """Hang in one method."""
    work_on(task, _at_culprit(tell, lambda: time.sleep(600)))


def exiting(task: Task, tell: Callable[[Message], None]) -> None:
    """End before the graph is read."""
    os._exit(7)


def sleeping(task: Task, tell: Callable[[Message], None]) -> None:
    """Write the process's id into the task's file, and hang."""
    Path(task.path).write_text(f"{os.getpid()} ")
    time.sleep(600)


def sleep_in_worker(path: str) -> None:
    """Have a worker do that."""
    methods, reference = with_reference(parse_methods(["lpmf"]))
    task = Task(0, path, methods, reference, Limits(None))
    run_tasks([task], lambda task, message: None, work=sleeping)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _at_culprit(
    tell: Callable[[Message], None], act: Callable[[], None]
) -> Callable[[Message], None]:
    def told(message: Message) -> None:
        tell(message)
        if isinstance(message, Started) and message.method.name == CULPRIT:
            act()

    return told
