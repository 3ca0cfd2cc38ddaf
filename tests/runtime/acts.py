"""Work that goes wrong on purpose; worker processes import it by name."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from optsched.runtime import kernel
from optsched.runtime.worker_pool import Deadline, Tell, run_tasks

Steps = list[str]
"""A task of these tests: acts to do one after the other."""


@dataclass(frozen=True)
class Passes:
    """Message that some seconds pass, for tests that count time by such messages."""

    seconds: float


def follow(task: Steps, tell: Tell) -> str | None:
    """Do each step and tell it, after a deadline of half a second; some is returned instead."""
    for step in task:
        tell(Deadline(0.5))
        match step.partition(" "):
            case ["die", _, _]:
                os.kill(os.getpid(), signal.SIGKILL)
            case ["exit", _, code]:
                os._exit(int(code))
            case ["sleep", _, seconds]:
                tell(Passes(float(seconds)))
                time.sleep(float(seconds))
            case ["compile", _, seconds]:
                kernel.policy.watch_compiling(True)
                tell(Passes(float(seconds)))
                kernel.policy.watch_compiling(False)
            case ["stick", _, _]:
                # No other thread has its turn before this ends, in some thousand years.
                re.match("(a+)+$", "a" * 60 + "b")
            case ["note", _, path]:
                Path(path).write_text(f"{os.getpid()} ")
            case ["return", _, _]:
                return step
        tell(step)
    return None


def forget(task: Steps, message: object) -> None:
    """Handle a message by doing nothing."""


def hang_in_worker(path: str, how: str) -> None:
    """Have a worker write its process's id into a file, and hang: by `sleep 600`, or by `stick`."""
    run_tasks([[f"note {path}", how]], follow, forget, lambda task, loss: None, grace=600)
