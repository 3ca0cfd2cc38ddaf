"""solve(): right on graphs solved by hand, never worse than a heuristic, honest when stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from heuristics import ORDERINGS
from heuristics.portfolio import ONE_POOL, candidate_offsets
from optsched.check.plan import Checked, check_plan
from optsched.errors import GraphError, PlanError
from optsched.model.arrays import IntArray
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.origin import Origin
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan
from optsched.model.pools import sum_of_slabs
from optsched.model.question import Question
from optsched.runtime import clock as clock_module
from optsched.runtime.clock import Clock
from optsched.runtime.limits import SIZES, Event, Limits, Objective, Proof, StopReason
from optsched.solver import known, order_packing, pipeline, stages
from optsched.solver.driver import Stage
from optsched.solver.effort import ORDERS
from optsched.solver.finding import Finding
from optsched.solver.known import Known
from optsched.solver.order_packing import found_orders
from optsched.solver.pipeline import solve
from optsched.solver.resume import Resume
from optsched.solver.schedule import Engine, stages_of
from optsched.solver.status import Status
from tests.support.brute import least_peak
from tests.support.families.small import SMALL_GRAPHS, diamond
from tests.support.families.wiring import random_wiring
from tests.support.generators import FEATURES, PLANNABLE, random_graph, random_order


@pytest.mark.parametrize("make", SMALL_GRAPHS, ids=lambda make: make.__name__)
def test_small_graphs_as_solved_by_hand(make: Callable[[], Graph]) -> None:
    graph, (peak, slab) = make(), SMALL_GRAPHS[make]
    result = solve(graph)
    assert (result.peak, result.slab) == (peak, slab)
    assert result.peak_proof in (Proof.BOUND, Proof.SEARCH)
    if slab == peak:
        assert result.status is Status.OPTIMAL
        assert result.slab_proof is Proof.JOINT
    assert result.plan is not None
    check_plan(graph, result.plan, peak=peak, slab=slab)


def test_easy_graphs_start_no_solver_and_no_compiler() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from tests.support.families.small import diamond; "
        "from optsched import solve; assert solve(diamond()).status == 'optimal'; "
        "print(sorted({'numba', 'ortools', 'pulp', 'networkx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("objective", SIZES)
def test_random_graphs_are_never_worse_than_heuristics_nor_better_than_the_optimum(
    objective: Objective,
) -> None:
    rng = np.random.default_rng(21)
    proved = 0
    for _ in range(60):
        graph = random_graph(rng, ops=int(rng.integers(1, 8)), features=PLANNABLE - {"alignment"})
        result = solve(graph, objective=objective, limits=Limits(seconds=1))
        optimum = least_peak(graph)
        assert result.plan is not None
        assert result.peak is not None
        check_plan(graph, result.plan, peak=result.peak, slab=result.slab)
        assert result.peak_bound <= optimum <= result.peak
        if objective is Objective.PEAK:
            assert result.peak <= min(peak_memory(graph, o(graph, 0)) for o in ORDERINGS.values())
            assert result.peak == optimum
            assert result.status is Status.OPTIMAL
        proved += result.status is Status.OPTIMAL
    assert proved >= 45


def test_events_move_one_way_and_end_at_the_result() -> None:
    rng = np.random.default_rng(3)
    events: list[Event] = []
    graph = random_graph(rng, ops=40)
    result = solve(graph, limits=Limits(seconds=0.5), on_event=events.append)
    values = [e.incumbent for e in events if e.incumbent is not None]
    bounds = [e.bound for e in events]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    assert values[-1] == result.slab
    assert result.trace == tuple(events)


def test_orders_of_the_search_are_told_of_where_the_peak_is_asked_for() -> None:
    graph = random_wiring(40, 0, unit=False)
    events: list[Event] = []
    result = solve(graph, objective=Objective.PEAK, on_event=events.append)
    values = [e.incumbent for e in events if e.incumbent is not None]
    assert values == sorted(values, reverse=True)
    assert values[-1] == result.peak
    lower = next(e for e in events if e.incumbent is not None and e.incumbent < values[0])
    assert lower.source == "order search"
    assert result.order_search["stored"] > 0
    assert result.order_search["ops"] == len(graph.ops)


def test_same_seed_same_plan() -> None:
    graph = random_graph(np.random.default_rng(4), ops=40, features=PLANNABLE - {"alignment"})
    first, second = solve(graph), solve(graph)
    assert first.plan == second.plan


def test_capacity_is_decided_with_a_plan_or_a_proof() -> None:
    graph = next(iter(SMALL_GRAPHS))()
    fits = solve(graph, capacity=12)
    assert fits.stop_reason is StopReason.DECIDED
    assert fits.slab is not None
    assert fits.slab <= 12
    too_small = solve(graph, capacity=11)
    assert too_small.status is Status.INFEASIBLE
    assert too_small.slab_bound == 12


def test_what_fits_is_said_of_the_slab_whatever_the_objective() -> None:
    build = GraphBuilder("aligned")
    build.input("x", 3, policy="kept")
    build.op("op", reads=["x"], writes={"y": 3})
    build.place("y", alignment=4)
    graph = build.build()
    assert solve(graph, objective="peak").slab == 7
    fits = solve(graph, objective="peak", capacity=6)
    assert (fits.slab, fits.stop_reason) == (6, StopReason.DECIDED)


def test_interrupt_keeps_the_best_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> Iterator[Finding[Plan]]:
        raise KeyboardInterrupt

    first = stages_of(Engine.HEURISTICS, pipeline.answer)[0]
    monkeypatch.setattr(pipeline, "schedule", lambda *_, **__: (first, Stage(interrupted)))
    graph = random_graph(np.random.default_rng(4), ops=40)
    result = solve(graph)
    if result.status is not Status.OPTIMAL:
        assert result.stop_reason is StopReason.INTERRUPTED
    assert result.plan is not None
    check_plan(graph, result.plan)


def test_no_time_still_gives_a_checked_plan() -> None:
    graph = random_graph(np.random.default_rng(9), ops=200)
    result = solve(graph, limits=Limits(seconds=0))
    assert result.plan is not None
    check_plan(graph, result.plan, peak=result.peak, slab=result.slab)


def test_no_time_after_a_warm_start_still_gives_a_simple_bound() -> None:
    graph = random_graph(np.random.default_rng(9), ops=200)
    kept = sum(buffer.size for buffer in graph.buffers if buffer.output)
    result = solve(graph, warm_start=solve(graph, work=1).plan, limits=Limits(seconds=0))
    assert (result.stop_reason, result.peak_bound >= kept > 0) == ("time limit", True)


def test_warm_start_is_kept_or_beaten_and_refused_if_wrong() -> None:
    graph = next(iter(SMALL_GRAPHS))()
    best = solve(graph).plan
    assert best is not None
    assert solve(graph, warm_start=best).plan == best
    with pytest.raises(PlanError):
        solve(graph, warm_start=replace(best, order=best.order[::-1]))


def test_plan_objects_report_their_own_bytes() -> None:
    graph = next(iter(SMALL_GRAPHS))()
    plan = solve(graph).plan
    assert isinstance(plan, Plan)
    assert (plan.peak(graph), plan.slab(graph)) == (12, 12)


def test_a_search_for_orders_that_runs_out_leaves_time_to_pack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from optsched import ordering, packing

    given: list[tuple[str, float]] = []
    solved = ordering.solve_order
    graph = random_graph(np.random.default_rng(4), ops=30, features=PLANNABLE - {"alignment"})

    def runs_out(graph: Graph, **options: Any) -> ordering.OrderOutcome:
        given.append(("orders", Clock.of(options["limits"]).left() or 0.0))
        found = solved(graph, **{**options, "limits": Limits(seconds=0)})
        return replace(found, bound=0, proof=None, stop_reason=StopReason.TIME_LIMIT)

    def packs(problem: Any, **options: Any) -> packing.PackingOutcome:
        given.append(("packing", Clock.of(options["limits"]).left() or 0.0))
        return packed(problem, **options)

    packed = packing.solve_packing
    monkeypatch.setattr(ordering, "solve_order", runs_out)
    monkeypatch.setattr(packing, "solve_packing", packs)
    result = solve(graph, limits=Limits(seconds=2))
    best = min(peak_memory(graph, make(graph, 0)) for make in ORDERINGS.values())
    assert result.peak is not None
    assert result.peak <= best
    assert [what for what, _ in given[:2]] == ["orders", "packing"]
    assert given[0][1] <= 2 * ORDERS.order_share
    assert given[1][1] > 0


def test_an_interrupt_before_the_first_plan_leaves_the_programs_own_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*arguments: object, **options: object) -> Iterator[tuple[str, IntArray]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "candidate_orders", interrupted)
    graph = random_graph(np.random.default_rng(4), ops=40)
    result = solve(graph)
    assert result.stop_reason is StopReason.INTERRUPTED
    assert result.plan is not None
    assert list(result.plan.order) == ORDERINGS["program"](graph, 0).tolist()


def test_time_is_kept_for_the_check_of_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    # Kernels that this process loads here would lengthen the limit by their real seconds.
    monkeypatch.setattr(clock_module, "compile_seconds", lambda: 0.0)

    def check_slowly(graph: Graph, plan: Plan) -> Checked:
        now[0] += 2.0
        return check_plan(graph, plan)

    monkeypatch.setattr(known, "check_plan", check_slowly)
    best = Known(Question(diamond()), Limits(seconds=10.0))
    for finding in found_orders(best, "program", [0, 1, 2]):
        best.merge(finding)
    # Eight seconds are left, and four of these are for a plan.
    assert best.part(0.25).left() == 2.0
    assert best.part().left() == 4.0
    assert best.has_time()
    now[0] += 4.5
    assert best.part().left() == 0.0
    assert not best.has_time()
    before = now[0]
    assert not list(stages.order_search(best, Resume(), best.part()))
    assert not list(order_packing.first_packing(best, Resume(), best.part()))
    assert now[0] == before
    best.measured = best.measured._replace(slab=best.measured.slab + 1)
    assert best.stop_reason() is StopReason.TIME_LIMIT


HUGE = 2**57


def test_tiny_graphs_of_huge_sizes_are_decided() -> None:
    """A pin a byte above the ground; the search's own units do not reach so far."""
    build = GraphBuilder("huge")
    for name, size in (("x", HUGE), ("y", HUGE - 3), ("z", HUGE + 3)):
        build.input(name, size)
    build.op("o", reads=["x", "y", "z"], writes={"b": HUGE - 3})
    build.place("z", pin=1)
    result = solve(build.build(), limits=Limits(seconds=10))
    assert result.status is Status.OPTIMAL
    assert result.slab == (result.peak or 0) + 1
    assert result.slab_proof is Proof.JOINT_SEARCH


