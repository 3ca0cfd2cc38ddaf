"""XLA with our schedules: equal results, never more memory, and exactly the planned bytes."""

from __future__ import annotations

import logging
import re
import sys
import threading
from typing import Any

import pytest

pytest.importorskip("jax", reason="jax is not installed (extra jax)")

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

import optsched.plugins.xla
from optsched.errors import UsageError
from optsched.formats.hlo.text import parse_module
from optsched.plugins import explain, forget, records
from optsched.plugins.xla import enabled, orders, schedule
from tests.support.xla_training import DONATED, STEPS, filled, floats, mixed

SCHEDULERS = ("DEFAULT", "MEMORY_OPTIMIZED")
COMPILED = ("residual net", "scan", "loop and branches", "experts", "residual net, donated")
"""Functions that compile in a second or two; `experiments/runtimes/xla_plugin` has them all."""


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


def compared(lowered: Any, arguments: Any) -> tuple[Any, list[int]]:
    """Compile in our order; return the record, and the bytes with each scheduler of XLA's.

    Results are bit for bit the same.
    """
    known = [by_scheduler(lowered, scheduler) for scheduler in SCHEDULERS]
    with enabled(time_limit=60, min_bytes=0, min_gain=0):
        ours = lowered.compile()
    (record,) = records()
    assert record.after == allocated(ours)
    assert record.before == allocated(known[0])
    for mine, theirs in zip(results(ours, arguments), results(known[0], arguments), strict=True):
        assert np.array_equal(mine, theirs)
    return record, list(map(allocated, known))


@pytest.mark.parametrize("name", COMPILED)
def test_training_steps(name: str) -> None:
    """Results are bit for bit the same, and no scheduler of XLA's allocates less."""
    step, arguments = STEPS[name]()
    donated = (0,) if name in DONATED else ()
    lowered = jax.jit(step, donate_argnums=donated).lower(*arguments)
    record, known = compared(lowered, arguments)
    assert record.after <= min(known)


