"""Modules solved as a whole: against enumeration, by hand, and where callees stay open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optsched import Call, GraphBuilder, Module, Result, solve_module
from optsched.certificate import certify_module
from optsched.check.module import check_module, check_schedule
from optsched.errors import UsageError
from optsched.formats import read_module
from optsched.reports.module import module_record, module_text
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import Limits, StopReason
from optsched.solver import module as room
from optsched.solver.pipeline import answer, solve
from tests.fuzz import modules
from tests.model.test_module import chain, three
from tests.support.generators import PLANNABLE
from tests.support.interrupts import interrupt_at
from tests.support.module_oracle import least_of, peak_of, random_module

HLO = Path(__file__).parents[2] / "instances" / "hlo"


def test_modules_agree_with_enumeration() -> None:
    counts, wrong = modules.compare(modules=60, seed=7)
    assert wrong == 0
    assert counts["calls"] > 40
    assert (counts["slabs"], counts["certificates"]) == (12, 6)


def test_without_time_bounds_hold_for_all_plans_of_all_computations() -> None:
    """Out of time, a callee that is open has a bound by single ops, and no search of its own."""
    rng = np.random.default_rng(11)
    open_ = 0
    for number in range(60):
        module = random_module(rng, features=PLANNABLE | {"shuffled"})
        if number % 2:
            module = module.with_graphs(lambda graph: graph.with_inplace())
        for objective in ("peak", "slab"):
            found = solve_module(module, objective=objective, time_limit=1e-6)
            least = least_of(module, peak_of)
            entry = found.entry
            assert entry.peak is not None
            assert entry.peak_bound <= least <= entry.peak
            assert entry.slab is None or entry.slab_bound <= entry.slab
            assert entry.peak_proof is None or entry.peak == least
            open_ += entry.peak_proof is None
    assert open_ > 20


def wide(name: str) -> Any:
    """Two branches whose order matters: 9 bytes live at the least, 11 at the most."""
    build = GraphBuilder(name)
    build.op("big", writes={"b": 8})
    build.op("small", reads=["b"], writes={"s": 1})
    build.op("other", writes={"o": 2})
    build.op("join", reads=["s", "o"], writes={"y": 1})
    return build.build()


def nested() -> Module:
    """`main` runs `middle`, which runs `wide` in one of its branches."""
    graphs = {"main": chain("main", 5, 7, 2), "middle": chain("middle", 3, 4), "wide": wide("wide")}
    calls = (Call("main", "op1", ("middle",)), Call("middle", "op1", ("wide", "wide")))
    return Module("nested", graphs, "main", calls)


def test_the_whole_is_planned_from_the_inside_out() -> None:
    found = solve_module(nested())
    assert list(found.results) == ["wide", "middle", "main"]
    assert {name: (x.peak, x.slab) for name, x in found.results.items()} == {
        "wide": (9, 9),
        "middle": (3 + 4 + 9, 16),
        "main": (5 + 7 + 16, 28),
    }
    assert (found.status, found.entry.peak_proof, found.entry.slab_proof) == ("optimal", "L2", "L5")
    assert found.covers_interleaving
    assert found.plans is not None
    assert check_module(found.module, found.plans).slabs["main"] == 28


def test_peaks_count_live_bytes_of_callees_and_slabs_their_blocks() -> None:
    """If a callee cannot be packed without holes, its caller's live bytes do not have them."""
    build = GraphBuilder("holes", alignment=4)
    for name in "abc":
        build.op(name, writes={f"{name}1": 1})
    build.op("join", reads=["a1", "b1", "c1"])
    module = Module(
        "m",
        {"holes": build.build(), "main": chain("main", 5)},
        "main",
        (Call("main", "op0", ("holes",)),),
    )
    for objective in ("slab", "peak"):
        entry = solve_module(module, objective=objective).entry
        assert (entry.peak, entry.peak_bound) == (8, 8)
        assert entry.slab == 14
        assert entry.status == "optimal"


def test_an_order_of_least_peak_is_packed_with_its_in_place_pairs() -> None:
    """Callees whose slabs exceed their peaks give an order that is packed once more."""
    rng, again = np.random.default_rng(5), 0
    for _ in range(60):
        module = random_module(rng, features=PLANNABLE | {"shuffled"})
        found = solve_module(module, objective="peak", inplace=True)
        for name, result in found.results.items():
            called = [found.results[callee] for callee in module.callees_of(name)]
            if all(callee.slab == callee.peak for callee in called) or not result.graph.in_place:
                continue
            order, again = result.plan.order, again + 1
            assert result.slab == solve(result.graph, baseline=order, max_moved=0).slab
    assert again > 3


