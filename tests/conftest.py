"""Configuration of all tests: Hypothesis profiles without a deadline, and a Ctrl-C that arrives.

Every plan and packing that a search accepts while a test runs is also executed by the memory
observer.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import settings

from optsched.check.packing import check_packing
from optsched.check.plan import Checked, check_plan
from optsched.check.replay import replay_packing, replay_plan
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan
from optsched.runtime import kernel
from tests.support.commands import Cli

# No deadline anywhere, as machines are shared; the same examples in CI.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True)
def _python_takes_interrupts() -> Iterator[None]:
    """Set Python's own handler of SIGINT, for the test and the processes that it starts.

    Where the parent ignores the signal (under `nohup`, in the background of a script, in some CI
    runners) so would this process and all its children.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _no_command_waits_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the deadline of commands that tests before ran: after it no kernel is compiled."""
    monkeypatch.setattr(kernel.policy, "deadline", math.inf)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run commands, and return what they print."""
    return Cli(capsys)


MOST_OPS = 200
"""Larger graphs are executed where that is what a test is about."""


@pytest.fixture(autouse=True)
def _what_a_search_accepts_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the checks that every accepted plan goes through execute it as well."""
    monkeypatch.setattr("optsched.solver.known.check_plan", _check_and_execute)
    monkeypatch.setattr("optsched.solver.packing_stages.check_packing", _check_and_execute_packing)


def _check_and_execute(graph: Graph, plan: Plan, **claims: Any) -> Checked:
    checked = check_plan(graph, plan, **claims)
    if len(graph.ops) <= MOST_OPS:
        replay_plan(graph, plan)
    return checked


def _check_and_execute_packing(
    problem: PackingProblem, offsets: Sequence[int], **claims: Any
) -> int:
    slab = check_packing(problem, offsets, **claims)
    if len(problem) <= MOST_OPS:
        replay_packing(problem, offsets)
    return slab