def test_the_order_that_runs_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled module lists its ops in the order that was handed back."""
    asked = []
    real = schedule._set_schedule

    def keep(module: Any, entry: str, sequence: list[str]) -> None:
        asked.extend(sequence)
        real(module, entry, sequence)

    monkeypatch.setattr(schedule, "_set_schedule", keep)
    step, arguments = STEPS["residual net"]()
    with enabled(time_limit=60, min_bytes=0, min_gain=0):
        text = jax.jit(step).lower(*arguments).compile().as_text()
    module = parse_module(text)
    ran = [x for x in module.computations[module.entry].instructions if x in set(asked)]
    assert asked
    assert ran == [x for x in asked if x in set(ran)]
    assert len(ran) > 0.9 * len(asked)


@pytest.mark.parametrize("seed", range(12))
def test_random_functions(seed: int) -> None:
    """Values and gradients are equal, and memory is as planned and never more."""
    step, arguments = mixed(seed)
    record, _ = compared(jax.jit(step).lower(*arguments), arguments)
    assert record.after <= record.before


def wide(carry: Any, x: Any) -> tuple[Any, Any]:
    """Five wide products that all live until the last sum, unless each is used at once."""
    products = [jnp.tanh(carry * float(i + 1)) @ jnp.ones((64, 256)) * x for i in range(5)]
    narrow = [jnp.sin(product @ jnp.ones((256, 64)) * 1e-3) for product in products]
    total = sum(product.sum() for product in products)
    return jnp.tanh(sum(narrow)) * total * 1e-3 + carry, (narrow[0] - narrow[1]).sum()


def scanned(carry: Any, xs: Any) -> Any:
    return jax.lax.scan(wide, carry, xs)


def chosen(carry: Any, xs: Any) -> Any:
    return jax.lax.cond(xs[0] > 0, lambda c: wide(c, 1.0)[0], jnp.cos, carry) * 2 + 1


def repeated(carry: Any, xs: Any) -> Any:
    def body(state: Any) -> Any:
        return wide(state[0], 0.5)[0], state[1] + 1

    return jax.lax.while_loop(lambda state: state[1] < xs.size, body, (carry, 0))[0]


def nested(carry: Any, xs: Any) -> Any:
    def body(carry: Any, x: Any) -> Any:
        return chosen(carry, xs[:2]) * x, repeated(carry, xs[:2]).sum()

    return jax.lax.scan(body, carry, xs)


@pytest.mark.parametrize("function", [scanned, chosen, repeated, nested])
def test_orders_inside_of_loops_and_branches(function: Any) -> None:
    """The bytes of a body are part of those of the module."""
    arguments = jnp.ones((32, 64)), jnp.arange(1.0, 5.0)
    lowered = jax.jit(function).lower(*arguments)
    own = by_scheduler(lowered, "DEFAULT")
    with enabled(time_limit=60, min_bytes=0, min_gain=0):
        ours = lowered.compile()
    (record,) = records()
    assert (record.before, record.after) == (allocated(own), allocated(ours))
    assert record.after is not None
    assert record.before is not None
    assert record.after < 0.8 * record.before
    assert "orders inside" in record.order
    # A bound on orders of the entry would not count the bytes saved inside.
    assert record.bound is None
    for mine, theirs in zip(results(ours, arguments), results(own, arguments), strict=True):
        assert np.array_equal(mine, theirs)


def small() -> Any:
    """Return a function that is compiled at once."""
    x, weight = filled((floats(32, 64), floats(64, 64)))
    return jax.jit(lambda x, w: (jnp.sin(x @ w) @ w).sum()).lower(x, weight)


def test_modules_are_chosen_by_name_and_size() -> None:
    """Others are compiled as without us."""
    with enabled(modules=["jit_step*"], min_bytes=0, min_gain=0):
        small().compile()
    assert records() == ()
    with enabled(min_bytes="1MiB"):
        small().compile()
    assert "bytes only" in explain()


def test_nothing_is_changed_afterwards() -> None:
    """The context takes its hook back."""
    with enabled(min_bytes=0, min_gain=0):
        pass
    small().compile()
    assert records() == ()


def test_a_failure_of_ours_is_xla_s_schedule(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says so."""

    def fail(*_: object, **__: object) -> Any:
        raise ValueError("broken on purpose")

    monkeypatch.setattr(schedule, "ModuleOrders", fail)
    lowered = small()
    with enabled(min_bytes=0, min_gain=0):
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
        with enabled(min_bytes=0, min_gain=0):
            small().compile()
    finally:
        sys.setrecursionlimit(before)
    assert reached


def test_no_time_is_xla_s_schedule() -> None:
    """A time limit of zero is allowed, and changes nothing."""
    with enabled(time_limit=0, min_bytes=0, min_gain=0):
        small().compile()
    assert "the time limit is 0" in explain()


def test_the_limit_covers_all_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA is answered in time even if a step does not look at the clock, and once only."""
    real, released, slow_threads = schedule.ModuleOrders, threading.Event(), []

    def slow(*given: Any) -> Any:
        slow_threads.append(threading.current_thread())
        released.wait(500)
        return real(*given)

    lowered = small()
    monkeypatch.setattr(schedule, "ModuleOrders", slow)
    with enabled(time_limit=0.5, min_bytes=0, min_gain=0):
        lowered.compile()
    # The step does not end before it is released, and the answer has been given all the same.
    (thread,) = slow_threads
    assert thread.is_alive()
    assert "nothing was found in the time limit of 0.5 s" in explain()
    released.set()
    thread.join()
    assert len(records()) == 1


def test_work_ends_once_the_answer_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weighing a large module takes seconds, and a program waits at its end for the thread."""
    given, ended = threading.Event(), threading.Event()
    real, raised = schedule.ModuleOrders, []

    def slow(text: str, clock: Any, check: Any) -> Any:
        given.wait(500)
        try:
            return real(text, clock, check)
        except schedule.KeptScheduleError as error:
            raised.append(str(error))
            raise
        finally:
            ended.set()

    # The text is read in no time, so that only the weighing can stop the work.
    monkeypatch.setattr(orders, "require_time", lambda clock: None)
    monkeypatch.setattr(schedule, "ModuleOrders", slow)
    lowered = small()
    with enabled(time_limit=0.1, min_bytes=0, min_gain=0):
        lowered.compile()
    given.set()
    assert ended.wait(500)
    assert raised == ["the time limit was over"]
    assert len(records()) == 1


