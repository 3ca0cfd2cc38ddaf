"""The least slab in place: all orders, all choices of pairs, against exhaustion by the oracle."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from optsched.check.plan import check_plan
from optsched.cli import main
from optsched.formats import write_graph
from optsched.joint import EnumerationEffort, enumerate_orders
from optsched.joint.partial_orders import matchings
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.pools import address_limit
from optsched.runtime.limits import Limits, StopReason
from optsched.solver.pipeline import solve
from optsched.solver.status import Status
from tests.support import brute
from tests.support.commands import Cli
from tests.support.generators import PLANNABLE, random_graph


def tiny_graphs(count: int, seed: int, features: frozenset[str]) -> list[Graph]:
    rng = np.random.default_rng(seed)
    found: list[Graph] = []
    while len(found) < count:
        made = random_graph(rng, int(rng.integers(1, 6)), max_size=4, features=features)
        if made.inplace_candidates and 0 < np.count_nonzero(made.arrays.size) <= 6:
            found.append(made.with_inplace())
    return found


@pytest.mark.parametrize("features", [PLANNABLE, PLANNABLE | {"pools"}])
def test_exhaustion_finds_and_proves_the_least_slab(features: frozenset[str]) -> None:
    for graph in tiny_graphs(25, 3, features):
        plans: list[Plan] = []
        found = enumerate_orders(
            graph, address_limit(graph), floor=0, offer=plans.append, limits=Limits()
        )
        least = brute.least_joint_inplace(graph)
        assert least is not None
        assert found.complete
        if least:
            assert found.refuted == least - 1
            assert check_plan(graph, plans[-1]).slab == least
        result = solve(graph, limits=Limits(seconds=60))
        assert (result.slab, result.slab_bound, result.status) == (least, least, Status.OPTIMAL)


def test_a_slab_above_the_least_peak_is_proved_in_place() -> None:
    above = 0
    for graph in tiny_graphs(100, 9, PLANNABLE | {"alignment"}):
        least, peak = brute.least_joint_inplace(graph), brute.least_peak(graph)
        if least is not None and least > peak:
            above += 1
            result = solve(graph, limits=Limits(seconds=60))
            assert (result.slab, result.slab_bound, result.peak_bound) == (least, least, peak)
            refused = solve(graph, capacity=least - 1, limits=Limits(seconds=60))
            assert refused.status is Status.INFEASIBLE
            assert refused.stop_reason is StopReason.DECIDED
    assert above >= 1


def test_matchings_are_all_subsets_without_a_buffer_twice() -> None:
    pairs = [(1, 5), (1, 6), (2, 5), (3, 7)]
    wanted = set()
    for flags in product([False, True], repeat=len(pairs)):
        some = tuple(pair for pair, there in zip(pairs, flags, strict=True) if there)
        apart = len({o for o, _ in some}) == len({s for _, s in some}) == len(some)
        if apart:
            wanted.add(some)
    found = list(matchings(pairs))
    assert len(found) == len(set(found))
    assert set(found) == wanted


def test_gives_up_honestly() -> None:
    build = GraphBuilder("wide")
    build.input("x", 4)
    for number in range(9):
        build.op(f"a{number}", reads=["x"], writes={f"p{number}": 3})
        build.op(f"b{number}", reads=[f"p{number}"], writes={f"q{number}": 2})
        build.inplace(f"b{number}", f"q{number}", f"p{number}")
    graph = build.build().with_inplace()
    for most, states in ((10, 11), (1000, None)):
        plans: list[Plan] = []
        found = enumerate_orders(
            graph,
            40,
            floor=0,
            offer=plans.append,
            limits=Limits(),
            effort=EnumerationEffort(states=most),
        )
        assert found.complete is (states is None)
        assert bool(plans) is found.complete
        assert states in (None, found.states)
    assert plans[-1].slab(graph) == found.refuted + 1 == 7


def test_births_views_and_chains_are_one_rectangle_each(tmp_path: Path, cli: Cli) -> None:
    """By hand: `whole` is born at `parent`, its view keeps it to `c`, and p, q, r share 6 bytes.

    The fullest op is then `p`: seed 2, whole 8, p 6. Apart it is `q`: whole 8, p 6, q 6.
    """
    build = GraphBuilder("all")
    build.op("parent", writes={"seed": 2})
    build.op("child", reads=["seed"], writes={"whole": 8})
    build.place("whole", birth="parent")
    build.op("name", reads=["whole"], views={"part": "whole"})
    build.op("p", reads=["seed"], writes={"p": 6}, control=["name"])
    for before, after in ("pq", "qr"):
        build.op(after, reads=[before], writes={after: 6})
        build.inplace(after, after, before)
    build.op("c", reads=["r", "part"], writes={"y": 1})
    build.output("y")
    graph = build.build().with_inplace()
    path, plan = tmp_path / "g.json", tmp_path / "plan.json"
    write_graph(graph, path)
    record = cli.json("solve", path, "--inplace", "-o", plan)
    assert (record["peak"], record["slab"], record["status"]) == (16, 16, "optimal")
    assert record["offsets"]["p"] == record["offsets"]["q"] == record["offsets"]["r"]
    assert "part" not in record["offsets"]
    assert main(["check", str(path), str(plan), "--inplace"]) == 0
    apart = solve(build.build())
    assert (apart.peak, apart.slab) == (20, 20)
