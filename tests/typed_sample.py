"""The public functions as typed programs call them: `make lint` has mypy read this, a test runs it.

Each function here asserts what it was given back, so that the types are those of what happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import networkx as nx
import numpy as np

import optsched
from optsched import (
    Graph,
    GraphBuilder,
    Limits,
    MemoryModel,
    Module,
    OrderRules,
    PackingProblem,
    Plan,
    Pool,
    register_format,
    register_ordering,
    register_packing,
)
from optsched.formats import Source


def diamond() -> Graph:
    build = GraphBuilder("diamond", alignment=2)
    build.input("x", 8, policy="freed")
    build.op("left", reads=["x"], writes={"a": 4})
    build.op("right", reads=("x",), writes={"b": 6}, workspace=2)
    build.op("join", reads=["a", "b"], writes={"y": 4}, control=["left"])
    build.inplace("join", "y", "a")
    build.output("y", policy="live")
    return build.build()


def solve_as_users_do(graph: Graph) -> None:
    rules = OrderRules(first=["right"], groups=[["right", "left"]])
    result = optsched.solve(graph, time_limit=5, capacity="64KiB", order_rules=rules)
    assert result.plan is not None
    assert optsched.solve(graph, baseline=["left", "right", "join"], max_moved=1).slab == 18
    assert optsched.solve(graph, baseline=np.arange(3), fewest_moves=True).moved is not None
    assert optsched.solve(graph, objective="peak", warm_start=result.plan, workers=1).peak == 18
    again = optsched.solve(graph, engine="auto", inplace=True, limits=Limits(5.0))
    assert again.status == "optimal"
    assert optsched.solve(graph, align="4B", progress=None, work=1000, seed=np.int64(2)).plan
    plan = Plan(order=result.plan.order, offsets=result.plan.offsets)
    assert optsched.check_plan(graph, plan, slab=result.slab).peak == 18


def pack_as_users_do() -> None:
    problem = PackingProblem(size=[8, 4, 8], start=[0, 2, 4], end=[4, 6, 8])
    assert optsched.pack(problem, time_limit=5).slab == 12
    arrays = PackingProblem(
        names=["a", "b"],
        size=np.array([8, 4]),
        start=np.array([0, 2]),
        end=(4, 6),
        alignment=[4, 4],
        keep_apart=[("a", "b")],
        must_share=[],
        capacity=64,
    )
    packed = optsched.pack(arrays, capacity="12B", align=4, limits=Limits(seconds=5))
    assert packed.offsets is not None
    assert optsched.check_packing(arrays, packed.offsets.tolist(), slab=12) == 12
    assert optsched.check_packing(arrays, packed.offsets) == 12
    pools = [Pool("fast", 8), Pool("slow")]
    assert optsched.pack(arrays, own_pools=["fast", ""], pools=pools, time_limit=5).slab == 12


def heuristics_of_ones_own(graph: Graph) -> None:
    @register_ordering
    def as_listed(graph: Graph, seed: int) -> list[int]:
        return list(range(len(graph.ops)))

    @register_ordering("as_listed_again")
    def listed(graph: Graph, seed: int = 0) -> Sequence[int]:
        return range(len(graph.ops))

    @register_packing
    def stacked(problem: PackingProblem) -> list[int]:
        return [int(x) for x in np.cumsum(problem.size) - problem.size]

    compared = optsched.compare_methods(
        graph, methods=["as_listed", "as_listed_again+stacked", listed], engine="auto", time_limit=5
    )
    row = compared.row("as_listed")
    assert row is not None
    assert row.peak == 20
    assert as_listed(graph, 0) == [0, 1, 2]


def formats_of_ones_own(folder: Path) -> None:
    def is_chain(source: Source) -> bool:
        return source.text.startswith("chain ")

    @register_format("sample chain", is_chain)
    def read_chain(source: Source) -> Graph:
        build = GraphBuilder(source.name)
        for i, size in enumerate(source.text.split()[1:]):
            build.op(f"op{i}", reads=[f"t{i - 1}"] if i else [], writes={f"t{i}": int(size)})
        return build.build()

    (folder / "mine").write_text("chain 4 8")
    assert len(optsched.read_graph(folder / "mine", dims={}).ops) == 2


def files(graph: Graph, folder: Path) -> None:
    result = optsched.solve(graph, time_limit=5)
    optsched.write_graph(graph, folder / "graph.json")
    optsched.write_plan(result, str(folder / "plan.json"))
    same = optsched.read_graph(folder / "graph.json", input_bytes="true")
    plan = optsched.read_plan(folder / "plan.json", same)
    optsched.write_plan(plan, folder / "again.json", graph)
    exported = optsched.export_plan(result, folder / "plan.csv", to="csv")
    assert exported.order == ("right", "left", "join")
    network: nx.DiGraph[str] = optsched.to_networkx(graph)
    assert optsched.from_networkx(network, name="diamond") == graph
    module = Module("alone", {"diamond": graph}, "diamond")
    optsched.write_module(module, folder / "module.json")
    assert optsched.solve_module(optsched.read_module(folder / "module.json")).entry.peak == 18


def what_else(graph: Graph, folder: Path) -> None:
    order = ["right", "left", "join"]
    assert optsched.peak_memory(graph, order) == 18
    assert optsched.live_ranges(graph, np.array([1, 0, 2])).shape == (5, 2)
    assert optsched.timeline(graph, [1, 0, 2]).running.max() == 18
    assert "18" in str(optsched.explain(graph, time_limit=5))
    assert optsched.certify(graph, folder / "proof.json", time_limit=5).certificate.bound == 18
    found = optsched.hunt("lpmf", max_ops=3, max_bytes=4, max_tries=20, at_least=None)
    assert found.tried <= 20
    shrunk = optsched.hunt("program", source=graph, objective="difference", at_least=Fraction(1))
    assert shrunk.counterexample is not None
    assert MemoryModel(align=4).apply(graph).buffers[0].alignment == 4
    assert optsched.in_levels(graph, most=2).on_streams
    assert optsched.with_streams(graph, ["a", "b", "a"]).streams == ("a", "b")
    pooled = optsched.solve(graph, pools=[Pool("fast")], time_limit=5)
    assert pooled.status == "optimal"
    fleet = optsched.tune([graph], folder / "plans.store", work=1000, jobs=0, memory="4GiB")
    assert fleet.graphs[0].slab == 18


def main(folder: Path) -> None:
    """Run all of it in a folder."""
    graph = diamond()
    solve_as_users_do(graph)
    pack_as_users_do()
    heuristics_of_ones_own(graph)
    formats_of_ones_own(folder)
    files(graph, folder)
    what_else(graph, folder)
