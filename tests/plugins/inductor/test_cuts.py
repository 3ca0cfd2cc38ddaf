"""Cuts of fused nodes while a step is compiled: measured as simulated, and lower."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._functorch import config as functorch_config  # noqa: E402
from torch._functorch.partitioners import min_cut_rematerialization_partition  # noqa: E402
from torch._inductor import config as inductor_config  # noqa: E402
from torch._inductor.custom_graph_pass import CustomPartitionerFn  # noqa: E402
from torch._inductor.virtualized import V  # noqa: E402

from optsched.errors import UsageError  # noqa: E402
from optsched.plugins.inductor import enabled, options, scheduler_pass  # noqa: E402
from optsched.plugins.inductor.capture import capture  # noqa: E402
from optsched.plugins.inductor.cuts import find as cuts  # noqa: E402
from optsched.plugins.inductor.orders import node_order  # noqa: E402
from optsched.plugins.inductor.recompute import calibrate, joint_step  # noqa: E402
from optsched.plugins.inductor.recompute.hidden_bytes import HiddenBytes  # noqa: E402
from optsched.plugins.inductor.wrapper.simulate import simulate  # noqa: E402
from optsched.plugins.records import forget, records  # noqa: E402
from optsched.runtime import clock  # noqa: E402
from optsched.runtime.limits import StopReason  # noqa: E402
from optsched.solver.fusion import front  # noqa: E402
from optsched.solver.fusion.result import FusionResult  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, measure_calls, no_kernels  # noqa: E402
from tests.support.shared_layers import SharedLayers  # noqa: E402

LIMIT = 500.0
"""Enough for proofs on a machine with a load of ten; the searches end with these, not by time."""


@contextmanager
def compiled_step(split: str | bool, **how: Any) -> Iterator[Any]:
    """Compile a training step that computes its layers again in the backward pass."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    forget()
    network, x = SharedLayers(2, 32, 2), torch.randn(2, 64, 32)
    with (
        no_kernels(),
        inductor_config.patch(NO_CACHE),
        functorch_config.patch(activation_memory_budget=0.5, enable_autograd_cache=False),
        enabled(time_limit=LIMIT, split=split, min_gain=0, **how),
    ):
        compiled = torch.compile(network)

        def step() -> None:
            network.zero_grad()
            compiled(x).backward()

        step()
        yield step


def only_the_best_split(result: FusionResult, *_: Any) -> front.Front:
    """Stand in for the search for few cuts, which takes most of the time."""
    return front.Front((result.whole, result.best), StopReason.EXHAUSTED)


def test_cut_steps_need_what_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[cuts.Cuts] = []

    def find(*args: Any, **how: Any) -> cuts.Cuts | None:
        made = cuts.find_cuts(*args, **how)
        found.extend([] if made is None else [made])
        return made

    monkeypatch.setattr(scheduler_pass, "find_cuts", find)
    with compiled_step("peak") as step:
        calls = measure_calls(step)
    backward = records()[1]
    assert found
    taken = found[-1].decision.best
    simulated = simulate(found[-1].facts, taken.order, reuse=taken.reuse)
    assert backward.after == simulated.peak
    assert calls[1].peak == simulated.peak - simulated.start
    assert "cut op" in backward.fusion
    assert "saves" in backward.fusion
    # An input is named as Inductor names it, not by the address of its bytes.
    assert "storage" not in backward.fusion
    # The order alone needs at least a tenth more.
    ordered = int(backward.order.rpartition("nodes ")[2].removesuffix(" bytes").replace(",", ""))
    assert backward.after <= 0.9 * ordered
    assert backward.bound is not None
    assert backward.bound <= found[-1].found.point.peak


def test_cuts_that_need_more_in_the_orders_found_are_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []

    def find(nodes: Any, facts: Any, decision: Any, kernels: Any, decide: Any, **how: Any) -> Any:
        before = decision.best if decision.gains else decision.own

        def hurried(made: Any, seconds: float) -> Any:
            # As if no good order of the nodes after cuts were found in time.
            made_facts, found = decide(made, seconds)
            tried.append(before.peak)
            return made_facts, replace(found, best=replace(found.best, peak=before.peak + 1))

        made = cuts.find_cuts(nodes, facts, decision, kernels, hurried, **how)
        assert made is None
        return made

    monkeypatch.setattr(scheduler_pass, "find_cuts", find)
    monkeypatch.setattr(cuts, "find_front", only_the_best_split)
    with compiled_step("peak"):
        pass
    assert tried
    assert not any(record.fusion for record in records())
    # The order alone is what is compiled.
    assert records()[1].after == tried[-1]


