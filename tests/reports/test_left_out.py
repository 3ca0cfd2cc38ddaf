"""Methods not tried on many buffers are listed, in words and in the record."""

from __future__ import annotations

from dataclasses import replace

from heuristics.portfolio import packings_left_out
from optsched.model.builder import GraphBuilder
from optsched.model.packing_problem import packing_problem
from optsched.reports.results import pack_record, pack_text
from optsched.solver.pack import pack


def test_packers_that_were_not_tried_are_named_with_the_reason() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4})
    problem, _ = packing_problem(build.build(), [0])
    result = pack(problem)
    assert result.left_out == {}
    assert "not tried" not in pack_text(problem, result, pack_record(problem, result))
    assert "left_out" not in pack_record(problem, result)
    many = replace(result, left_out=packings_left_out(60_000))
    assert "not tried: hill_climb, with this number of buffers it is" in pack_text(
        problem, many, pack_record(problem, many)
    )
    assert set(pack_record(problem, many)["left_out"]) == set(many.left_out)
