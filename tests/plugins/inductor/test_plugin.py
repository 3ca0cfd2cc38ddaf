"""Compiled steps in our order: less memory, equal gradients, and never a failed compilation."""

from __future__ import annotations

import logging
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optsched import plugins
from optsched.errors import MissingDependencyError, UsageError
from optsched.store import PlanStore
from optsched.store import file as store_file
from optsched.store.savings import record_savings

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import config  # noqa: E402

from optsched.plugins.inductor import enabled, options  # noqa: E402
from optsched.plugins.inductor.reading import support  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, QUICK_KERNELS, measure_calls, no_kernels  # noqa: E402
from tests.support.small_networks import NETWORKS, Broken, gradients, training_step  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    plugins.forget()


def small() -> tuple[Any, Any]:
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()), torch.randn(4, 8)


def run_small(network: Any, x: Any) -> Any:
    with torch.no_grad():
        return torch.compile(network)(x)


def test_measured_is_planned_and_below_inductor(
    capfd: pytest.CaptureFixture[str],
) -> None:
    network, inputs = NETWORKS["attention"]()
    with no_kernels(), config.patch(NO_CACHE):
        with enabled(time_limit=4, min_gain=0):
            step = training_step(network, inputs)
            step()
        assert capfd.readouterr().out == ""
        ours = measure_calls(step)
        records, report = plugins.records(), plugins.explain()
        torch._dynamo.reset()
        step = training_step(network, inputs)
        step()
        theirs = measure_calls(step)
    assert len(records) == 2
    for record, our, their in zip(records, ours, theirs, strict=True):
        assert record.before is not None
        assert record.after is not None
        assert record.before - record.after == their.peak - our.peak >= 0
        assert record.bound is None or record.bound <= record.after
    lower = [r for r in records if r.order]
    assert lower
    assert f"-> {lower[0].after:,}" in report


def test_gradients_are_right_where_those_of_stock_torch_are_not() -> None:
    network, inputs = NETWORKS["pooled"]()
    network(*inputs).backward()
    right = gradients(network)
    with config.patch(QUICK_KERNELS), enabled(time_limit=4):
        training_step(network, inputs)()
    for name, gradient in gradients(network).items():
        torch.testing.assert_close(gradient, right[name], rtol=1e-5, atol=1e-5)
    # Since torch 2.14 Inductor knows the dependency that its own order broke.
    assert ("a mutation needs" in plugins.explain()) is torch.__version__.startswith("2.13.")


def test_one_call_of_compile_with_options() -> None:
    """A setting that a graph changes is as before afterwards."""
    network, x = small()
    before = (config.reorder_for_peak_memory, config.allow_buffer_reuse)
    with no_kernels(), config.patch(NO_CACHE):
        torch.compile(network, options=options(time_limit=1))(x).sum().backward()
    assert [r.name.split()[1] for r in plugins.records()] == ["forward", "backward"]
    assert (config.reorder_for_peak_memory, config.allow_buffer_reuse) == before
    assert config._post_fusion_custom_pass is None


def test_a_decorated_step_of_several_graphs() -> None:
    network = Broken()

    @enabled(time_limit=1)
    def step(x: Any) -> None:
        torch.compile(network)(x).backward()

    with no_kernels(), config.patch(NO_CACHE):
        step(torch.randn(4, 8))
    phases = sorted(r.name.split()[1] for r in plugins.records())
    assert phases == ["backward", "backward", "forward", "forward"]
    assert all(r.before is not None for r in plugins.records())


def test_cached_graphs_are_those_of_the_same_plans(tmp_path: Path, monkeypatch: Any) -> None:
    """A second compilation comes from the cache, and says so; other settings are another graph."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    network, x = small()
    seen = []
    with no_kernels(), config.patch(fx_graph_cache=True, compile_threads=1):
        for time_limit in (1, 1, 2):
            torch._dynamo.reset()
            plugins.forget()
            with enabled(time_limit=time_limit):
                run_small(network, x)
            (record,) = plugins.records()
            seen.append(record)
    first, again, other = seen
    assert [record.cached for record in seen] == [False, True, False]
    assert again == replace(first, name=again.name, seconds=0.0, solver_seconds=0.0, cached=True)
    assert again.name.endswith("inference")
    assert str(again).startswith(f"inductor {again.name}, out of its cache: 2 ops, peak 128 bytes")
    assert other.after == first.after


CACHED_STEP = """
import torch
from optsched import plugins
from optsched.plugins.inductor import enabled
from tests.support.compiled_memory import no_kernels
from tests.support.small_networks import NETWORKS, training_step
torch.manual_seed(0)
network, inputs = NETWORKS["attention"]()
with no_kernels(), enabled(time_limit=2, min_gain=0):
    training_step(network, inputs)()
