"""The loop over stages: it ends at the limit, with any results of the stages."""

from __future__ import annotations

import json

import pytest

from optsched.errors import GraphError
from optsched.formats.native import read_graph_document
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.pools import Pool
from optsched.model.question import Question
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.joint_stages import other_orders
from optsched.solver.known import Known
from optsched.solver.order_packing import found_orders
from optsched.solver.pipeline import solve
from optsched.solver.resume import Resume


def clashing_pins() -> Graph:
    """Pinned buffers clash in the orders that are tried first; found by the fuzz of plan files."""
    build = GraphBuilder("pins")
    build.op("op0", writes={"a": 8})
    build.op("op1", reads=["a"], views={"view1": "a"})
    build.op("op2", reads=["a"], views={"view2": "a"})
    build.op("op3", reads=["a"], writes={"b": 15})
    build.op("op4", reads=["b"], writes={"c": 6})
    build.op("op5", reads=["a", "view1"], writes={"d": 11})
    build.op("op6", writes={"e": 13})
    build.op("op7", reads=["e", "view2", "c"], writes={"f": 15})
    build.op("op8", reads=["d"], writes={"g": 15}, workspace=3)
    build.op("op9", reads=["f", "e", "g"], views={"h": "g"}, workspace=11)
    build.op("op10", reads=["c"], writes={"i": 8}, control=["op2"])
    build.op("op11", reads=["d"], writes={"j": 13})
    for name, pin in (("f", 1), ("g", 5), ("op8.workspace", 1)):
        build.place(name, pin=pin)
    build.output("a", "b", "h", "j")
    return build.build()


def test_a_limit_on_work_ends_a_search_that_has_no_plan() -> None:
    for work in (0, 10):
        assert solve(clashing_pins(), limits=Limits(work=work)).plan is None


def test_pools_bear_a_search_that_has_no_plan() -> None:
    """Found by the fuzz of plan files, as it stands."""
    pools = [Pool("pool", 20), Pool("a"), Pool("fast", 14)]
    limits = Limits(work=10, seed=4)
    with pytest.raises(GraphError, match="pinned onto each other"):
        solve(read_graph_document(json.loads(PINNED_POOLS)), pools=pools, limits=limits)


PINNED_POOLS = """
{"format": "optsched-graph/1", "name": "random", "ops": [
{"name": "op0", "kind": "matmul", "writes": ["out0_0"]},
{"name": "op1", "kind": "add", "writes": ["out1_0", "out1_1"]},
{"name": "op2", "kind": "add", "reads": ["out1_0"]},
{"name": "op3", "kind": "add", "writes": ["out3_0", "out3_1", "out3_2", "tmp3"],
"workspace": "tmp3"},
{"name": "op4", "kind": "matmul", "reads": ["out0_0", "out0_0"], "writes": ["out4_0", "out4_1"]}],
"buffers": [
{"name": "out0_0", "size": 14},
{"name": "out1_0", "size": 12},
{"name": "out1_1", "size": 3, "output": "live", "pin": 6},
{"name": "out3_0", "size": 11, "output": "live"},
{"name": "out3_1", "size": 4, "output": "live", "pool": "fast", "pin": 0},
{"name": "out3_2", "size": 1, "output": "live", "pool": "fast"},
{"name": "tmp3", "size": 5, "pin": 6},
{"name": "out4_0", "size": 7, "output": "live"},
{"name": "out4_1", "size": 6}]}
"""


def test_other_orders_end_where_no_known_order_has_room() -> None:
    build = GraphBuilder("wide")
    for name in "abc":
        build.op(name, writes={name: 4}, reads=[])
    build.op("join", reads=["a", "b", "c"], writes={"y": 1})
    build.output("y")
    clock = Clock.of(Limits(seconds=5.0))
    known = Known(Question(build.build()), clock)
    for finding in found_orders(known, "given", [0, 1, 2, 3]):
        known.merge(finding)
    assert known.plan is not None
    known.capacity = known.measured.peak - 1
    assert not any(finding.more for finding in other_orders(known, Resume(), clock))