def test_nodes_that_cannot_be_rebuilt_stay(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("no such loop")

    monkeypatch.setattr(cuts, "rebuilt", fail)
    monkeypatch.setattr(cuts, "find_front", only_the_best_split)
    with caplog.at_level(logging.WARNING), compiled_step("peak") as step:
        step()
    said = [row.getMessage() for row in caplog.records]
    # One line for the backward graph, whose cuts are worth it.
    lines = [x for x in said if "fused nodes left to Inductor" in x]
    assert len(lines) == 1
    assert lines[0].endswith("fused nodes left to Inductor: ValueError: no such loop")
    assert all(record.after is not None and not record.fusion for record in records())


def test_a_late_error_leaves_inductors_own_nodes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held: list[tuple[Any, dict[str, Any], dict[str, Any]]] = []
    call = scheduler_pass.SchedulerPass.__call__

    def watched(self: Any, nodes: list[Any]) -> list[Any]:
        known = V.graph.scheduler.name_to_fused_node
        before, ordered = dict(known), call(self, nodes)
        assert ordered is nodes
        held.append((nodes, before, dict(known)))
        return ordered

    def fail(*_: Any) -> None:
        raise ValueError("no such buffer")

    monkeypatch.setattr(scheduler_pass.SchedulerPass, "__call__", watched)
    monkeypatch.setattr(scheduler_pass, "expect_lives", fail)
    monkeypatch.setattr(cuts, "find_front", only_the_best_split)
    with (
        caplog.at_level(logging.WARNING),
        compiled_step("peak", lifecycle="log") as step,
    ):
        step()
    said = [row.getMessage() for row in caplog.records]
    assert sum("order left to Inductor: ValueError: no such buffer" in x for x in said) == 2
    assert all(not record.fusion and record.reason for record in records())
    for given, before, after in held:
        assert before == after
        assert {after[x.get_name()] for node in given for x in node.get_nodes()} == set(given)


@pytest.mark.parametrize("stage", ["search_fusion", "find_front"])
def test_ctrl_c_ends_the_compilation(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def interrupted(*args: Any, **how: Any) -> Any:
        seen.append(args)
        return replace(found(*args, **how), stop_reason=StopReason.INTERRUPTED)

    monkeypatch.setattr(cuts, "find_front", only_the_best_split)
    found = getattr(cuts, stage)
    monkeypatch.setattr(cuts, stage, interrupted)
    with pytest.raises(KeyboardInterrupt), compiled_step("peak"):
        pass
    assert len(seen) == 1


def test_order_and_cuts_share_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    decide, now = node_order.decide, clock._Meter.now

    def slow(*args: Any, **how: Any) -> Any:
        # As if each order took half of the time.
        given.append(how["seconds"])
        return decide(*args, **how)

    later = lambda meter: now(meter) + len(given) * LIMIT / 2  # noqa: E731
    monkeypatch.setattr(clock._Meter, "now", later)
    monkeypatch.setattr(node_order, "decide", slow)
    monkeypatch.setattr(cuts, "find_front", only_the_best_split)
    with compiled_step("peak"):
        pass
    again = [seconds for seconds in given if seconds != LIMIT]
    assert again
    assert max(again) <= LIMIT / 2


class CutToFit(CustomPartitionerFn):  # type: ignore[misc]
    """PyTorch's split, simulated without cuts and with those for a few budgets."""

    peaks: ClassVar[list[int]] = []

    def uuid(self) -> None:
        """Return None: nothing of this is cached."""

    def __call__(self, joint: Any, inputs: Any, **how: Any) -> Any:
        modules = min_cut_rematerialization_partition(joint, inputs, **how)
        static = how.get("static_lifetime_input_indices") or ()
        given = (modules, LIMIT, how["num_fwd_outputs"], static)
        plain = calibrate.simulate_step(*given).peak
        self.peaks.clear()
        for budget in (int(0.95 * plain), int(0.1 * plain), plain, int(0.95 * plain)):
            found = calibrate.simulate_step(*given, budget=budget, split="auto")
            self.peaks.append(found.peak - budget)
            # Only cuts move more bytes.
            assert found.traffic == 0 or found.peak < found.whole
        return modules


def test_cuts_are_tried_before_more_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    # No cut is cheap enough, so those that are taken are there for the budget.
    monkeypatch.setattr(cuts, "Price", lambda: front.Price(Fraction(-1), Fraction(-1)))
    searched: list[Any] = []

    def search(*args: Any, **how: Any) -> Any:
        searched.append(how["wanted"])
        return find(*args, **how)

    find = cuts.search_fusion
    monkeypatch.setattr(cuts, "search_fusion", search)
    monkeypatch.setattr(cuts, "find_front", only_the_best_split)
    with (
        inductor_config.patch(custom_partitioner_fn=CutToFit()),
        compiled_step(False),
    ):
        pass
    fits, too_small, unneeded, again = CutToFit.peaks
    assert fits <= 0 < too_small
    assert unneeded == 0
    assert again == fits
    # Not above its budget, a step is not searched, and what fitted once is known.
    assert len(searched) <= 4


def test_a_step_within_its_peak_is_compiled_as_it_was_simulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def get(key: Any) -> Any:
        asked.append(key)
        return original(key)

    original = scheduler_pass.EARLIER_ORDERS.get
    monkeypatch.setattr(scheduler_pass.EARLIER_ORDERS, "get", get)
    with compiled_step("peak", peak=2**30) as step:
        calls = measure_calls(step)
    # The backward graph is known as well, although its saved tensors have addresses by then.
    assert set(asked[-2:]) <= set(asked[:-2])
    joint, forward, backward = records()
    assert joint.after is not None
    # Cuts would save bytes that nobody asked for, and need more kernels.
    assert not forward.fusion
    assert not backward.fusion
    assert "above the" not in forward.note + backward.note
    assert joint.after == max(forward.planned or 0, backward.planned or 0)
    # The backward graph is given what is saved, and no bytes of its own are freed before that.
    assert calls[0].peak == forward.planned


def test_a_graph_above_its_peak_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if a simulation with shorter limits had found better orders and cuts than the compilation.
    fits = calibrate.StepMemory(1, 1, 1, HiddenBytes({}, {}))
    monkeypatch.setattr(joint_step, "simulate_step", lambda *_, **__: fits)
    with compiled_step(False, peak=400_000):
        pass
    joint, *graphs = records()
    assert joint.after == 1
    above = [row for row in graphs if "bytes that it may need within the peak" in row.note]
    assert above
    assert all((row.planned or 0) > 400_000 for row in above)


def test_unknown_kinds_are_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from optsched.plugins.inductor.cuts import parts as reader

    seen: list[Any] = []

    def read(*args: Any) -> Any:
        seen.append(original(*args))
        return seen[-1]

    original = reader.read_parts
    monkeypatch.setattr(reader, "_CUT", ())
    monkeypatch.setattr(cuts, "read_parts", read)
    with compiled_step("auto"):
        pass
    assert seen
    for parts in seen:
        assert not parts.fused.nodes
        assert parts.fused.whole
        assert all(reason.startswith("it is a ") for _, reason in parts.fused.whole)


class Foreach(torch.nn.Module):
    """Ops on lists of tensors, which Inductor puts into one node for a GPU, and a fused kernel."""

    def forward(self, given: list[torch.Tensor], y: torch.Tensor) -> Any:
        """Return sums."""
        made = torch._foreach_mul(torch._foreach_add(given, 1.0), 2.0)
        return [x.sum() for x in made], (y.sin().sum(-1, keepdim=True) + y).relu().sum()


def test_foreach_nodes_are_left_whole_and_named() -> None:
    def build() -> Any:
        return Foreach(), ([torch.rand(64, 64) for _ in range(4)], torch.rand(64, 64)), {}

    (graph,) = capture(build, phase="infer", fake_cuda=True, parts=True)
    whole = graph.document["extra"]["fusion"]["whole"]
    assert list(whole.values()) == ["it is a ForeachKernelSchedulerNode"]


def test_other_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="split must be 'auto', 'peak' or False, got 'all'"):
        options(split="all")
