"""The loop over stages: it ends at the limit, whatever the stages have found by then."""

from __future__ import annotations

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve


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