print(plugins.explain())
"""


def test_another_process_says_what_runs_out_of_the_caches(tmp_path: Path) -> None:
    """Forward and backward graph come out of the caches of AOTAutograd and Inductor."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "PYTHONPATH": "."}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", CACHED_STEP],
            env=environment,
            text=True,
            capture_output=True,
            check=True,
        ).stdout.splitlines()
        for _ in range(2)
    )
    assert not any("cache" in line for line in first)
    fresh = [line.rpartition("; ")[0].replace(":", ", out of its cache:", 1) for line in first]
    assert sorted(second) == sorted(fresh)
    assert any("-> " in line for line in second)


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("torch._inductor.custom_graph_pass.CustomSchedulerPass", "CustomSchedulerPass"),
        ("torch._inductor.config._post_fusion_custom_pass", "_post_fusion_custom_pass"),
    ],
)
def test_a_torch_without_the_hook_is_one_line(lost: str, said: str) -> None:
    """In a process of its own, as torch's modules are not to be loaded before."""
    code = f"""
import logging, torch, torch._inductor.config, torch._inductor.custom_graph_pass
from optsched.plugins.inductor import enabled, options
logging.basicConfig(format="%(message)s")
home, name = {lost!r}.rsplit(".", 1)
module = __import__(home, fromlist=[name])
if module is torch._inductor.config:
    del module._config[name]
else:
    delattr(module, name)
with enabled(time_limit=1):
    assert torch.ones(1) == 1
"""
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    (line,) = done.stderr.splitlines()
    assert f"torch {torch.__version__} is not supported, no order changed: " in line
    assert said in line


def test_the_pass_can_be_pickled_and_names_its_settings() -> None:
    first, second = options(time_limit=1), options(time_limit=2)
    compiled_by = first["_post_fusion_custom_pass"]
    again = pickle.loads(pickle.dumps(compiled_by))
    assert again.uuid() == compiled_by.uuid() != second["_post_fusion_custom_pass"].uuid()


def test_a_plan_is_found_in_the_store(tmp_path: Path) -> None:
    """The second compilation asks no solver and runs the same order."""
    store = tmp_path / "plans.db"
    network, inputs = NETWORKS["attention"]()
    found = []
    with no_kernels(), config.patch(NO_CACHE):
        for _ in range(2):
            plugins.forget()
            torch._dynamo.reset()
            # Cuts are searched again each time, so that they differ if time runs out.
            with enabled(time_limit=4, store=store, min_gain=0, split=False):
                training_step(network, inputs)()
            found.append(plugins.records())
    for first, second in zip(*found, strict=True):
        assert first.solver_seconds > 0 == second.solver_seconds
        assert second.after == first.after
        assert (second.bound, second.proof) == (first.bound, first.proof)
    assert any("order: store" in record.order for record in found[1])
    # The bytes of Inductor's own order stand with the plans, so that their savings are known.
    records = PlanStore(store).records()
    savings = record_savings(records)
    assert len(savings) == len(records) > 0
    assert all((saving.saved or 0) >= 0 for saving in savings)
    assert {saving.against for saving in savings} == {"Inductor's own order"}


@pytest.mark.parametrize("content", [b"no database at all" * 100, b""])
def test_a_broken_store_is_one_line(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "plans.db"
    store.write_bytes(content)
    network, x = small()
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=1, store=store):
        run_small(network, x)
    lines = [r for r in caplog.records if r.name.startswith("optsched")]
    assert len(lines) == 1
    assert str(store) in lines[0].getMessage()
    assert store.read_bytes() == content


def wave(x: Any) -> Any:
    return x.sin().sum(0)


def compile_wave(store: Path, length: int) -> None:
    torch._dynamo.reset()
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=1, store=store):
        torch.compile(wave)(torch.ones(2, length))