@pytest.mark.parametrize("sizes", [(1, 1, 3), (1, 1, 1)])
def test_alignments_near_the_end_of_64_bits(
    sizes: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """No heuristic packer is asked; the plan is found, or the graph refused in a line."""
    build = GraphBuilder("aligned")
    for name, size in zip("xyz", sizes, strict=True):
        build.op(name, writes={name: size})
        build.place(name, alignment=2**62 if size == 1 else 1)
        build.output(name)
    graph = build.build()
    if sizes == (1, 1, 3):
        result = solve(graph, limits=Limits(seconds=10))
        assert (result.status, result.slab) == (Status.OPTIMAL, 2**62 + 1)
    else:
        for capacity in (None, 2**63, 2**70):
            with pytest.raises(GraphError, match=r"takes more than 2\*\*63 - 1 bytes"):
                solve(graph, capacity=capacity, limits=Limits(seconds=10))
        refused = solve(graph, capacity=2**63 - 1, limits=Limits(seconds=10))
        assert refused.status is Status.INFEASIBLE
    assert not caplog.records


def test_pins_that_clash_in_every_order_are_refused_whatever_the_capacity() -> None:
    build = GraphBuilder("clash")
    build.op("a", writes={"x": 4, "y": 4})
    build.place("x", pin=0)
    build.place("y", pin=2)
    for capacity in (None, 100, 2**63):
        with pytest.raises(GraphError, match="pinned onto each other"):
            solve(build.build(), capacity=capacity, limits=Limits(seconds=10))


def test_time_left_goes_on_until_nothing_can_gain() -> None:
    """If no other order exists and its packing is proved the run ends, with that reason."""
    build = GraphBuilder("chain")
    for number in range(70):
        reads = [f"b{number - 1}"] if number else []
        build.op(f"o{number}", reads=reads, writes={f"b{number}": 3 + number % 2 * 4})
    build.place("b9", alignment=8)
    build.place("b10", alignment=8)
    # By work, as on a busy machine the seconds of a limit may be over first.
    result = solve(build.build(), work=100_000)
    assert result.stop_reason in (StopReason.PROVED, StopReason.EXHAUSTED)


def test_the_program_order_counts_however_tight_the_limit() -> None:
    rng = np.random.default_rng(5)
    lower = 0
    for _ in range(40):
        graph = random_graph(rng, ops=12, features=PLANNABLE - {"alignment"})
        own = peak_memory(graph, ORDERINGS["program"](graph, 0))
        first = peak_memory(graph, ORDERINGS["lpmf_backward"](graph, 0))
        result = solve(graph, objective=Objective.PEAK, work=1)
        assert result.peak is not None
        assert result.peak <= own
        lower += own < first
    # Graphs whose first heuristic order is worse are what this is about.
    assert lower > 0


def test_an_order_that_the_file_records_is_packed_first() -> None:
    """Under a short limit no plan is above what the framework makes."""
    for seed in range(6):
        graph = random_wiring(60, seed, unit=False)
        best = solve(graph, work=20_000, seed=seed)
        assert best.plan is not None
        own, wrong = best.plan.order, tuple(reversed(best.plan.order))
        recorded = replace(graph, origin=Origin("native", {"wrong": wrong, "own": own}))
        short = solve(recorded, work=1, engine="heuristics")
        assert short.plan is not None
        check_plan(recorded, short.plan, peak=short.peak, slab=short.slab)
        problem, _ = packing_problem(graph, np.array(own))
        (_, offsets), *_ = candidate_offsets(problem)
        assert short.slab <= sum_of_slabs(problem, ONE_POOL, offsets)
        assert short.slab_bound <= best.slab


@pytest.mark.parametrize("objective", SIZES)
def test_orders_whose_load_is_too_large_need_no_packing(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer packings, the same plans."""
    count = [0]

    def counted(*given: Any) -> Iterator[tuple[str, IntArray]]:
        for found in candidate_offsets(*given):
            count[0] += 1
            yield found

    monkeypatch.setattr(order_packing, "candidate_offsets", counted)
    rng, packings = np.random.default_rng(8), [0, 0]
    for _ in range(250):
        ops, features = int(rng.integers(2, 16)), FEATURES - {"shuffled", "pins"}
        graph = random_graph(rng, ops, features=features)
        graph = graph.with_inplace() if rng.integers(2) else graph
        recorded = random_order(rng, graph)
        graph = replace(graph, origin=Origin("native", {"own": recorded}))
        found = []
        for number, load in enumerate((lambda *_: 0, order_packing._load)):
            with monkeypatch.context() as patched:
                patched.setattr(order_packing, "_load", load)
                count[0] = 0
                result = solve(graph, engine="heuristics", objective=objective)
                packings[number] += count[0]
            found.append((result.plan, result.peak, result.slab, result.slab_bound))
        assert found[0] == found[1]
    assert packings[1] < packings[0]
