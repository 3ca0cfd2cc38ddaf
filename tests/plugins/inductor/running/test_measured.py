"""Measured bytes beside planned ones: in the process that compiles, in threads and from caches."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from optsched import plugins
from optsched.errors import UsageError
from optsched.plugins import CompiledGraph
from optsched.plugins.inductor.running.measured import MEASURED_CALLS, Meter, measure_calls
from optsched.plugins.records import note_measured, remember

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import config  # noqa: E402

from optsched.plugins.inductor import enabled  # noqa: E402
from optsched.plugins.inductor.sizes import kernels, meter  # noqa: E402
from optsched.plugins.inductor.sizes.kernel_operands import Place  # noqa: E402
from optsched.plugins.inductor.sizes.kernels import KernelMemory, ReturnedTensor, _FirstCall  # noqa: E402
from optsched.plugins.inductor.sizes.meter import Rise, measure_call  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402
from tests.support.small_networks import NETWORKS, training_step  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    plugins.forget()


def test_the_measured_bytes_of_both_graphs_are_the_planned_ones() -> None:
    network, inputs = NETWORKS["attention"]()
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=2, min_gain=0, measure=True):
        step = training_step(network, inputs)
        step()
        step()
    first, second = plugins.records()
    for record in (first, second):
        assert record.measured == record.planned
        assert f", measured {record.measured:,}" in str(record)
    assert second.after != second.before


def test_without_the_option_nothing_is_measured() -> None:
    network, inputs = NETWORKS["attention"]()
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=1):
        training_step(network, inputs)()
    assert [record.measured for record in plugins.records()] == [None, None]
    assert "measured" not in plugins.explain()


def test_a_graph_that_another_thread_calls_is_measured() -> None:
    """On a GPU autograd calls the backward graph in a thread of its own."""
    network, inputs = NETWORKS["attention"]()
    with no_kernels(), config.patch(NO_CACHE):

        def step() -> None:
            with enabled(time_limit=1, measure=True):
                training_step(network, inputs)()

        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
    assert [record.measured == record.planned for record in plugins.records()] == [True, True]


CACHED = """
import torch
from optsched import plugins
from optsched.plugins.inductor import enabled
from tests.support.compiled_memory import no_kernels
from tests.support.small_networks import NETWORKS, training_step
torch.manual_seed(0)
network, inputs = NETWORKS["attention"]()
with no_kernels(), enabled(time_limit=2, min_gain=0, measure=True):
    training_step(network, inputs)()
for record in plugins.records():
    print(record.cached, record.planned, record.measured)
"""


def test_a_process_that_loads_the_graphs_from_a_cache_measures_them(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "PYTHONPATH": "."}
    command = [sys.executable, "-W", "ignore", "-c", CACHED]
    first, second = (
        subprocess.run(command, env=environment, text=True, capture_output=True, check=True)
        for _ in range(2)
    )
    made, loaded = (
        sorted(line.split() for line in run.stdout.splitlines()) for run in (first, second)
    )
    assert [cached for cached, *_ in made] == ["False", "False"]
    assert [cached for cached, *_ in loaded] == ["True", "True"]
    assert [figures for _, *figures in made] == [figures for _, *figures in loaded]
    assert all(planned == measured for _, planned, measured in made)


def test_a_call_rises_by_what_it_holds_at_one_time() -> None:
    def call() -> Any:
        first = torch.empty(1000)
        second = torch.empty(500)
        del first
        return second

    result, rise = measure_call(call, "cpu")
    assert result.shape == (500,)
    assert rise == Rise(most=6000, kept=2000)


def test_one_call_is_measured_at_a_time_also_while_a_profiler_runs() -> None:
    inner: list[Rise | None] = []

    def outer() -> None:
        inner.append(measure_call(lambda: torch.empty(10), "cpu")[1])

    assert measure_call(outer, "cpu")[1] == Rise(40, 0)
    assert inner == [None]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert measure_call(lambda: torch.empty(10), "cpu")[1] == Rise(40, 40)


def test_a_block_from_before_the_call_is_counted_when_it_is_returned() -> None:
    older = [torch.empty(1000), torch.empty(500)]
    addresses = [x.data_ptr() for x in older]
    held = {address: x.nbytes for address, x in zip(addresses, older, strict=True)}

    def call() -> Any:
        older.pop(0)
        return torch.empty(300)

    assert measure_call(call, "cpu", held)[1] == Rise(0, -2800, frozenset(addresses[:1]))


def test_without_a_counter_no_figure_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise UsageError("counting heap blocks needs a C compiler (cc)")

    monkeypatch.setattr(meter, "attached_heap", fail)
    assert measure_call(lambda: 5, "cpu") == (5, None)
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=1, measure=True):
        torch.compile(torch.nn.Linear(8, 8))(torch.randn(4, 8)).sum().backward()
    for record in plugins.records():
        assert record.measured is None
        assert "not measured: counting heap blocks needs a C compiler (cc)" in str(record)


def _step_with_gradient(model: Any, x: Any) -> Any:
    """Return a gradient that the program passes and holds, as it holds the output."""
    output = model(x)
    gradient = torch.ones_like(output)
    output.backward(gradient)
    return gradient


@pytest.mark.parametrize("holds_first", [True, False])
def test_inputs_that_the_program_holds_in_one_call_only_are_named(holds_first: bool) -> None:
    x = torch.randn(64, 32, requires_grad=True)
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=1, measure=True):
        model = torch.compile(torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.Tanh()))
        if holds_first:
            kept = _step_with_gradient(model, x)
            model(x).sum().mul(2).backward()
        else:
            model(x).square().sum().backward()
            kept = _step_with_gradient(model, x)
    assert kept.shape == (64, 48)
    _, backward = plugins.records()
    # The output, which is saved for the backward graph, and its gradient.
    size = 2 * 64 * 48 * 4
    text = (
        f"inputs of {size:,} bytes that the plan leaves to the program are freed"
        if holds_first
        else f"inputs of {size:,} bytes that the plan frees are held by the program"
    )
    assert backward.measured is not None
    assert backward.bound is not None
    assert backward.measured >= backward.bound
    assert backward.measured_note == text
    assert f"{text}), bound" in str(backward)


def test_measured_is_not_below_the_bound_where_autograd_hands_gradients_over() -> None:
    """Torch's profiler misses the release of the logits' gradient, and of what it took before."""
    x, y = torch.randn(16, 8, 32), torch.randint(0, 10, (16 * 8,))
    model = torch.nn.Sequential(torch.nn.LayerNorm(32), torch.nn.Linear(32, 64), torch.nn.GELU())
    head = torch.nn.Linear(64, 10)
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=1, measure=True):
        step = torch.compile(torch.nn.Sequential(model, head))
        for _ in range(3):
            logits = step(x).flatten(0, 1)
            torch.nn.functional.cross_entropy(logits, y).backward()
            del logits
    for record in plugins.records():
        assert record.measured == record.planned
        assert record.measured_note == ""


class FakeStatistics:
    """Counters of a GPU's allocator, as `torch.cuda` shows them."""

    def __init__(self) -> None:
        self.current = self.peak = self.resets = self.emptied = 0
        self.recording = False

    def change(self, size: int) -> None:
        self.current += size
        self.peak = max(self.peak, self.current)

    def reset_peak_memory_stats(self, device: str) -> None:
        self.resets += device == "cuda:0"
        self.peak = self.current

    def memory_stats(self, device: str) -> dict[str, int]:
        assert device == "cuda:0"
        return {
            "requested_bytes.all.current": self.current,
            "requested_bytes.all.peak": self.peak,
        }

    def empty_cache(self) -> None:
        self.emptied += 1

    def is_current_stream_capturing(self) -> bool:
        return self.recording


