"""An interrupt within a compiled kernel ends a search as any other does."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FunctionType

import pytest

from optsched import GraphBuilder
from optsched.ordering import rounds as engine
from optsched.ordering import solve_order
from optsched.runtime.interrupt import plain_interrupts, take_interrupt
from optsched.runtime.limits import StopReason


def wrapped(cause: BaseException) -> SystemError:
    """What the interpreter makes of an exception that a compiled function leaves behind."""
    error = SystemError("a result with an exception set")
    error.__cause__ = cause
    return error


def test_an_interrupt_is_raised_as_itself() -> None:
    with pytest.raises(KeyboardInterrupt), plain_interrupts():
        raise wrapped(KeyboardInterrupt())


@pytest.mark.parametrize("error", [wrapped(ValueError()), SystemError("of its own"), OSError()])
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, plain_interrupts():
        raise error
    assert caught.value is error


def test_a_search_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise wrapped(KeyboardInterrupt())

    monkeypatch.setattr(engine, "closure_bound", interrupted)
    build = GraphBuilder("pair")
    build.input("x", 8)
    build.op("first", reads=["x"], writes={"a": 4})
    build.op("second", reads=["a"], writes={"y": 2})
    build.output("y")
    outcome = solve_order(build.build())
    assert outcome.stop_reason is StopReason.INTERRUPTED
    assert outcome.order == (0, 1)


def test_one_that_lands_in_an_import_waits_until_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["import signal", "signal.raise_signal(signal.SIGINT)", "whole = True"]
    (tmp_path / "half_made.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    held = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), plain_interrupts():
            assert importlib.import_module("half_made").whole
            time.sleep(10)
            pytest.fail("it never came")
    finally:
        signal.signal(signal.SIGINT, held)
        del sys.modules["half_made"]


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
    graph = str(Path(__file__).parents[2] / "instances" / "small" / "diamond.json")
    command = [sys.executable, "-c", ARRIVES, module, "info", graph]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    # A process that an exception passed through an `exec` of ends by the signal itself.
    assert done.returncode in (130, -signal.SIGINT)
    assert done.stderr == "optsched: error: interrupted\n"


STORM = """
import signal
from typing import NamedTuple

import numpy as np

from optsched.runtime.interrupt import plain_interrupts, take_interrupt
from optsched.runtime.kernel import kernel


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


@kernel
def make(n: int) -> tuple[Pair, Pair]:
    return Pair(np.zeros(n), np.ones(n)), Pair(np.ones(n), np.zeros(n))


make.compiled(3)
signal.signal(signal.SIGALRM, signal.default_int_handler)
taken = 0
for i in range(1_000):
    try:
        with plain_interrupts():
            signal.setitimer(signal.ITIMER_REAL, 2e-5 + 3e-7 * (i % 300))
            while True:
                make.compiled(3)
                take_interrupt()
    except KeyboardInterrupt:
        taken += 1
print(taken)
"""


def test_no_interrupt_crashes_a_kernel_or_is_lost(tmp_path: Path) -> None:
    # Without the context the process is killed by the first that comes at a bad moment.
    script = tmp_path / "storm.py"
    script.write_text(STORM)
    root = str(Path(engine.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": root, "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (0, "1000\n"), done.stderr


def interrupted() -> None:
    signal.raise_signal(signal.SIGINT)


at_work = FunctionType(interrupted.__code__, {"__name__": "namedtuple_Pair", "signal": signal})
"""Interrupted as if a kernel made a tuple just now."""


def test_one_that_waits_comes_at_the_end_of_the_context() -> None:
    with pytest.raises(KeyboardInterrupt), plain_interrupts():
        at_work()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    take_interrupt()


def test_other_handlers_and_other_threads_are_left_alone() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with plain_interrupts():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    failed: list[BaseException] = []

    def elsewhere() -> None:
        try:
            with plain_interrupts():
                take_interrupt()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert not failed
