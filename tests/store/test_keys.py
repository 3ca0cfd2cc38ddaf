"""Keys of graphs: they depend on everything but names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optsched.check.plan import check_plan
from optsched.errors import FormatError, GraphError
from optsched.formats import read_graph, write_graph
from optsched.model.elements import Buffer, Op
from optsched.model.graph import Graph
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from optsched.store import PlanStore, graph_key
from optsched.store.document import kept_document, read_kept
from tests.model.test_streams import loads
from tests.support.generators import FEATURES, random_graph, relabel, with_sharing


def renamed(graph: Graph, prefix: str = "other ") -> Graph:
    """Return the graph under other names."""
    ops = tuple(replace(op, name=f"{prefix}{v}") for v, op in enumerate(graph.ops))
    buffers = tuple(replace(x, name=f"{prefix}{b}") for b, x in enumerate(graph.buffers))
    return replace(graph, ops=ops, buffers=buffers)


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_is_found_again_for_a_renamed_graph(seed: int, tmp_path: Path) -> None:
    graph = random_graph(np.random.default_rng(seed), 3 + seed % 9)
    plan = solve(graph, limits=Limits(work=2000)).plan
    assert plan is not None
    store = PlanStore(tmp_path / "plans.db")
    assert store.put(graph, plan)
    found = store.get(renamed(graph))
    assert found is not None
    assert found.plan is not None
    assert (found.plan.order, found.plan.offsets) == (plan.order, plan.offsets)
    assert len(store) == 1


def test_a_graph_in_another_order_is_another_graph(tmp_path: Path) -> None:
    ops = (Op("a", writes=(0,)), Op("b", writes=(1,)), Op("c", reads=(0, 1)))
    graph = Graph("g", ops, (Buffer("x", 4), Buffer("y", 8)))
    store = PlanStore(tmp_path / "plans.db")
    assert store.put_result(graph, solve(graph, limits=Limits(work=1000)))
    other = relabel(graph, [1, 0, 2], [0, 1])
    assert store.get(graph) is not None
    assert store.get(other) is None
    assert store.put_result(other, solve(other, limits=Limits(work=1000)))
    assert len({record.key for record in store.records()}) == 2


def test_what_a_plan_depends_on_changes_the_key() -> None:
    ops = (Op("a", writes=(0, 1)), Op("b", reads=(0,), writes=(2,)), Op("c", reads=(1,)))
    buffers = (Buffer("x", 4), Buffer("y", 4), Buffer("z", 4))
    graph = Graph("g", ops, buffers)
    others = [
        replace(graph, buffers=(Buffer("x", 5), *buffers[1:])),
        replace(graph, buffers=(Buffer("x", 4, alignment=2), *buffers[1:])),
        replace(graph, buffers=(Buffer("x", 4, pool="fast"), *buffers[1:])),
        replace(graph, buffers=(Buffer("x", 4, pin=0), *buffers[1:])),
        replace(graph, ops=(*ops[:2], Op("c", reads=(1,), control=(1,)))),
        replace(graph, ops=(*ops[:2], Op("c", uses=(1,)))),
        replace(graph, ops=(ops[0], replace(ops[1], workspace=2), ops[2])),
        replace(graph, inplace_candidates=((1, 2, 0),), inplace=((1, 2, 0),)),
        replace(graph, keep_apart=((0, 1),)),
    ]
    assert len({graph_key(g) for g in (graph, *others)}) == 1 + len(others)
    # Names and kinds are only shown, and a candidate has no effect until a model admits it.
    same = (renamed(graph), replace(graph, inplace_candidates=((1, 2, 0),)))
    assert {graph_key(g) for g in same} == {graph_key(graph)}


def test_the_key_of_a_graph_stays_what_it_is() -> None:
    """Another key here needs another version of the file, as no stored plan would be found."""
    rng = np.random.default_rng(7)
    graph = with_sharing(rng, random_graph(rng, 9, features=FEATURES)).with_inplace()
    assert graph_key(graph) == "7bd18e639f7457190dae8ecc20203e7b"


def test_a_document_makes_the_graph_again() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, int(rng.integers(10)), features=FEATURES)
        if seed % 3 == 0:
            graph = with_sharing(rng, graph)
        require_same_again(graph.with_inplace() if seed % 2 else graph)
    require_same_again(loads())


def require_same_again(graph: Graph) -> None:
    made = read_kept(json.loads(json.dumps(kept_document(graph))))
    assert made == renamed(graph, "")
    assert graph_key(made) == graph_key(graph)


@pytest.mark.parametrize("rows", [None, 3, [[0, 1]], [[0, True, 1]], [[0, 1, 1.0]], [[0, 9, 1]]])
def test_what_is_no_document_is_refused(rows: object) -> None:
    graph = Graph("g", (Op("a", writes=(0,)),), (Buffer("x", 4),))
    with pytest.raises((FormatError, GraphError)) as caught:
        read_kept({**kept_document(graph), "admitted": rows})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["albert_mlm_bs4.bwd", "t5_small_bs4.bwd"])
def test_a_network_that_is_written_and_read_has_the_same_key(name: str, tmp_path: Path) -> None:
    graph = read_graph(f"instances/inductor/{name}.json.gz")
    write_graph(graph, tmp_path / "graph.json")
    again = read_graph(tmp_path / "graph.json")
    assert graph_key(again) == graph_key(graph)
    plan = solve(graph, limits=Limits(work=1)).plan
    assert plan is not None
    assert check_plan(again, plan) == check_plan(graph, plan)
