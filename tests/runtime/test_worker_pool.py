"""Processes that die or hang: their reports are kept, the rest continues, none outlives us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from optsched.runtime import clock
from optsched.runtime.worker_pool import Deadline, WorkerLoss, run_tasks
from tests.runtime.acts import Passes, Steps, follow, forget

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="processes end by POSIX signals")


def run(tasks: list[Steps], jobs: int = 1) -> tuple[list[str], list[WorkerLoss]]:
    """Do tasks; a lost task continues after the step that was running.

    Time passes as the tasks tell: a busy machine makes no task late.
    """
    told: list[str] = []
    losses: list[WorkerLoss] = []
    now = 0.0

    def handle(task: Steps, message: Any) -> None:
        nonlocal now
        if isinstance(message, Passes):
            now += message.seconds
        elif not isinstance(message, Deadline):
            told.append(message)

    def lose(task: Steps, loss: WorkerLoss) -> Steps | None:
        losses.append(loss)
        return [step for step in task if step not in told][1:] or None

    with patch.object(clock, "time", SimpleNamespace(monotonic=lambda: now)):
        assert run_tasks(tasks, follow, handle, lose, jobs=jobs, grace=0.5)
    return told, losses


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_messages_of_a_task_come_in_order(jobs: int) -> None:
    told, losses = run([["a", "b", "return"], ["c", "d"]], jobs)
    assert sorted(told) == ["a", "b", "c", "d", "return"]
    assert told.index("b") < told.index("return")
    assert told.index("a") < told.index("b")
    assert told.index("c") < told.index("d")
    assert losses == []


@posix
def test_what_was_told_before_a_death_is_kept_and_the_rest_goes_on() -> None:
    told, losses = run([["a", "die", "b", "exit 7"], ["c"]])
    assert told == ["a", "b", "c"]
    assert not any(loss.timed_out for loss in losses)
    assert [loss.reason for loss in losses] == [
        "its process was ended by SIGKILL, perhaps out of memory",
        "its process ended with exit code 7",
    ]


def test_what_hangs_is_ended_after_its_deadline_and_grace() -> None:
    told, losses = run([["a", "sleep 600", "b"]])
    assert told == ["a", "b"]
    (loss,) = losses
    assert loss.timed_out
    assert loss.reason == "not done long after its limit of 0.5 s"
    assert loss.seconds == 600


def test_compiling_kernels_is_not_counted_against_a_deadline() -> None:
    told, losses = run([["compile 100", "sleep 600", "b"]])
    assert told == ["compile 100", "b"]
    assert [loss.timed_out for loss in losses] == [True]


@pytest.mark.parametrize("jobs", [0, 2])
def test_an_interrupt_keeps_what_is_there_and_is_no_loss(jobs: int) -> None:
    told: list[object] = []

    def handle(task: Steps, message: object) -> None:
        told.append(message)
        if message == "a":
            raise KeyboardInterrupt

    def lose(task: Steps, loss: WorkerLoss) -> None:
        raise AssertionError(loss)

    assert not run_tasks([["a", "sleep 600"], ["b"]], follow, handle, lose, jobs=jobs)
    assert "a" in told


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for a process in /proc")
@pytest.mark.parametrize(
    "how",
    [
        "sleep 600",
        pytest.param(
            "stick",
            marks=pytest.mark.skipif(
                sys.platform != "linux", reason="only Linux ends processes with their parent"
            ),
        ),
    ],
)
def test_no_worker_outlives_the_command(how: str, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"from tests.runtime.acts import hang_in_worker; hang_in_worker({str(note)!r}, {how!r})"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as process:
        _wait(lambda: note.exists() and note.read_text().endswith(" "))
        process.kill()
    stat = Path("/proc") / note.read_text().strip() / "stat"
    _wait(lambda: _is_gone(stat))


@posix
def test_an_interrupt_of_all_processes_is_said_by_the_first_only(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        f"from tests.runtime.acts import hang_in_worker; hang_in_worker({str(note)!r}, 'sleep 600')"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True
    ) as process:
        _wait(lambda: note.exists() and note.read_text().endswith(" "))
        os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=300)
    assert process.returncode == 0
    assert error == ""


def test_nothing_to_do_is_done() -> None:
    assert run_tasks([], follow, forget, lambda task, loss: None)


def _is_gone(stat: Path) -> bool:
    try:
        # Where nobody reaps orphans it stays as a zombie.
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _wait(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 300
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_script_that_each_worker_would_run_as_well_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from optsched.runtime.worker_pool import run_tasks\n"
        "run_tasks([1], print, print, lambda task, loss: None)\n"
    )
    done = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True)
    assert "UsageError: each worker imports the script" in done.stderr