def test_results_inside_have_peaks_only() -> None:
    module = three(inside=True)
    found = solve_module(module, objective="peak")
    assert (found.entry.peak, found.entry.slab, found.plans) == (12 + 2, None, None)
    assert check_schedule(module, found.orders)["main"] == 14
    assert "offsets" not in found.to_dict()["computations"]["main"]
    with pytest.raises(UsageError, match="only the objective 'peak' can be asked for"):
        solve_module(module)


def test_a_graph_is_no_module() -> None:
    with pytest.raises(UsageError, match="a Module is wanted, got Graph: solve plans a graph"):
        solve_module(chain("main", 5))  # type: ignore[arg-type]


def test_a_capacity_is_of_the_whole() -> None:
    assert solve_module(nested(), capacity=28).entry.stop_reason == "decided"
    assert solve_module(nested(), capacity=27).status == "infeasible"


def test_the_entry_may_have_pools() -> None:
    build = GraphBuilder("main")
    build.op("a", writes={"x": 5})
    build.op("b", reads=["x"], writes={"y": 6})
    build.op("c", reads=["y"], writes={"z": 7})
    for name, pool in (("x", "fast"), ("y", "fast"), ("z", "slow")):
        build.place(name, pool=pool)
    graphs = {"main": build.build(), "wide": wide("wide")}
    found = solve_module(Module("m", graphs, "main", (Call("main", "c", ("wide",)),)))
    # fast 5 + 6, slow 7, and the block of 9 in the pool without a name.
    assert (found.entry.slab, found.entry.slab_bound, found.status) == (27, 27, "optimal")
    assert found.entry.slab_proof == "L5"


def weakened(field: str, names: set[str]) -> Callable[..., Result]:
    """A solver that proves less than the minimum of some computations."""

    def solved(question: Any, **options: Any) -> Result:
        found = answer(question, **options)
        if question.graph.name not in names:
            return found
        assert found.slab is not None
        return replace(
            found,
            slab_bound=found.slab - 1,
            peak_bound=found.slab - 1,
            peak_proof=None,
            slab_proof=None,
            stop_reason=StopReason.TIME_LIMIT,
        )

    return solved


def test_what_is_open_in_a_callee_is_open_in_its_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "answer", weakened("slab", {"wide"}))
    found = solve_module(nested())
    entry = found.entry
    assert (entry.slab, entry.slab_bound, entry.peak_bound) == (28, 27, 27)
    assert (found.status, entry.slab_proof, entry.stop_reason) == ("feasible", None, "time limit")


def test_what_is_open_in_a_callee_may_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block of `body` is smaller than that of `test`, for any minimum."""
    monkeypatch.setattr(room, "answer", weakened("slab", {"body"}))
    found = solve_module(three())
    assert (found.entry.slab, found.entry.slab_bound) == (21, 21)
    assert found.status == "optimal"
    assert found.results["body"].status == "feasible"


def without_plan(names: set[str]) -> Callable[..., Result]:
    """A solver that finds no plan of some computations in time."""

    def solved(question: Any, **options: Any) -> Result:
        found = answer(question, **options)
        if question.graph.name not in names:
            return found
        none = replace(found, plan=None, peak=None, slab=None, peak_proof=None, slab_proof=None)
        return replace(none, stop_reason=StopReason.TIME_LIMIT)

    return solved


@pytest.mark.parametrize("objective", ["peak", "slab"])
@pytest.mark.parametrize("name", ["wide", "middle", "main"])
def test_without_a_plan_of_one_computation_the_whole_is_unknown(
    name: str, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    least = solve_module(nested(), objective=objective)
    monkeypatch.setattr(room, "answer", without_plan({name}))
    found = solve_module(nested(), objective=objective)
    assert (found.status, found.entry.stop_reason) == ("unknown", "time limit")
    assert (found.plans, found.entry.plan, found.entry.slab) == (None, None, None)
    assert found.entry.slab_bound == least.entry.slab_bound
    assert "none found" in module_text(found, module_record(found))
    written = certify_module(found.module, found.orders, found.peak_bounds, limits=Limits())
    for part in written.values():
        assert part.certificate.bound <= least.entry.peak_bound


def test_without_an_order_of_the_entry_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "answer", without_plan({"main"}))
    found = solve_module(three(inside=True), objective="peak")
    assert (found.status, found.entry.peak) == ("unknown", None)
    assert set(found.orders) == {"body", "test"}


def test_an_interrupt_in_any_search_ends_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    # The entry said "time limit", and the command ended with 3 where 130 is right.
    module = read_module(HLO / "scan-unscheduled.txt")
    for call in range(1, 7):
        monkeypatch.setattr(room, "answer", interrupt_at(call, answer))
        with held_interrupts():
            entry = solve_module(module, objective="peak", time_limit=60).entry
        assert entry.stop_reason == "interrupted" or entry.status == "optimal"
