"""Ctrl-C ends a search at its next poll, harms nothing, and the best plan so far is kept."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from optsched import GraphBuilder, solve
from optsched.model.graph import Graph
from optsched.ordering import rounds, solve_order
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import (
    held_interrupts,
    on_interrupt,
    released_interrupts,
    take_interrupt,
)
from optsched.runtime.kernel import Kernel, kernel
from optsched.runtime.limits import Limits, StopReason
from optsched.solver import stages

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _leaves_no_trace() -> Iterator[None]:
    """See that the handler is put back and no interrupt is left waiting."""
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    take_interrupt()


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def pair() -> Graph:
    build = GraphBuilder("pair")
    build.input("x", 8)
    build.op("first", reads=["x"], writes={"a": 4})
    build.op("second", reads=["a"], writes={"y": 2})
    build.output("y")
    return build.build()


def test_the_next_poll_of_a_clock_raises() -> None:
    clock = Clock.of(Limits())
    with held_interrupts():
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            clock.expired()
        assert not clock.expired()


def test_the_second_raises_at_once() -> None:
    with held_interrupts():
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
        take_interrupt()


def test_one_that_nobody_polled_for_comes_at_the_end() -> None:
    with pytest.raises(KeyboardInterrupt), held_interrupts(), held_interrupts():
        press_ctrl_c()
    take_interrupt()


def test_while_waiting_for_a_file_it_raises_at_once() -> None:
    with held_interrupts():
        with pytest.raises(KeyboardInterrupt), released_interrupts():
            press_ctrl_c()
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt), released_interrupts():
            pytest.fail("it was forgotten")


def test_other_errors_pass_and_the_handler_is_put_back() -> None:
    with pytest.raises(OSError), held_interrupts():
        raise OSError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("other", [signal.SIG_IGN, lambda number, frame: None])
def test_a_handler_of_the_callers_own_is_left_alone(other: signal._HANDLER) -> None:
    signal.signal(signal.SIGINT, other)
    with held_interrupts():
        assert signal.getsignal(signal.SIGINT) is other
        press_ctrl_c()
        take_interrupt()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_another_signal_may_act_as_ctrl_c_and_is_not_replaced() -> None:
    before = signal.signal(signal.SIGTERM, on_interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        with held_interrupts():
            assert signal.getsignal(signal.SIGTERM) is on_interrupt
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                take_interrupt()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_hold_and_take_nothing() -> None:
    failed: list[BaseException] = []

    def elsewhere() -> None:
        try:
            with held_interrupts(), released_interrupts():
                take_interrupt()
        except BaseException as error:
            failed.append(error)

    with held_interrupts():
        press_ctrl_c()
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        with pytest.raises(KeyboardInterrupt):
            take_interrupt()
    assert not failed


def test_an_import_is_finished_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["import signal", "signal.raise_signal(signal.SIGINT)", "whole = True"]
    (tmp_path / "half_made.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with pytest.raises(KeyboardInterrupt), held_interrupts():
            assert importlib.import_module("half_made").whole
    finally:
        del sys.modules["half_made"]


@kernel
def waits(n: int) -> int:
    return n + 1


def test_compiling_ends_between_two_functions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    fresh = Kernel(waits.function)
    with held_interrupts():
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            fresh.compiled(1)
    assert fresh.compiled(1) == 2


def test_a_search_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        press_ctrl_c()
        take_interrupt()

    monkeypatch.setattr(rounds, "closure_bound", interrupted)
    outcome = solve_order(pair())
    assert outcome.stop_reason is StopReason.INTERRUPTED
    assert outcome.order == (0, 1)


def test_before_the_first_plan_the_programs_own_order_is_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        press_ctrl_c()
        take_interrupt()

    monkeypatch.setattr(stages, "candidate_orders", interrupted)
    result = solve(pair())
    assert result.stop_reason is StopReason.INTERRUPTED
    assert result.plan is not None
    assert tuple(result.plan.order) == (0, 1)
    assert result.peak == 12


ARRIVES = """
import signal
import sys

signal.signal(signal.SIGINT, signal.default_int_handler)


module = sys.argv.pop(1)


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            signal.raise_signal(signal.SIGINT)


sys.meta_path.insert(0, Finder())
from optsched.cli import run

if __name__ == "__main__":
    run()
"""


@pytest.mark.parametrize(
    "module", ["argparse", "optsched.cli.commands", "numpy", "optsched.formats", "heuristics"]
)
def test_the_command_ends_in_one_line_whatever_it_was_importing(module: str) -> None:
    graph = str(ROOT / "instances" / "small" / "diamond.json")
    command = [sys.executable, "-c", ARRIVES, module, "info", graph]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    # A process that an exception passed through an `exec` of ends by the signal itself.
    assert done.returncode in (130, -signal.SIGINT)
    assert done.stderr == "optsched: error: interrupted\n"


STORM = """
import signal
from typing import NamedTuple

import numpy as np

from optsched.runtime.interrupt import held_interrupts, on_interrupt, take_interrupt
from optsched.runtime.kernel import kernel


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


@kernel
def make(n: int) -> tuple[Pair, Pair]:
    return Pair(np.zeros(n), np.ones(n)), Pair(np.ones(n), np.zeros(n))


make.compiled(3)
signal.signal(signal.SIGALRM, on_interrupt)
taken = 0
for i in range(1_000):
    try:
        with held_interrupts():
            signal.setitimer(signal.ITIMER_REAL, 2e-5 + 3e-7 * (i % 300))
            while True:
                make.compiled(3)
                take_interrupt()
    except KeyboardInterrupt:
        taken += 1
print(taken)
"""


def test_no_interrupt_crashes_a_kernel_or_is_lost(tmp_path: Path) -> None:
    """Without the context the process is killed by the first that comes at a bad moment."""
    script = tmp_path / "storm.py"
    script.write_text(STORM)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=500,
        env={"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (0, "1000\n"), done.stderr
