"""Kernels are compiled by a process beside the search, which leaves no trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from optsched.cli import commands, run
from optsched.runtime import background, disk_cache
from optsched.runtime.background import BackgroundCompiler
from optsched.runtime.kernel import Kernel, kernel

ROOT = Path(__file__).parents[2]


class Rows(NamedTuple):
    values: np.ndarray
    last: int


@kernel
def total(rows: Rows) -> int:
    found = 0
    for i in range(rows.last):
        found += rows.values[i]
    return found


ROWS = Rows(np.arange(4), 3)


SECONDS = 400.0
"""For a process to end that works for a few seconds: others may have the processors meanwhile."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    # As a process of lower priority it would hardly run beside other tests.
    serve = f"from {background.__name__} import serve"
    assert serve in background._SERVE
    usual = f"import {background.__name__} as here; here.NICENESS = 0; {serve}"
    monkeypatch.setattr(background, "_SERVE", background._SERVE.replace(serve, usual))


def ask(compiler: BackgroundCompiler, name: str = "total") -> bool:
    return compiler.ask(__name__, name, total.file_name, (ROWS,))


def process_of(compiler: BackgroundCompiler) -> subprocess.Popen[str]:
    assert compiler._process is not None
    return compiler._process


@pytest.fixture
def compiler() -> BackgroundCompiler:
    made = BackgroundCompiler()
    made.is_on = True
    return made


def test_what_was_asked_for_is_loaded_by_the_next_process(compiler: BackgroundCompiler) -> None:
    assert ask(compiler)
    compiler.finish()
    assert process_of(compiler).wait(SECONDS) == 0
    assert disk_cache.has_file(total.file_name)
    loaded: Any = Kernel(total.function).compiled
    assert loaded(ROWS) == 3
    assert sum(loaded.stats.cache_hits.values()) == 1
    compiler.forget()


def test_a_process_that_was_asked_and_runs_on_a_processor_of_its_own_is_beside(
    compiler: BackgroundCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "processors", lambda: 2)
    monkeypatch.setattr(compiler, "_say", lambda text: None)
    assert not compiler.is_beside(total.file_name)
    assert ask(compiler)
    assert compiler.is_beside(total.file_name)
    assert not compiler.is_beside("another")
    monkeypatch.setattr(background, "processors", lambda: 1)
    assert not compiler.is_beside(total.file_name)
    monkeypatch.setattr(background, "processors", lambda: 2)
    # Its input ends without an empty line.
    compiler.forget()
    process_of(compiler).wait(SECONDS)
    compiler.is_on = True
    assert not compiler.is_beside(total.file_name)


def test_one_process_is_started_and_asked_once_for_each_kernel(
    compiler: BackgroundCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(compiler, "_say", said.append)
    assert ask(compiler)
    assert not ask(compiler)
    assert not compiler.ask(__name__, "other", "another file", ())
    assert [json.loads(line)[1] for line in said] == ["total", "other"]
    compiler.forget()
    assert process_of(compiler).wait(SECONDS) == 1


def test_nothing_is_started_unless_it_is_turned_on() -> None:
    compiler = BackgroundCompiler()
    assert not ask(compiler)
    compiler.finish()
    assert compiler._process is None
    assert not background.compiler.is_on


@pytest.mark.parametrize("code", [0, 3, 130])
def test_a_command_turns_it_on_and_has_all_compiled_unless_it_was_interrupted(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[bool] = []
    monkeypatch.setattr(commands, "main", lambda: code)
    monkeypatch.setattr(background.compiler, "is_on", False)
    monkeypatch.setattr(
        background.compiler, "finish", lambda: finished.append(background.compiler.is_on)
    )
    with pytest.raises(SystemExit):
        run()
    assert finished == ([] if code == 130 else [True])


def test_nothing_is_started_where_nothing_can_be_kept(
    compiler: BackgroundCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/dev/null/none")
    assert not ask(compiler)
    assert compiler._process is None
    assert not compiler.is_on


def test_a_process_that_fails_ends_and_is_not_started_again(compiler: BackgroundCompiler) -> None:
    assert ask(compiler, "no such kernel")
    assert process_of(compiler).wait(SECONDS) == 1
    assert not compiler.ask(__name__, "total", "another file", (ROWS,))
    assert not compiler.is_on
    compiler.finish()


KILLED = """
import os, signal, sys, time
from optsched.runtime.background import compiler
compiler.is_on = True
compiler.ask("time", "sleep", "none", ("text",) * int(sys.argv[1]))
print(compiler._process.pid, flush=True)
time.sleep(float(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are looked up as on POSIX")
@pytest.mark.parametrize("seconds", ["0", "0.3"])
def test_nothing_is_left_running_by_one_that_is_killed(seconds: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, "1", seconds],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + SECONDS
    while is_running(int(done.stdout)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_running(int(done.stdout))


def is_running(process: int) -> bool:
    """Return True if a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_does_not_ask_the_process_of_its_parent(compiler: BackgroundCompiler) -> None:
    background.compiler.is_on = True
    try:
        child = os.fork()
        if not child:
            os._exit(int(background.compiler.is_on))
        assert os.waitpid(child, 0)[1] == 0
        assert background.compiler.is_on
    finally:
        background.compiler.is_on = False


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "value",
    [
        3,
        2.5,
        True,
        np.int64(3),
        np.uint8(3),
        np.arange(3),
        np.arange(9)[::3],
        np.zeros((2, 3), bool),
        np.zeros((2, 3), np.float32).T,
        np.zeros((4, 4))[::2, ::2],
        read_only(np.arange(3)),
        (1, 2),
        (np.arange(3), 1.5),
        ROWS,
        Rows(np.zeros((0, 2)), 0),
    ],
)
def test_the_example_made_of_a_description_is_of_the_same_type(value: Any) -> None:
    described = json.loads(json.dumps(background._described(value)))
    assert numba.typeof(background._example(described)) == numba.typeof(value)