def of_a_newer_version(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA user_version = 99")


def of_another_graph(store: Path) -> None:
    """The stored plan of this graph is useless."""
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE records SET plan = x'1f8b'")


@pytest.mark.parametrize("damage", [of_a_newer_version, of_another_graph])
def test_a_store_of_no_use_is_one_line(
    damage: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "plans.db"
    compile_wave(store, 4)
    assert plugins.records()[-1].after is not None
    assert not [r for r in caplog.records if r.name.startswith("optsched")]
    damage(store)
    compile_wave(store, 4)
    (line,) = [r for r in caplog.records if r.name.startswith("optsched")]
    assert str(store) in line.getMessage()
    assert plugins.records()[-1].after is None


def test_a_locked_store_is_one_line_and_one_that_is_only_read_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known graphs are served meanwhile; the plan of a new one cannot be stored."""
    store = tmp_path / "plans.db"
    compile_wave(store, 4)
    monkeypatch.setattr(store_file, "SECONDS_TO_WAIT", 0.05)
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        compile_wave(store, 4)
        assert plugins.records()[-1].after is not None
        compile_wave(store, 5)
    (line,) = [r for r in caplog.records if r.name.startswith("optsched")]
    assert "locked" in line.getMessage()
    monkeypatch.setattr(store_file.StoreFile, "is_writable", lambda _: False)
    compile_wave(store, 6)
    assert plugins.records()[-1].after is not None
    assert len([r for r in caplog.records if r.name.startswith("optsched")]) == 1


def test_two_threads_compile_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each graph gets its order, and computes what it did."""
    sizes: dict[int, tuple[int, ...]] = {}

    def compile_one(length: int) -> None:
        with config.patch(NO_CACHE), enabled(time_limit=1):
            sizes[length] = tuple(torch.compile(wave)(torch.ones(2, length)).shape)

    threads = [threading.Thread(target=compile_one, args=(length,)) for length in (4, 5)]
    with no_kernels():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sizes == {4: (4,), 5: (5,)}
    assert all(record.after is not None for record in plugins.records())
    assert len(plugins.records()) == 2
    assert not [r for r in caplog.records if r.name.startswith("optsched")]


def test_dynamic_shapes_count_by_their_hints() -> None:
    network, x = small()
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=1), torch.no_grad():
        compiled = torch.compile(network, dynamic=True)
        compiled(x)
    (record,) = plugins.records()
    assert record.before == 4 * 8 * 4


def broken_hook(*_: object) -> None:
    raise RuntimeError("something new\nin two lines")


@pytest.mark.parametrize(
    ("time_limit", "patched", "line"),
    [
        (0, {}, "time_limit must be positive, got 0.0"),
        (1, {"is_tested": lambda _: False}, f"torch {torch.__version__} is not one of 2.13, 2."),
        (1, {"_require_node": broken_hook}, "RuntimeError: something new"),
    ],
)
def test_whatever_goes_wrong_inductor_compiles_and_one_line_says_so(
    time_limit: float,
    patched: dict[str, Any],
    line: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in patched.items():
        monkeypatch.setattr(support, name, value)
    network, x = small()
    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=time_limit):
        run_small(network, x)
    lines = [r for r in caplog.records if r.name.startswith("optsched")]
    assert len(lines) == 1
    assert lines[0].levelno == logging.WARNING
    assert line in lines[0].getMessage()
    assert "\n" not in lines[0].getMessage()
    assert line in plugins.records()[0].reason
    assert plugins.records()[0].after is None


def test_conditionals_keep_their_order() -> None:
    def branches(x: Any) -> Any:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x.exp(),)) + x.tanh()

    with no_kernels(), config.patch(NO_CACHE), enabled(time_limit=1), torch.no_grad():
        torch.compile(branches)(torch.ones(4))
    assert "holds graphs of its own" in plugins.explain()


def test_threads_do_not_share_settings() -> None:
    """A context is one thread's: what another compiles meanwhile is Inductor's alone."""
    network, x = small()
    failures: list[BaseException] = []

    def compile_alone() -> None:
        try:
            with no_kernels(), config.patch(NO_CACHE):
                run_small(network, x)
        except BaseException as error:
            failures.append(error)

    with enabled(time_limit=1):
        thread = threading.Thread(target=compile_alone)
        thread.start()
        thread.join()
    assert not failures
    assert plugins.records() == ()


def test_wrong_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (-1, float("nan"), float("inf"), "5"):
        with pytest.raises(UsageError, match="time_limit"):
            options(time_limit=wrong)  # type: ignore[arg-type]
    with (
        config.patch(_post_fusion_custom_pass=broken_hook),
        pytest.raises(UsageError, match="is already set to"),
        enabled(),
    ):
        pass
    monkeypatch.setitem(__import__("sys").modules, "torch._inductor", None)
    with pytest.raises(MissingDependencyError, match="run: pip install 'torch<"), enabled():
        pass
