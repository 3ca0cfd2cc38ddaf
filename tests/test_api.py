"""The Python interface as users guess it: keywords, units, numpy, one clear line for a mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import heuristics
import optsched
from optsched import GraphBuilder, Limits, Objective, OptschedError, PackingProblem, Plan
from optsched.errors import UsageError
from tests import typed_sample
from tests.support.families.small import aligned, diamond
from tests.support.generators import PLAIN, random_graph
from tests.support.registries import registries_kept

PROBLEM = {"size": [8, 4], "start": [0, 2], "end": [4, 6]}


def test_solve_takes_keywords_units_and_numpy_numbers() -> None:
    result = optsched.solve(diamond(), time_limit=np.int64(5), seed=np.int32(3), objective="peak")
    assert (result.status, result.peak) == ("optimal", 18)
    assert optsched.solve(diamond(), capacity="1KiB").stop_reason == "decided"
    assert optsched.solve(diamond(), capacity=np.int64(17)).status == "infeasible"
    assert optsched.solve(aligned(), inplace=True).plan is not None


def test_ones_own_ordering_is_a_decorated_function() -> None:
    @optsched.register_ordering("mine_backwards_then_repaired")
    def mine(graph: optsched.Graph, seed: int) -> list[int]:
        return list(range(len(graph.ops)))

    compared = optsched.compare_methods(diamond(), methods=["mine_backwards_then_repaired"])
    del heuristics.ORDERINGS["mine_backwards_then_repaired"]
    row = compared.row("mine_backwards_then_repaired")
    assert row is not None
    assert row.peak == 20


def test_an_ordering_may_return_names() -> None:
    @optsched.register_ordering("mine_by_name")
    def mine(graph: optsched.Graph, seed: int) -> list[str]:
        return ["left", "right", "jion" if seed else "join"]

    compared = optsched.compare_methods(diamond(), methods=["mine_by_name"])
    wrong = optsched.compare_methods(diamond(), methods=["mine_by_name"], seed=1)
    del heuristics.ORDERINGS["mine_by_name"]
    assert compared.row("mine_by_name").peak == optsched.peak_memory(diamond(), [0, 1, 2])
    assert wrong.find_row("mine_by_name") is None
    assert "'jion', which is not in the graph" in wrong.failed[0].reason


def test_a_plan_is_made_of_names() -> None:
    result = optsched.solve(diamond())
    plan = Plan.from_names(diamond(), result.order, result.offsets)
    assert plan == result.plan
    rng = np.random.default_rng(11)
    for _ in range(50):
        graph = random_graph(rng)
        result = optsched.solve(graph, time_limit=5)
        assert Plan.from_names(graph, result.order, result.offsets) == result.plan
    with pytest.raises(OptschedError, match="buffer 'none', which is not in the graph"):
        Plan.from_names(diamond(), ["left", "right", "join"], {"none": 0})


def test_an_interrupted_result_can_raise() -> None:
    result = optsched.solve(diamond())
    result.stop_reason.raise_if_interrupted()
    with pytest.raises(KeyboardInterrupt):
        optsched.StopReason.INTERRUPTED.raise_if_interrupted()


def test_a_packing_problem_needs_only_sizes_and_live_ranges(tmp_path: Path) -> None:
    problem = PackingProblem(**PROBLEM)  # type: ignore[arg-type]
    assert problem.names == ("b0", "b1")
    assert optsched.pack(problem, time_limit=5, capacity="12B").slab == 12
    csv = tmp_path / "p.csv"
    csv.write_text("id,lower,upper,size\na,0,4,8\nb,2,6,4\n")
    assert optsched.pack(optsched.read_packing(csv)).slab == 12
    csv.write_text("id,lower,upper,size,pool\na,0,4,8,x\nb,2,6,4,y\n")
    table = optsched.read_packing(csv)
    packed = optsched.pack(table)
    assert (packed.slab, packed.places(2)[0]) == (12, ["x", "y"])
    for excluded in ({"capacity": 12}, {"reserved": [optsched.model.reserved.Region(0, 4)]}):
        with pytest.raises(OptschedError, match="pools exclude capacity and reserved"):
            optsched.pack(table, **excluded)  # type: ignore[arg-type]


def test_live_ranges_with_pools_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `report`")
    csv, picture = tmp_path / "p.csv", tmp_path / "packing.svg"
    csv.write_text("id,lower,upper,size,pool\na,0,4,8,x\nb,2,6,4,y\n")
    optsched.report(optsched.read_packing(csv), picture)
    assert "<svg" in picture.read_text()


def test_certify_takes_a_result_without_a_plan_whatever_the_listing() -> None:
    build = optsched.GraphBuilder("listed backwards")
    build.op("second", reads=["a"], writes={"y": 4})
    build.op("first", writes={"a": 4})
    build.place("y", pin=4)
    graph = build.build()
    refused = optsched.solve(graph, capacity=3)
    assert refused.plan is None
    assert optsched.certify(graph, result=refused).certificate.bound == refused.peak_bound


def test_explain_certify_and_hunt_are_functions(tmp_path: Path) -> None:
    assert optsched.explain(diamond(), time_limit=5).bound == 18
    proof = tmp_path / "proof.json"
    assert optsched.certify(diamond(), proof).certificate.bound == 18
    assert proof.exists()
    found = optsched.hunt("lpmf", max_ops=3, max_bytes=4, max_tries=50, time_limit=5)
    assert found.tried <= 50
    shrunk = optsched.hunt("program", source=diamond(), objective="difference")
    assert shrunk.counterexample is not None


def test_a_limit_on_work_ends_where_no_stage_can_do_any() -> None:
    # Rounds without work never ended: the clock stood still.
    graph = random_graph(np.random.default_rng(2), ops=90, max_size=1000, features=PLAIN)
    first, second = (optsched.solve(graph, work=3000) for _ in range(2))
    assert first.stop_reason == "work limit"
    assert first.order == second.order
    assert first.offsets == second.offsets


def test_pools_are_an_argument() -> None:
    pools = [optsched.Pool("a", 12), optsched.Pool("b")]
    found = optsched.solve(diamond(), pools=pools, work=10_000)
    assert (found.status, found.spilled_bytes) == ("optimal", 6)
    assert (found.spilled_bytes, found.spilled_bound, found.refuted) == (6, 6, None)
    assert found.shortage is not None
    assert (found.shortage.required, found.shortage.available) == (18, 12)
    assert (found.to_dict()["spilled_bytes"], found.to_dict()["spilled_bound"]) == (6, 6)
    assert "spilled 6 proved" in repr(found)
    problem = PackingProblem(size=[8, 8, 4], start=[0, 0, 0], end=[2, 2, 2])
    packed = optsched.pack(problem, pools=pools, own_pools=["b", "", ""])
    assert (packed.slab, packed.slab_bound, packed.slab_proof) == (20, 20, "L1")
    assert packed.places(3)[0] == ["b", "a", "a"]
    spilled = optsched.pack(problem, pools=pools)
    assert (spilled.slab, spilled.spilled_bytes, spilled.slab_bound) == (20, 8, 20)
    assert optsched.pack(problem, pools=[optsched.Pool("a", 12)]).status == "infeasible"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"capacity": 12}, "pools exclude capacity"),
        ({"fewest_moves": True}, "pools exclude fewest_moves"),
        ({"pools": [optsched.Pool("a"), optsched.Pool("a")]}, "each pool is given once"),
    ],
)
def test_pools_exclude_what_they_cannot_do(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptschedError, match=said):
        optsched.solve(diamond(), **{"pools": [optsched.Pool("a")], **options})


def test_limits_are_keywords_wherever_something_is_solved() -> None:
    pools = [optsched.Pool("a", 12), optsched.Pool("b")]
    found = optsched.solve(diamond(), pools=pools, work=10_000, seed=3)
    assert found.spilled_bytes == 6
    problem = PackingProblem(**PROBLEM)  # type: ignore[arg-type]
    own_pools = [""] * len(problem)
    assert optsched.pack(problem, own_pools=own_pools, pools=pools, time_limit=5).slab is not None
    for call in (
        lambda: optsched.pack(problem, own_pools=own_pools, pools=pools, limits=Limits(), work=5),
        lambda: optsched.solve(diamond(), pools=pools, limits=Limits(), work=5),
        lambda: optsched.compare_methods(diamond(), limits=Limits(), work=5),
    ):
        with pytest.raises(OptschedError, match="either limits= or time_limit="):
            call()


def test_seconds_of_compiling_are_told() -> None:
    result = optsched.solve(diamond())
    assert 0 <= result.compile_seconds <= result.runtime
    assert result.to_dict()["compile_seconds"] == result.compile_seconds


def test_explanations_are_printed_and_become_json() -> None:
    found = optsched.explain(diamond())
    assert "no order has a peak below 18 bytes" in str(found)
    assert found.to_dict()["bound"] == 18
    assert repr(found) == "Explanation('diamond', bound 18 bytes, precedences)"


@pytest.mark.parametrize("ending", ["html", "png", "svg", "json"])
def test_a_report_is_one_call(ending: str, tmp_path: Path) -> None:
    if ending in ("png", "svg"):
        pytest.importorskip("matplotlib", reason="needs the extra `report`")
    path, result = tmp_path / f"report.{ending}", optsched.solve(diamond())
    assert result.plan is not None
    for what, more in (
        (result, {}),
        (diamond(), {"time_limit": 5}),
        (diamond(), {"plans": {"one": result.plan, "two": result.plan}}),
        (PackingProblem(**PROBLEM), {}),  # type: ignore[arg-type]
    ):
        path.unlink(missing_ok=True)
        optsched.report(what, path, **more)  # type: ignore[arg-type]
        assert path.stat().st_size > 500


def test_objects_are_shown_on_one_short_line() -> None:
    result = optsched.solve(diamond())
    problem = PackingProblem(**PROBLEM)  # type: ignore[arg-type]
    for thing in (diamond(), result, result.plan, problem, optsched.pack(problem)):
        assert len(repr(thing)) < 100
        assert "\n" not in repr(thing)
    shrunk = optsched.hunt("program", source=diamond(), objective="difference")
    compared = optsched.compare_methods(diamond(), methods=["bfs"], time_limit=5)
    for thing in (shrunk, compared, optsched.certify(diamond(), time_limit=5)):
        assert len(repr(thing)) < 100
    assert (
        repr(result) == "Result(optimal, peak 18 by order search, slab 18 by joint bound, proved)"
    )
    assert repr(diamond()) == "Graph('diamond', 3 ops, 5 buffers)"


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "limits twice": (
        lambda: optsched.solve(diamond(), limits=Limits(), time_limit=5),
        "either limits= or time_limit=",
    ),
    "limits as a number": (lambda: optsched.solve(diamond(), limits=5), "write time_limit=5"),  # type: ignore[arg-type]
    "two ends": (lambda: optsched.solve(diamond(), time_limit=5, work=5), "either time_limit or"),
    "negative time": (
        lambda: optsched.solve(diamond(), time_limit=-1),
        "-1 is not a number of sec",
    ),
    "no time": (lambda: Limits(seconds=float("nan")), "nan is not a number of seconds"),
    "no workers": (lambda: Limits(workers=0), "workers must be at least 1"),
    "half a worker": (lambda: Limits(workers=1.5), "workers must be an integer, got 1.5"),  # type: ignore[arg-type]
    "seed": (lambda: Limits(seed=-1), "seed must be at least 0, got -1"),
    "work of two": (lambda: Limits(work=9, workers=2), "requires workers=1"),
    "capacity": (
        lambda: optsched.solve(diamond(), capacity="big"),
        "'big' is not a number of bytes",
    ),
    "negative bytes": (
        lambda: optsched.solve(diamond(), capacity=-1),
        "-1 is not a number of bytes",
    ),
    "objective": (
        lambda: optsched.solve(diamond(), objective="x"),
        "'x', expected one of slab, peak",
    ),
    "engine": (lambda: optsched.solve(diamond(), engine="x"), "'x', expected one of auto, cpsat"),
    "a path": (lambda: optsched.solve("g.json"), "read the file with read_graph"),  # type: ignore[arg-type]
    "a DiGraph": (lambda: optsched.solve(nx.DiGraph()), "convert it with from_networkx"),
    "a string of reads": (
        lambda: GraphBuilder().op("a", reads="x"),
        r"reads must be a list of names: write \['x'\]",
    ),
    "a list of writes": (
        lambda: GraphBuilder().op("a", writes=["x"]),  # type: ignore[arg-type]
        "writes must be a dict such as",
    ),
    "lengths": (
        lambda: PackingProblem(size=[1, 2], start=[0], end=[1, 2]),  # type: ignore[arg-type]
        "start has 1 entries, but size has 2",
    ),
    "fractions": (
        lambda: PackingProblem(size=[1.5], start=[0], end=[1]),  # type: ignore[arg-type]
        "expected integers of at most 64 bits, got float64",
    ),
    "wide integers": (
        lambda: PackingProblem(size=[1], start=[0], end=[1], pin=[2**64 - 1]),  # type: ignore[arg-type]
        "pin: 18446744073709551615 is above the limit",
    ),
    "names": (
        lambda: PackingProblem(names=("a", "b"), size=[1]),
        "expected 1 names, one per size, got 2",
    ),  # type: ignore[arg-type]
    "a report of what": (
        lambda: optsched.report(diamond(), "plan.doc"),
        "plan.doc: a report ends in .html, .png, .svg, .pdf, .json",
    ),
    "no plan": (
        lambda: optsched.solve(diamond(), warm_start=[0, 1]),  # type: ignore[arg-type]
        "warm_start wants a Plan, got list",
    ),
    "a baseline of what": (
        lambda: optsched.solve(diamond(), baseline=3),  # type: ignore[arg-type]
        "baseline must be a list of op names or ids",
    ),
    "a rule of letters": (
        lambda: optsched.OrderRules(first="load"),  # type: ignore[arg-type]
        "order rules must be lists of names",
    ),
    "an order of what": (
        lambda: optsched.peak_memory(diamond(), [0.0, 1.0, 2.0]),  # type: ignore[list-item]
        "op names or ids, got float64",
    ),
    "an order of strangers": (
        lambda: optsched.live_ranges(diamond(), ["left", "up", "join"]),
        "order names op 'up', which is not in the graph",
    ),
    "a packing of what": (lambda: optsched.pack(diamond()), "wants a PackingProblem, got Graph"),  # type: ignore[arg-type]
    "nobody to tell": (
        lambda: optsched.solve(diamond(), on_event=3),  # type: ignore[arg-type]
        "on_event wants a function, got int",
    ),
    "no networkx": (lambda: optsched.from_networkx(3), "expected a networkx.DiGraph, got a int"),  # type: ignore[arg-type]
    "to networkx": (lambda: optsched.to_networkx(3), "wants a Graph, got int"),  # type: ignore[arg-type]
    "a check of what": (lambda: optsched.check_plan(diamond(), 3), "wants a Plan, got int"),  # type: ignore[arg-type]
    "a plan of what": (lambda: optsched.check_plan(3, 3), "wants a Graph, got int"),  # type: ignore[arg-type]
    "methods of what": (
        lambda: optsched.compare_methods(diamond(), methods=3),  # type: ignore[arg-type]
        "methods wants a Sequence, got int",
    ),
    "a comparison of what": (
        lambda: optsched.compare_methods(3),  # type: ignore[arg-type]
        "wants a Graph or Module or list or tuple, got int",
    ),
    "a store of what": (
        lambda: optsched.PlanStore("s").get(3),  # type: ignore[arg-type]
        "wants a Graph or Question, got int",
    ),
    "a plan to keep": (lambda: optsched.PlanStore("s").put(diamond(), 3), "wants a Plan, got int"),  # type: ignore[arg-type]
    "a result to keep": (
        lambda: optsched.PlanStore("s").put_result(diamond(), 3),  # type: ignore[arg-type]
        "wants a Result, got int",
    ),
}
TUNED: dict[str, tuple[dict[str, object], str]] = {
    "graph": ({"graphs": 3}, "tune wants a Graph or str or Path or Iterable, got int"),
    "graphs": ({"graphs": [3]}, "tune wants a Graph or str or Path, got int"),
    "store": ({"store": None}, "store wants a str or Path, got NoneType"),
    "option": ({"bogus": 1}, "no argument 'bogus'"),
    "budget": ({"budget": "2h"}, "'2h' is not a number of seconds"),
    "settings": ({"settings": 3}, "settings wants a FleetSettings, got int"),
    "objective": ({"objective": "x"}, "'x', expected one of slab, peak"),
    "memory": ({"memory": "much"}, "'much' is not a number of bytes"),
    "reading": ({"reading": 3}, "reading wants a GraphReading, got int"),
    "weights": ({"weights": 3}, "weights wants a Mapping, got int"),
    "weight": ({"weights": {"a": 10**400}}, "weight of a: weight must be a number from 0 to"),
    "named": ({"named": [True, True]}, "named must have one flag per graph"),
    "on_progress": ({"on_progress": 3}, "on_progress wants a function, got int"),
    "jobs": ({"jobs": -1}, "jobs must be at least 0, got -1"),
    "jobs of what": ({"jobs": 1.5}, "jobs wants a int, got float"),
}


def test_an_order_is_one_of_names_or_of_ids() -> None:
    graph = diamond()
    result = optsched.solve(graph)
    assert result.order is not None
    assert optsched.peak_memory(graph, result.order) == result.peak
    assert max(optsched.timeline(graph, result.order).running) == result.peak
    compared = optsched.compare_methods(graph, methods="lpmf, bfs")
    assert {row.method for row in compared.rows} >= {"lpmf", "bfs"}


def test_plans_and_baselines_may_be_numpys() -> None:
    graph = diamond()
    order, n = np.arange(len(graph.ops)), np.int64(len(graph.ops))
    found = optsched.solve(graph, baseline=order, max_moved=n)
    assert found.plan is not None
    offsets = tuple(None if x is None else np.int64(x) for x in found.plan.offsets)
    plan = Plan(np.array(found.plan.order), offsets)  # type: ignore[arg-type]
    assert plan == found.plan
    again = optsched.solve(graph, warm_start=plan, work=0)
    assert json.loads(json.dumps(again.to_dict()))["slab"] == found.slab


@pytest.mark.parametrize("case", TUNED)
def test_a_fleet_that_makes_no_sense_is_refused_before_a_store_is_made(
    case: str, tmp_path: Path
) -> None:
    change, message = TUNED[case]
    store = tmp_path / "s.store"
    given: dict[str, Any] = {"graphs": diamond(), "store": store, "jobs": 0, **change}
    with pytest.raises(UsageError, match=message):
        optsched.tune(**given)
    assert not store.exists()


def test_a_fleet_is_asked_as_a_solver_is(tmp_path: Path) -> None:
    options = {"objective": "peak", "memory": "4GiB", "work": 1_000}
    fleet = optsched.tune(diamond(), tmp_path / "s.store", jobs=0, **options)
    assert (fleet.settings.objective, fleet.settings.memory) == (Objective.PEAK, 2**32)
    assert fleet.graphs[0].peak == 18


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(OptschedError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_typed_programs_do_what_their_types_say(tmp_path: Path) -> None:
    with registries_kept():
        typed_sample.main(tmp_path)
