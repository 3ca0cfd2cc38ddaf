"""Views that are not left out, views with a cost, and bytes that another op allocates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched import GraphBuilder, recompute
from optsched.certificate.recompute import certify_recompute
from optsched.check.recompute import check_recompute
from optsched.check.runs import check_runs
from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.runs import unroll
from optsched.solver.recompute.problem import make_problem


def viewed(cost: int = 0, own: int = 0) -> Graph:
    """Return a step in which backward reads `wide` by a view, which has a cost or bytes too."""
    build = GraphBuilder("viewed", cost_unit="us")
    build.input("tangents_1", 0, "excluded")
    build.op("widen", writes={"wide": 8}, cost=3)
    build.op("turn", reads=["wide"], views={"turned": "wide"}, workspace=own, cost=cost)
    build.op("narrow", reads=["turned"], writes={"small": 1}, cost=1)
    build.op("mid", reads=["small"], writes={"m": 9}, cost=1)
    build.op("loss", reads=["m"], writes={"l": 1}, cost=1)
    build.output("l")
    build.op("back", reads=["turned", "tangents_1"], writes={"g": 1})
    build.output("g")
    return build.build()


@pytest.mark.parametrize(("cost", "own"), [(0, 0), (2, 0), (0, 1), (2, 1)])
def test_a_view_of_bytes_that_are_made_again_is_made_again_too(cost: int, own: int) -> None:
    # Without repeats `wide` is live while `mid` runs: 8 + 1 + 9 bytes. A view with a workspace is
    # an op like others, and the planner may miss that it has to run again; but it never takes a
    # plan for one of a smaller peak.
    graph = viewed(cost, own)
    result = recompute(graph, 18, cost="given", time_limit=10)
    assert (result.status, result.extra) == ("optimal", 0)
    result = recompute(graph, 17, cost="given", time_limit=10)
    assert result.bound == 3
    if result.sequence is not None:
        checked = check_runs(graph, result.sequence)
        made = unroll(graph, result.sequence)
        assert checked.peak == peak_memory(made.graph, range(len(made.source))) == result.peak
        assert checked.extra == result.extra == 3 + cost
    assert own or result.sequence is not None
    assert result.total == 6 + cost
    assert check_recompute(graph, certify_recompute(result)) == 3


def test_bytes_that_another_op_allocates_count_in_the_certificate() -> None:
    # `first` allocates the bytes of `late`: 1 + 2 + 4 bytes are live while `mid` runs.
    build = GraphBuilder("born", cost_unit="us")
    build.input("tangents_1", 0, "excluded")
    build.op("first", writes={"a": 1}, cost=1)
    build.op("mid", reads=["a"], writes={"b": 2}, cost=1)
    build.op("last", reads=["b"], writes={"late": 4, "l": 1}, cost=1)
    build.output("l")
    build.op("back", reads=["l", "tangents_1"], writes={"g": 1})
    build.output("g")
    graph = build.build()
    buffers = tuple(
        replace(x, birth=graph.op_ids["first"]) if x.name == "late" else x for x in graph.buffers
    )
    born = replace(graph, buffers=buffers)
    result = recompute(born, 6, cost="given", time_limit=10)
    assert result.status == "infeasible"
    assert check_recompute(born, certify_recompute(result)) is None


def test_costs_that_could_be_taken_for_impossible_are_refused() -> None:
    # A bound of 2**62 stands for "no sequence fits".
    graph = viewed()
    large = replace(graph, ops=tuple(replace(op, cost=2**61) for op in graph.ops))
    with pytest.raises(UsageError, match=r"op 'turn': costs .* larger unit than 'us'"):
        make_problem(large)
    # Copies of such buffers would exceed the limit of a graph.
    wide = replace(graph, buffers=(*graph.buffers[:-1], replace(graph.buffers[-1], size=2**57)))
    with pytest.raises(UsageError, match=r"viewed: sizes add up to .* allows at most 2\*\*56"):
        make_problem(wide)
