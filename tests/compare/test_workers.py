"""Processes that die or hang: a row says so, the rest goes on; their number changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from optsched.compare import Failed, Setup, Study, Trouble, compare_files, parse_methods
from optsched.compare.methods import with_reference
from optsched.compare.rows import Measured, Outcome
from optsched.compare.task import Message, Opened, Started, Task, Unreadable
from optsched.compare.workers import run_tasks
from optsched.formats import write_graph
from optsched.runtime.limits import Limits, StopReason
from tests.compare import acts
from tests.compare.rows import rows_without_times
from tests.support.families.small import chain, diamond, two_towers

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="a process kills itself by a POSIX signal")


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    for graph in (chain(), diamond(), two_towers()):
        write_graph(graph, tmp_path / f"{graph.name}.json")
    return sorted(str(path) for path in tmp_path.glob("*.json"))


def run(
    paths: list[str],
    work: Callable[[Task, Callable[[Message], None]], None],
    *,
    seconds: float = 10.0,
    grace: float = 30.0,
    jobs: int = 1,
) -> list[tuple[int, Message]]:
    methods, reference = with_reference(parse_methods(["lpmf", "bfs", "naive"]))
    tasks = [Task(i, p, methods, reference, Limits(seconds)) for i, p in enumerate(paths)]
    told: list[tuple[int, Message]] = []
    assert run_tasks(
        tasks, lambda t, m: told.append((t.number, m)), jobs=jobs, grace=grace, work=work
    )
    return told


def outcomes(told: list[tuple[int, Message]], number: int) -> dict[str, Outcome]:
    return {m.method: m for i, m in told if i == number and isinstance(m, Measured | Failed)}


@posix
def test_a_process_that_is_killed_is_a_row(paths: list[str]) -> None:
    told = run(paths[:2], acts.dying)
    for number in (0, 1):
        found = outcomes(told, number)
        assert set(found) == {"lpmf", "bfs", "naive", "optsched"}
        lost = found["bfs"]
        assert isinstance(lost, Failed)
        assert lost.trouble is Trouble.DIED
        assert "SIGKILL" in lost.reason
        # Packings are given the order that our own method found before the process died.
        assert all(isinstance(found[name], Measured) for name in ("lpmf", "naive", "optsched"))


def test_a_method_that_hangs_is_ended(paths: list[str]) -> None:
    found = outcomes(run(paths[:1], acts.hanging, seconds=0.5, grace=1.0), 0)
    lost = found["bfs"]
    assert isinstance(lost, Failed)
    assert lost.trouble is Trouble.TIMED_OUT
    assert lost.reason == "not done long after its limit of 0.5 s"
    assert lost.runtime >= 1.5
    assert all(isinstance(found[name], Measured) for name in ("lpmf", "naive", "optsched"))


def test_a_process_that_ends_while_it_reads_costs_one_graph(paths: list[str]) -> None:
    told = run(paths[:2], acts.exiting)
    assert [number for number, _ in told] == [0, 1]
    for _, message in told:
        assert isinstance(message, Unreadable)
        assert message.bad
        assert "exit code 7 while it read the graph" in message.reason


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for a process in /proc")
def test_no_worker_outlives_the_command(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"from tests.compare.acts import sleep_in_worker; sleep_in_worker({str(note)!r})"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as process:
        _wait(lambda: note.exists() and note.read_text().endswith(" "))
        process.kill()
    stat = Path("/proc") / note.read_text().strip() / "stat"
    _wait(lambda: _is_gone(stat))


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal to a group of processes")
def test_an_interrupt_of_all_processes_is_said_by_the_first_only(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        f"from tests.compare.acts import sleep_in_worker; sleep_in_worker({str(note)!r})"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True
    ) as process:
        _wait(lambda: note.exists() and note.read_text().endswith(" "))
        os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 0
    assert error == ""


def _is_gone(stat: Path) -> bool:
    try:
        # Where nobody reaps orphans it stays as a zombie.
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _wait(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_number_of_processes_changes_nothing(paths: list[str]) -> None:
    def study(jobs: int) -> Study:
        methods = parse_methods(["bfs", "naive", "lpmf+naive", "recorded"])
        return compare_files(paths, Setup(methods, Limits(seconds=10.0), jobs=jobs))

    here, one, two = (study(jobs) for jobs in (0, 1, 2))
    assert rows_without_times(here) == rows_without_times(one) == rows_without_times(two)
    assert [c.path for c in two.comparisons] == paths
    assert [c.graph for c in two.comparisons] == [c.graph for c in here.comparisons]


@posix
def test_what_is_interrupted_has_not_failed(paths: list[str]) -> None:
    methods, reference = with_reference(parse_methods(["lpmf", "bfs"]))
    task = Task(0, paths[0], methods, reference, Limits(10.0))
    told: list[Message] = []

    def handle(task: Task, message: Message) -> None:
        told.append(message)
        if isinstance(message, Started) and message.method.name == "bfs":
            raise KeyboardInterrupt

    assert not run_tasks([task], handle, work=acts.hanging)
    assert not any(isinstance(message, Failed | Unreadable) for message in told)


def test_ctrl_c_keeps_what_is_there(paths: list[str]) -> None:
    methods, reference = with_reference(parse_methods(["lpmf"]))
    tasks = [Task(i, p, methods, reference, Limits(10.0)) for i, p in enumerate(paths)]
    told: list[Message] = []

    def handle(task: Task, message: Message) -> None:
        told.append(message)
        if isinstance(message, Measured):
            raise KeyboardInterrupt

    for jobs in (0, 2):
        told.clear()
        assert not run_tasks(tasks, handle, jobs=jobs)
        first = next(m for m in told if isinstance(m, Measured))
        assert first.method == "optsched"
        assert first.result is not None
        assert first.result.stop_reason is StopReason.PROVED
        assert isinstance(told[0], Opened)