def test_on_a_gpu_the_allocators_own_counters_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = FakeStatistics()
    counters.change(700)
    counters.change(-200)
    monkeypatch.setattr(meter.torch, "cuda", counters)

    def call() -> str:
        counters.change(300)
        counters.change(-100)
        return "result"

    assert measure_call(call, "cuda:0") == ("result", Rise(300, 200))
    assert counters.resets == 1
    # Nothing may touch the counters while a CUDA graph is recorded.
    counters.recording = True
    assert measure_call(call, "cuda:0") == ("result", None)
    assert counters.resets == 1


def test_scratch_of_kernels_on_a_gpu_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch is the most that a call holds beyond its results; without memory it is not known."""
    counters = FakeStatistics()
    counters.change(700)
    monkeypatch.setattr(meter.torch, "cuda", counters)
    monkeypatch.setattr(kernels, "real_gpu", lambda target: "cuda:0")
    monkeypatch.setattr(kernels, "make_operands", lambda target, places: list(places))

    def call(target: Any, operands: Any) -> None:
        if target == "too large":
            raise torch.OutOfMemoryError("no memory")
        for change in target:
            counters.change(change)

    monkeypatch.setattr(kernels, "call_kernel", call)
    results = {(): ReturnedTensor(Place(40), None)}
    # A result of 40 bytes beside scratch of 300, scratch alone, a result alone.
    targets = {"both": (40, 300, -300), "scratch": (64, 32, -96), "result": (40,)}
    targets["lost"] = "too large"  # type: ignore[assignment]
    calls = {key: _FirstCall(target, (), results) for key, target in targets.items()}
    assert kernels._count(calls) == {
        "both": KernelMemory(300, results),
        "scratch": KernelMemory(96, results),
        "result": KernelMemory(0, results),
    }
    assert counters.emptied == 1
    # While a CUDA graph is recorded nothing is measured, and the kernels stay unknown.
    counters.recording = True
    assert kernels._count({"result": calls["result"]}) == {}
    assert kernels._count({}) == {}
    assert counters.emptied == 2


def test_the_first_calls_of_the_newest_graph_of_a_name_are_measured() -> None:
    graph = CompiledGraph("inductor", "0/0 forward", 3, before=9000, after=8000)
    remember(graph)
    remember(graph)
    kept: list[Any] = []
    module: dict[str, Any] = {"call": lambda args: kept.append(torch.empty(args[0]))}
    measure_calls(module, graph, Meter("cpu", 4000, (1,)))
    for count in (500, 1000, 2000):
        module["call"]([count, torch.empty(1000)])
    assert MEASURED_CALLS == 2
    assert [record.measured for record in plugins.records()] == [None, 8000]
    # A graph that was forgotten meanwhile is not remembered again.
    plugins.forget()
    note_measured(graph)
    assert plugins.records() == ()
