"""Graphs in several pools with capacities: the fewest bytes spilled, by exhaustion."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from optsched import Graph, GraphBuilder
from optsched.check.plan import check_plan
from optsched.cli import main
from optsched.errors import GraphError, PlanError, UsageError
from optsched.formats import read_plan, write_graph
from optsched.formats.native_plan import plan_document, read_plan_document
from optsched.model.plan import Plan
from optsched.model.pools import Pool
from optsched.model.question import Question
from optsched.model.selection import select
from optsched.runtime.limits import Event, Limits, StopReason
from optsched.solver.pipeline import answer, solve
from optsched.solver.result import Result
from optsched.solver.status import Status
from tests.support import brute
from tests.support.commands import Cli
from tests.support.families.small import diamond
from tests.support.generators import PLANNABLE, random_graph

LIMITS = Limits(seconds=30)
FEATURES = PLANNABLE | {"pins", "pools"}


def least_spilled(
    graph: Graph, pools: Sequence[Pool], question: Question | None = None
) -> int | None:
    """Fewest bytes outside their own pools over allowed orders and choices; None if impossible."""
    numbers = {pool.name: at for at, pool in enumerate(pools)}
    buffers = tuple(replace(buffer, pool="") for buffer in graph.buffers)
    joined = replace(graph, buffers=buffers)
    own_pool = {buffer.name: numbers[buffer.pool or pools[0].name] for buffer in graph.buffers}
    best: int | None = None
    slabs: dict[bytes, int | None] = {}
    for order in brute.orders(graph):
        if question is not None and not question.allows(order):
            continue
        problems = brute.packings_of(joined, order)
        best = best if problems else 0
        for problem in problems:
            own_pools = np.array([own_pool[name] for name in problem.names], np.int64)
            for at in assignments(own_pools, problem.pin, len(pools)):
                cost = int(problem.size[at > own_pools].sum())
                if best is not None and cost >= best:
                    continue
                for number, pool in enumerate(pools):
                    part = select(problem, np.flatnonzero(at == number))
                    if pool.capacity is not None and part.max_load > pool.capacity:
                        break
                    key = b"".join(
                        x.tobytes()
                        for x in (part.start, part.end, part.size, part.alignment, part.pin)
                    )
                    if key not in slabs:
                        slabs[key] = brute.least_slab(part)
                    slab = slabs[key]
                    if slab is None or (pool.capacity is not None and slab > pool.capacity):
                        break
                else:
                    best = cost
    return best


def assignments(own_pool: np.ndarray, pin: np.ndarray, pools: int) -> Iterator[np.ndarray]:
    """Yield the pools that all buffers may lie in: their own or, if not pinned, a later one."""
    for at in product(
        *[
            range(first, pools if held < 0 else first + 1)
            for first, held in zip(own_pool.tolist(), pin.tolist(), strict=True)
        ]
    ):
        yield np.array(at, np.int64)


def check(graph: Graph, pools: Sequence[Pool], found: Result) -> None:
    """The plan is valid, keeps the capacities and spills what the result says."""
    plan = found.plan
    assert plan is not None
    limits = {pool.name: pool.capacity for pool in pools if pool.capacity is not None}
    checked = check_plan(graph, plan, capacities=limits)
    assert (checked.peak, checked.slab) == (found.peak, found.slab)
    spilled = 0
    for b, buffer in enumerate(graph.buffers):
        if plan.offsets[b] is not None and graph.roots[b] == b:
            spilled += buffer.size * (plan.pools[b] != (buffer.pool or pools[0].name))
    # A buffer that is never live may have an offset, and stays at own_pool.
    assert spilled == found.spilled_bytes


@pytest.mark.parametrize("with_last", [False, True])
def test_fewest_bytes_over_all_orders(with_last: bool) -> None:
    rng = np.random.default_rng(5)
    graphs = spilled = least_of_all = refuted = unknown = 0
    while graphs < 60:
        graph = random_graph(rng, int(rng.integers(2, 6)), max_size=8, features=FEATURES)
        if np.count_nonzero(graph.arrays.size) > 5:
            continue
        graphs += 1
        pools = [Pool("main", int(rng.integers(6, 24))), Pool("fast", int(rng.integers(4, 16)))]
        pools += [Pool("last")] * with_last
        least = least_spilled(graph, pools)
        try:
            found = solve(graph, pools=pools, limits=LIMITS)
        except GraphError:
            # Pins of a pool clash in every order.
            assert least is None
            continue
        if found.status is Status.INFEASIBLE:
            assert least is None
            refuted += 1
            continue
        if found.plan is None:
            unknown += least is not None
            continue
        check(graph, pools, found)
        assert least is not None
        assert found.spilled_bound <= least <= found.spilled_bytes
        assert found.packing is not None
        assert found.packing.spilled_bound <= found.spilled_bytes
        if found.status is Status.OPTIMAL:
            assert found.spilled_bytes == least
        spilled += least > 0
        least_of_all += found.spilled_bytes == least > 0
    assert unknown <= 1
    assert spilled >= 3
    assert least_of_all >= 0.8 * spilled


def test_everything_at_home_is_proved_as_without_pools() -> None:
    found = solve(diamond(), pools=[Pool("sram")], limits=LIMITS)
    assert (found.status, found.slab, found.spilled_bytes) == (Status.OPTIMAL, 18, 0)
    assert found.stop_reason is StopReason.PROVED
    fits = solve(diamond(), pools=[Pool("sram", 18), Pool("dram")], limits=LIMITS)
    assert (fits.spilled_bytes, fits.stop_reason) == (0, StopReason.DECIDED)


def test_a_spill_is_proved_over_all_orders() -> None:
    pools = [Pool("sram", 12), Pool("dram", 6)]
    found = solve(diamond(), pools=pools, limits=LIMITS)
    check(diamond(), pools, found)
    assert (found.status, found.spilled_bytes, found.spilled_bound) == (Status.OPTIMAL, 6, 6)


def test_a_group_that_leaves_costs_what_one_buffer_does() -> None:
    build = GraphBuilder("in turn")
    build.op("one", writes={"a": 4, "p": 4})
    build.op("two", reads=["a", "p"], writes={"m": 1})
    build.op("three", reads=["m"], writes={"c": 4, "q": 4})
    build.op("four", reads=["c", "q"])
    build.place("p", pin=0)
    build.place("q", pin=0)
    build.must_share("a", "c")
    found = solve(build.build(), pools=[Pool("main", 5), Pool("last")], limits=LIMITS)
    assert (found.status, found.spilled_bytes, found.spilled_bound) == (Status.OPTIMAL, 4, 4)


def test_what_has_no_offset_goes_with_its_group() -> None:
    build = GraphBuilder("unused")
    build.input("x", 4)
    build.op("a", writes={"y": 4})
    build.output("y")
    build.must_share("x", "y")
    for pools in ([Pool("main", 4)], [Pool("main", 3), Pool("last")]):
        found = solve(build.build(), pools=pools, limits=LIMITS)
        check(build.build(), pools, found)
        assert found.status is Status.OPTIMAL


def test_in_place_outputs_go_with_their_inputs() -> None:
    build = GraphBuilder("chain")
    build.input("x", 8)
    build.op("a", reads=["x"], writes={"p": 8})
    build.op("b", reads=["p"], writes={"q": 8})
    build.inplace("a", "p", "x")
    build.inplace("b", "q", "p")
    build.op("c", reads=["q"], writes={"r": 6})
    build.output("r")
    graph = build.build().with_inplace()
    pools = [Pool("sram", 8), Pool("dram")]
    found = solve(graph, pools=pools, limits=LIMITS)
    check(graph, pools, found)
    assert found.spilled_bytes == 6


def test_what_does_not_fit_anywhere() -> None:
    for capacities, text in (
        ((9, 8), "needs 18 bytes, the pools have 17"),
        ((6, 6, 6), "'x' is larger than every pool"),
    ):
        pools = [Pool(str(number), bytes_) for number, bytes_ in enumerate(capacities)]
        found = solve(diamond(), pools=pools, limits=LIMITS)
        assert found.status is Status.INFEASIBLE
        assert found.refuted is not None
        assert text in found.refuted.reason
    with pytest.raises(UsageError, match="given once"):
        solve(diamond(), pools=[Pool("a"), Pool("a")])
    named = replace(diamond(), buffers=tuple(replace(b, pool="x") for b in diamond().buffers))
    with pytest.raises(UsageError, match="names pool 'x', which is not given"):
        solve(named, pools=[Pool("y")])


def test_checker_refuses_moved_pins_and_views_and_full_pools() -> None:
    build = GraphBuilder("views")
    build.input("x", 8)
    build.op("a", reads=["x"], writes={"p": 8})
    build.op("name", reads=["p"], views={"v": "p"})
    build.op("b", reads=["v"], writes={"q": 8})
    build.output("q")
    build.place("x", pin=0)
    graph = build.build()
    plan = solve(graph, pools=[Pool("s", 8), Pool("d")], limits=LIMITS).plan
    assert plan is not None
    at = graph.buffer_ids
    assert plan.pools[at["x"]] == "s"
    assert plan.pools[at["v"]] == plan.pools[at["p"]] == "d"
    with pytest.raises(PlanError, match="exceeds its capacity of 7"):
        check_plan(graph, plan, capacities={"s": 7})

    def moved(name: str, pool: str) -> Plan:
        return replace(
            plan, pools=tuple(pool if b == at[name] else x for b, x in enumerate(plan.pools))
        )

    with pytest.raises(PlanError, match="is a view of"):
        check_plan(graph, moved("v", "s"))
    with pytest.raises(PlanError, match="overlap while both are live"):
        check_plan(graph, replace(plan, pools=("s",) * len(plan.pools)))
    named = replace(graph, buffers=tuple(replace(b, pool="s") for b in graph.buffers))
    with pytest.raises(PlanError, match="'x' is pinned and cannot be in pool 'd'"):
        check_plan(named, moved("x", "d"))
    with pytest.raises(UsageError, match="other pools than their own"):
        solve(named, warm_start=plan)


def test_command_line(tmp_path: Path, cli: Cli) -> None:
    path, out = tmp_path / "g.json", tmp_path / "plan.json"
    write_graph(diamond(), path)
    command = ["solve", str(path), "-o", str(out)]
    record = cli.json(*command, "--pool", "sram=12", "--pool", "dram")
    assert (record["status"], record["spilled"], record["spilled_bound"]) == ("optimal", ["b"], 6)
    assert (record["required"], record["available"], record["excess"]) == (18, 12, 6)
    assert record["culprits"][0] == {"buffer": "x", "size": 8}
    assert record["slabs"] == {"sram": 12, "dram": 6}
    document = json.loads(out.read_text())
    assert document["pool"] == {
        **dict.fromkeys(["x", "a", "right.workspace", "y"], "sram"),
        "b": "dram",
    }
    assert document["capacities"] == {"sram": 12}
    assert "'sram' 12" in cli("check", path, out)
    assert read_plan(out, diamond()).pools
    out.write_text(json.dumps({**document, "capacities": {"sram": 11}}))
    assert main(["check", str(path), str(out)]) == 1
    assert "1 too few, proved" in cli(*command, "--pool", "sram=9", "--pool", "dram=8", code=4)
    assert "no order spills fewer" in cli(*command, "--pool", "sram=12", "--pool", "dram")
    for bad in (["--pool", "=3"], ["--pool", "a=x"], ["--pool", "a", "--capacity", "3"]):
        assert main([*command, *bad]) == 2


def test_a_pinned_buffer_outside_the_slab_decides_no_pool() -> None:
    """Two pinned buffers, one with an allocation of its own: the written plan is valid."""
    build = GraphBuilder("two pins")
    build.op("a", writes={"a": 1})
    build.op("b", writes={"b": 1})
    build.output("a", policy="own")
    build.output("b")
    graph = build.build()
    pins = {"a": 5, "b": 9}
    buffers = tuple(replace(buffer, pin=pins[buffer.name]) for buffer in graph.buffers)
    graph = replace(graph, buffers=buffers)
    found = solve(graph, pools=[Pool("a"), Pool("b", 7)])
    assert found.plan is not None
    document = plan_document(graph, found.plan)
    plan, claims = read_plan_document(graph, json.loads(json.dumps(document)))
    assert check_plan(graph, plan, slabs=claims["slabs"]).slab == 10


def test_what_is_written_in_place_counts_among_the_spilled_bytes() -> None:
    """Input and output of `o2` share two bytes of the later pool, and are four bytes that left."""
    build = GraphBuilder("in place")
    build.op("o0", writes={"b0": 2})
    build.op("o1", writes={"b1": 2})
    build.op("o3", reads=["b0"], writes={"b3": 1})
    build.op("o2", reads=["b1"], writes={"b2": 2})
    build.inplace("o2", "b2", "b1")
    build.output("b0", policy="own")
    graph = build.build().with_inplace()
    found = solve(graph, pools=[Pool("P", 1), Pool("A", 16)], limits=Limits(seconds=5))
    assert found.packing is not None
    assert found.spilled_bytes == found.packing.spilled_bytes == 4
    assert found.spilled_bound <= found.packing.spilled_bound < 4
    assert (found.status, found.stop_reason) != (Status.FEASIBLE, StopReason.PROVED)


def test_a_spill_that_is_proved_fewest_is_a_success() -> None:
    """The least bytes leave; smaller slabs elsewhere may be possible, which is not a failure."""
    pools = [Pool("sram", 12), Pool("dram")]
    found = solve(diamond(), pools=pools, limits=LIMITS)
    assert found.spilled_bytes == found.spilled_bound == 6
    assert (found.status, found.stop_reason) == (Status.OPTIMAL, StopReason.PROVED)


def test_what_fits_its_capacities_is_a_success_without_a_proof_of_the_least_slab() -> None:
    """Two pools, each with room to spare; the search for less is cut short at once."""
    build = GraphBuilder("roomy")
    for i in range(12):
        build.op(f"a{i}", reads=[f"x{i - 1}"] if i % 3 else [], writes={f"x{i}": 5 + i % 4})
        build.place(f"x{i}", pool="ab"[i % 2])
    build.output("x11")
    roomy = [Pool("a", 100), Pool("b", 100)]
    found = solve(build.build(), pools=roomy, limits=Limits(work=1))
    assert (found.spilled_bytes, found.status) == (0, Status.OPTIMAL)
    assert found.stop_reason in (StopReason.DECIDED, StopReason.PROVED)


def test_fewest_bytes_near_a_baseline() -> None:
    rng = np.random.default_rng(11)
    spilled = 0
    for _ in range(40):
        graph = random_graph(rng, int(rng.integers(3, 6)), max_size=8, features=PLANNABLE)
        if np.count_nonzero(graph.arrays.size) > 6:
            continue
        pools = [Pool("main", int(rng.integers(6, 16))), Pool("last")]
        found = solve(graph, pools=pools, max_moved=int(rng.integers(0, 3)), limits=LIMITS)
        assert found.question is not None
        assert found.plan is not None
        assert found.question.allows(found.plan.order)
        check(graph, pools, found)
        least = least_spilled(graph, pools, found.question)
        assert least is not None
        assert found.spilled_bound <= least <= found.spilled_bytes
        spilled += least > 0
    assert spilled >= 3


def test_a_search_in_pools_is_resumed() -> None:
    rng = np.random.default_rng(3)
    resumed = 0
    for _ in range(8):
        graph = random_graph(rng, 30, max_size=50, features=frozenset({"workspace"}))
        least = solve(graph, limits=LIMITS).peak_bound
        pools = [Pool("main", least * 3 // 4), Pool("last")]
        first = solve(graph, pools=pools, work=100)
        if first.resume is None or first.question is None:
            continue
        later = answer(first.question, progress=first.resume, warm_start=first.plan, work=20_000)
        assert later.question == first.question
        assert later.spilled_bytes <= first.spilled_bytes
        assert first.spilled_bound <= later.spilled_bound <= later.spilled_bytes
        resumed += 1
    assert resumed >= 2


def test_an_interrupt_leaves_a_plan_that_spills() -> None:
    graph = random_graph(np.random.default_rng(3), 60, max_size=50, features=frozenset())
    least, pressed = solve(graph, work=20_000).peak_bound, []

    def press(event: Event) -> None:
        # Just when the bound shows that something must be spilled.
        if not pressed and event.bound > least * 3 // 4:
            pressed.append(event)
            signal.raise_signal(signal.SIGINT)

    pools = [Pool("main", least * 3 // 4), Pool("last")]
    found = solve(graph, pools=pools, limits=LIMITS, on_event=press)
    check(graph, pools, found)
    assert pressed
    assert (found.status, found.stop_reason) == (Status.FEASIBLE, StopReason.INTERRUPTED)


@pytest.mark.parametrize("engine", ["cpsat", "milp"])
def test_independent_engines_agree_in_pools(engine: str) -> None:
    pools = [Pool("sram", 12), Pool("dram", 6)]
    found = solve(diamond(), pools=pools, engine=engine, independent=True, limits=LIMITS)
    check(diamond(), pools, found)
    assert found.spilled_bytes == 6
    fits = solve(diamond(), pools=[Pool("sram", 18)], engine=engine, independent=True)
    assert (fits.status, fits.slab) == (Status.OPTIMAL, 18)
