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


def test_a_view_that_is_no_forward_op_runs_once() -> None:
    """It ran again with `loss`, as all views did, though only forward ops may."""
    build = GraphBuilder("late", cost_unit="us")
    build.input("tangents_1", 0, "excluded")
    build.op("f", writes={"a": 5, "e": 5}, cost=3)
    build.op("g", reads=["a"], writes={"b": 5}, cost=3)
    build.op("turn", reads=["b"], views={"t": "b"})
    build.op("end", reads=["t"], writes={"l": 1})
    build.output("l")
    build.op("back", reads=["b", "a", "tangents_1"], writes={"x": 5})
    build.op("last", reads=["x", "a", "e"], writes={"y": 5})
    build.output("y")
    graph = build.build()
    for peak in (15, 16, 20, 21, 25):
        result = recompute(graph, peak, loss=["g"], time_limit=10)
        if result.sequence is not None:
            names = [graph.ops[v].name for v in result.sequence]
            assert names.count("turn") == names.count("end") == 1
            assert check_runs(graph, result.sequence).peak <= peak


def test_a_reader_of_an_older_copy_keeps_its_bytes() -> None:
    """A view that runs once shows the old copy to a reader that comes after a repeat."""
    problem = make_problem(viewed(), ["widen"])
    nodes = [problem.ops.index(problem.graph.op_ids[x]) for x in ("widen", "narrow", "mid", "loss")]
    back = problem.ops.index(problem.graph.op_ids["back"])
    assert not problem.keeps_old([*nodes, back])
    assert problem.keeps_old([*nodes, nodes[0], back])
    names = [problem.graph.ops[v].name for v in problem.sequence([*nodes, nodes[0], back])]
    assert names == ["widen", "turn", "narrow", "mid", "loss", "widen", "back"]


def test_repeats_may_cost_more_than_a_bound_stands_for() -> None:
    """Three repeats of an op of cost 2**61 were taken for a proof that no plan exists."""
    build = GraphBuilder("dear", cost_unit="us")
    build.input("tangents_1", 0, "excluded")
    build.op("A", writes={"a": 10}, cost=2**61)
    build.op("L", reads=["a"], writes={"l": 0})
    build.output("l")
    last = "tangents_1"
    for i in range(3):
        build.op(f"B{i}", reads=[last], writes={f"s{i}": 1}, workspace=12)
        build.op(f"C{i}", reads=[f"s{i}", "a"], writes={f"t{i}": 1})
        last = f"t{i}"
    build.output(last)
    result = recompute(build.build(), 15, time_limit=10)
    assert result.extra == 3 * 2**61
    assert result.bound is not None
    assert result.bound <= 3 * 2**61


def test_a_loss_may_be_an_iterator() -> None:
    """It was used up by the test of its names, and the peak was then said to be impossible."""
    graph = viewed()
    by_list, by_iterator = (
        recompute(graph, 17, loss=loss, cost="given", time_limit=10)
        for loss in (["loss"], iter(["loss"]))
    )
    assert (by_list.status, by_list.extra) == (by_iterator.status, by_iterator.extra)
    with pytest.raises(UsageError, match="loss wants a Iterable, got int"):
        recompute(graph, 17, loss=3)  # type: ignore[arg-type]


def test_costs_of_a_step_have_a_limit() -> None:
    graph = viewed()
    large = replace(graph, ops=tuple(replace(op, cost=2**61) for op in graph.ops))
    with pytest.raises(UsageError, match=r"op 'turn': costs .* larger unit than 'us'"):
        make_problem(large)
    # Copies of such buffers would exceed the limit of a graph.
    wide = replace(graph, buffers=(*graph.buffers[:-1], replace(graph.buffers[-1], size=2**57)))
    with pytest.raises(UsageError, match=r"viewed: sizes add up to .* allows at most 2\*\*56"):
        make_problem(wide)