@pytest.mark.parametrize("limit", [0.2, 2])
def test_a_large_module_whose_limit_ends_at_any_step_is_as_it_was(limit: float) -> None:
    """Or as planned; that XLA is not kept waiting for a step is another test."""
    weights, x = filled((floats(8, 32, 32), floats(64, 32)))
    random = np.random.default_rng(0)
    reads = [random.integers(max(0, i - 40), i + 1, 2).tolist() for i in range(1000)]

    def run(weights: Any, x: Any) -> Any:
        values = [x]
        for number, (a, b) in enumerate(reads):
            values.append(jnp.tanh(values[a]) @ weights[number % 8] + values[b])
        return sum(values[-20:])

    lowered = jax.jit(run).lower(weights, x)
    with enabled(time_limit=limit, min_bytes=0, min_gain=0):
        compiled = lowered.compile()
    (record,) = records()
    if record.after is None:
        assert re.search(r"time limit (of \S+ s|was over)", record.reason)
    else:
        assert record.after == allocated(compiled)


def test_little_is_not_worth_another_order() -> None:
    """By default an order must save 0.1 % and 64 KiB."""
    step, arguments = STEPS["loop and branches"]()
    lowered = jax.jit(step).lower(*arguments)
    with enabled(time_limit=60, min_gain="90%"):
        compiled = lowered.compile()
    (record,) = records()
    assert record.after == record.before == allocated(compiled)
    assert re.search(r"saves [\d,]+ bytes only, the minimum gain is 90 %", explain())


@pytest.mark.parametrize("missing", ["the version", "the hook"])
def test_another_version_of_jax(
    missing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is changed, and one line says so; jax 0.10.0 and 0.10.1 have no hook."""
    if missing == "the version":
        monkeypatch.setattr(optsched.plugins.xla, "TESTED_JAX", "9.")
    else:
        monkeypatch.setitem(sys.modules, "jax.extend.xla", None)
        monkeypatch.delattr(jax.extend, "xla", raising=False)
    with caplog.at_level(logging.WARNING, logger="optsched"), enabled(min_bytes=0, min_gain=0):
        small().compile()
    assert caplog.text.count("nothing is changed") == 1
    assert records() == ()
    # Where people look for what became of their modules.
    line = f"jax {jax.__version__} is not one of {optsched.plugins.xla.TESTED_JAX}x from 0.10.2 on"
    assert optsched.plugins.explain() == f"xla: {line}: nothing is changed"
    forget()


def test_two_threads_compile_at_once() -> None:
    """Each gets its schedule."""
    step, arguments = STEPS["residual net"]()
    found: list[int] = []

    def compile_one() -> None:
        found.append(allocated(jax.jit(step).lower(*arguments).compile()))

    with enabled(time_limit=60, min_bytes=0, min_gain=0):
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
        ({"time_limit": -1}, "time_limit must be a number of seconds, got -1"),
        ({"modules": "jit_step"}, r"write \['jit_step'\]"),
        ({"min_bytes": "much"}, "much"),
        ({"min_gain": "much"}, "min_gain must be bytes or a percentage"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    """One line that names the value."""
    with pytest.raises(UsageError, match=message), enabled(**options):
        pass


def test_an_order_that_meets_its_bound_is_explained() -> None:
    """The best case: three wide branches, and one at a time is live."""

    def step(x: Any, up: Any, down: Any) -> Any:
        wide = [jnp.tanh(x @ a) for a in up]
        return sum(b @ c for b, c in zip(wide, down, strict=True))

    with enabled(time_limit=5):
        jax.jit(step).lower(floats(256, 64), [floats(64, 512)] * 3, [floats(512, 64)] * 3).compile()
    record = records()[-1]
    assert record.after == record.bound == 720_896
    assert "-> 720,896, bound 720,896 (bound of the in-place graph); " in explain()
