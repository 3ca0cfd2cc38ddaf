"""XLA with our schedules: the same results, never more memory, and what was planned."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import pytest

pytest.importorskip("jax", reason="jax is not installed (extra jax)")

import jax
import jax.numpy as jnp
import numpy as np

import optsched.plugins.xla
from optsched.errors import UsageError
from optsched.formats.hlo.text import parse_module
from optsched.plugins import explain, forget, records
from optsched.plugins.xla import enabled, schedule
from optsched.plugins.xla.assignment import ALIGNMENT
from tests.frameworks.xla.training import DONATED, STEPS, filled, floats, mixed

SCHEDULERS = ("DEFAULT", "MEMORY_OPTIMIZED")
COMPILED = ("residual net", "scan", "loop and branches", "experts", "residual net, donated")
"""Those that compile in a second or two; `experiments/runtimes/xla_plugin` has them all."""

TIED = (10,)
"""Random functions with values of several computations that are equal in size and life: which of
them XLA takes first goes by a fingerprint of the computations' text."""


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    """Each test starts without records and without compiled functions."""
    forget()
    jax.clear_caches()


def allocated(compiled: Any) -> int:
    """Return the bytes of temporaries and results, less what is donated."""
    told = compiled.memory_analysis()
    return int(told.temp_size_in_bytes + told.output_size_in_bytes - told.alias_size_in_bytes)


def results(compiled: Any, arguments: Any) -> list[Any]:
    """Return all results of a call; arguments may be donated, and are copied."""
    copies = jax.tree.map(lambda x: x.copy(), arguments)
    return [np.asarray(x) for x in jax.tree.leaves(compiled(*copies))]


def by_scheduler(lowered: Any, scheduler: str) -> Any:
    """Compile with one of XLA's schedulers."""
    kind = f"CPU_SCHEDULER_TYPE_{scheduler}"
    return lowered.compile(compiler_options={"xla_cpu_scheduler_type": kind})


@pytest.mark.parametrize("name", COMPILED)
def test_training_steps(name: str) -> None:
    """Results are bit for bit the same, and no scheduler of XLA's allocates less."""
    step, arguments = STEPS[name]()
    donated = (0,) if name in DONATED else ()
    lowered = jax.jit(step, donate_argnums=donated).lower(*arguments)
    known = [by_scheduler(lowered, scheduler) for scheduler in SCHEDULERS]
    with enabled(time_limit=3, min_bytes=0):
        ours = lowered.compile()
    (record,) = records()
    assert allocated(ours) <= min(map(allocated, known))
    assert 0 <= record.after - allocated(ours) < ALIGNMENT
    assert donated or 0 <= record.before - allocated(known[0]) < ALIGNMENT
    for mine, theirs in zip(results(ours, arguments), results(known[0], arguments), strict=True):
        assert np.array_equal(mine, theirs)


def test_the_order_that_runs_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled module lists its ops in the order that was handed back."""
    asked = []
    real = schedule._set_schedule

    def keep(module: Any, entry: str, sequence: list[str]) -> None:
        asked.extend(sequence)
        real(module, entry, sequence)

    monkeypatch.setattr(schedule, "_set_schedule", keep)
    step, arguments = STEPS["residual net"]()
    with enabled(time_limit=3, min_bytes=0):
        text = jax.jit(step).lower(*arguments).compile().as_text()
    module = parse_module(text)
    ran = [x for x in module.computations[module.entry].instructions if x in set(asked)]
    assert asked
    assert ran == [x for x in asked if x in set(ran)]
    assert len(ran) > 0.9 * len(asked)


@pytest.mark.parametrize("seed", range(12))
def test_random_functions(seed: int) -> None:
    """Values and gradients are the same, and memory is what was planned and never more."""
    step, arguments = mixed(seed)
    lowered = jax.jit(step).lower(*arguments)
    known = [by_scheduler(lowered, scheduler) for scheduler in SCHEDULERS]
    with enabled(time_limit=2, min_bytes=0):
        ours = lowered.compile()
    (record,) = records()
    assert seed in TIED or 0 <= record.after - allocated(ours) < ALIGNMENT
    assert allocated(ours) <= allocated(known[0])
    for mine, theirs in zip(results(ours, arguments), results(known[0], arguments), strict=True):
        assert np.array_equal(mine, theirs)


def small() -> Any:
    """Return a function that is compiled at once."""
    x, weight = filled((floats(32, 64), floats(64, 64)))
    return jax.jit(lambda x, w: (jnp.sin(x @ w) @ w).sum()).lower(x, weight)


def test_modules_are_chosen_by_name_and_size() -> None:
    """Others are compiled as without us."""
    with enabled(modules=["jit_step*"], min_bytes=0):
        small().compile()
    assert records() == ()
    with enabled(min_bytes="1MiB"):
        small().compile()
    assert "bytes only" in explain()


def test_nothing_is_changed_afterwards() -> None:
    """The context takes its hook back."""
    with enabled(min_bytes=0):
        pass
    small().compile()
    assert records() == ()


def test_a_failure_of_ours_is_xla_s_schedule(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says so."""

    def fail(*_: object, **__: object) -> Any:
        raise ValueError("broken on purpose")

    monkeypatch.setattr(schedule, "read_hlo", fail)
    lowered = small()
    with enabled(min_bytes=0):
        compiled = lowered.compile()
    assert compiled.memory_analysis() is not None
    assert caplog.text.count("broken on purpose") == 1
    assert "broken on purpose" in explain()


def test_the_hook_has_a_stack_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's threads have 2 MB, which compiling a kernel may exceed: that would end the process."""

    def deep(levels: int) -> int:
        return 1 + max([levels], key=lambda _: deep(levels - 1)) if levels else 0

    def answer(*_: object) -> None:
        reached.append(deep(10_000))

    reached: list[int] = []
    before = sys.getrecursionlimit()
    monkeypatch.setattr(schedule.Scheduler, "_answer", answer)
    try:
        sys.setrecursionlimit(100_000)
        with enabled(min_bytes=0):
            small().compile()
    finally:
        sys.setrecursionlimit(before)
    assert reached


def test_no_time_is_xla_s_schedule() -> None:
    """A time limit of zero is allowed, and changes nothing."""
    with enabled(time_limit=0, min_bytes=0):
        small().compile()
    assert "there is no time" in explain()


def test_another_version_of_jax(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is changed, and one line says so."""
    monkeypatch.setattr(optsched.plugins.xla, "TESTED_JAX", "9.")
    with caplog.at_level(logging.WARNING, logger="optsched"), enabled(min_bytes=0):
        small().compile()
    assert caplog.text.count("nothing is changed") == 1
    assert records() == ()


def test_two_threads_compile_at_once() -> None:
    """Each gets its schedule."""
    step, arguments = STEPS["residual net"]()
    found: list[int] = []

    def compile_one() -> None:
        found.append(allocated(jax.jit(step).lower(*arguments).compile()))

    with enabled(time_limit=3, min_bytes=0):
        threads = [threading.Thread(target=compile_one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 2
    jax.clear_caches()
    assert max(found) < allocated(jax.jit(step).lower(*arguments).compile())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": -1}, "time_limit -1"),
        ({"modules": "jit_step"}, r"write \['jit_step'\]"),
        ({"min_bytes": "much"}, "much"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    """One line that names the value."""
    with pytest.raises(UsageError, match=message), enabled(**options):
        pass
