"""Methods not tried on many buffers are listed, in words and in the record."""

from __future__ import annotations

from dataclasses import replace

from heuristics.portfolio import packings_left_out
from optsched.model.builder import GraphBuilder
from optsched.model.packing_problem import packing_problem
from optsched.reports.results import packing_record, packing_text
from optsched.solver.pack import pack


def test_packers_that_were_not_tried_are_named_with_the_reason() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4})
    problem, _ = packing_problem(build.build(), [0])
    result = pack(problem)
    assert result.left_out == {}
    assert "not tried" not in packing_text(result, packing_record(result))
    assert "left_out" not in packing_record(result)
    many = replace(result, left_out=packings_left_out(60_000))
    assert "not tried: hill_climb, with this number of buffers it is" in packing_text(
        many, packing_record(many)
    )
    assert set(packing_record(many)["left_out"]) == set(many.left_out)
