"""Taking parts away: what goes with them, that the loss stays, and that nothing more can go."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from heuristics import ORDERINGS, PACKINGS
from optsched.counterexamples import Hunt, HuntTarget, LossObjective, hunt, hunt_from
from optsched.counterexamples.change import LiveRows
from optsched.counterexamples.removals import (
    parts,
    simpler_packings,
    simpler_sizes,
    with_simpler_sizes,
    without,
    without_buffers,
    without_ops,
)
from optsched.counterexamples.spaces import make_problem
from optsched.counterexamples.target import Loss
from optsched.formats import read_graph
from optsched.model.builder import GraphBuilder
from optsched.model.elements import Op
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem
from optsched.reports.hunt import hunt_text
from tests.support.brute import least_peak, least_slab

INSTANCES = Path(__file__).parents[2] / "instances"


def featured() -> Graph:
    """Two outputs, a view, a mutation, a workspace, a control edge, an input."""
    build = GraphBuilder("featured")
    build.input("x", 8)
    build.op("load", reads=["x"], writes={"a": 4, "b": 6}, workspace=2)
    build.op("look", reads=["a"], views={"v": "a"})
    build.op("use", reads=["v"], writes={"c": 5})
    build.op("write", mutates={"w": "b"}, control=["look"])
    build.op("end", reads=["c", "w"], writes={"y": 1})
    build.output("y")
    return build.build()


def names(graph: Graph) -> tuple[set[str], set[str]]:
    return {op.name for op in graph.ops}, {buffer.name for buffer in graph.buffers}


def test_an_op_goes_with_all_that_only_it_made_or_read() -> None:
    graph, scratch = without(featured(), ("op", "use"))
    # What nobody reads then may stay.
    assert names(scratch) == (names(graph)[0], {*names(graph)[1], "v"})
    ops, buffers = names(graph)
    assert ops == {"load", "look", "write", "end"}
    # The view has no reader left, and with it goes the last reader of what it showed.
    assert buffers == {"x", "b", "w", "load.workspace", "y", "a"}
    assert graph.ops[graph.op_ids["end"]].reads == (graph.buffer_ids["w"],)


def test_a_read_goes_and_the_buffer_too_if_it_was_the_last() -> None:
    graph, scratch = without(featured(), ("read", "end", "c"))
    assert names(scratch)[1] == {*names(graph)[1], "c"}
    assert names(graph)[1] == {"x", "a", "b", "v", "w", "load.workspace", "y"}
    assert not list(without(graph, ("read", "end", "c")))


def test_outputs_stay_without_readers_and_control_edges_go() -> None:
    (graph,) = without(featured(), ("control", "write", "look"))
    assert "y" in names(graph)[1]
    assert all(not op.control for op in graph.ops)


def test_every_part_can_be_asked_for() -> None:
    graph = featured()
    found = list(parts(graph))
    assert {part[0] for part in found} == {"op", "read", "control", "buffer"}
    for part in found:
        for smaller in without(graph, part):
            assert len(list(parts(smaller))) < len(found)
    assert not list(without(graph, ("op", "nobody")))


def test_blocks_go_as_a_whole() -> None:
    graph = without_ops(featured(), {"use", "end", "write"})
    assert graph is not None
    assert names(graph)[0] == {"load", "look"}


def test_simpler_sizes_end() -> None:
    def key(sizes: list[int]) -> tuple[int, int]:
        return len(set(sizes)), sum(sizes)

    for sizes in ([4, 6, 9, 9], [6, 6, 4], [1, 1], [7]):
        found = list(simpler_sizes(sizes))
        assert all(key(simpler) < key(sizes) for simpler in found)
    assert [3, 3, 2] in list(simpler_sizes([6, 6, 4]))
    assert not list(simpler_sizes([1, 1]))


def all_removals(graph: Graph) -> Iterator[Graph]:
    """Return the graph without an op, read, control edge or buffer, rebuilt by hand."""
    for kind, *rest in parts(graph):
        yield from without(graph, (kind, *rest))


def by_hand(graph: Graph) -> Iterator[Graph]:
    """Without one op and what it writes, one read or one buffer; only of ops that read and write.

    Buffers that lose their last reader stay.
    """
    ops = [(op.name, list(op.reads), list(op.writes)) for op in graph.ops]
    drafts = []
    for v, (_, reads, writes) in enumerate(ops):
        drafts.append(([row for u, row in enumerate(ops) if u != v], set(writes)))
        for read in reads:
            row = (ops[v][0], [b for b in reads if b != read], writes)
            drafts.append(([*ops[:v], row, *ops[v + 1 :]], set()))
    drafts += [(ops, {b}) for b in range(len(graph.buffers))]
    for rows, gone in drafts:
        place = {b: i for i, b in enumerate(sorted(set(range(len(graph.buffers))) - gone))}
        yield Graph(
            "less",
            tuple(
                Op(
                    name,
                    reads=tuple(place[b] for b in reads if b in place),
                    writes=tuple(place[b] for b in writes if b in place),
                )
                for name, reads, writes in rows
            ),
            tuple(graph.buffers[b] for b in place),
        )


def test_a_core_is_minimal_also_where_what_nobody_reads_stays() -> None:
    """An op that only reads `b` is not needed: `b` is as well scratch of the op that writes it."""
    build = GraphBuilder("core")
    build.op("a", writes={"a": 1})
    build.op("b", writes={"b": 1})
    build.op("c", reads=["b"])
    build.output("a")
    example = hunt_from(build.build(), HuntTarget("bfs", seconds=None)).counterexample
    assert example.minimal
    assert (len(example.item.ops), example.loss.value, example.loss.rival) == (2, 2, 1)
    line = "minimal: without any one op, edge or buffer the ratio is smaller"
    assert line in hunt_text(Hunt(example.target, example, (), "", 0, 0.0, interrupted=False), {})


@pytest.mark.parametrize("method", ["lpmf", "bfs", "dfs"])
def test_what_a_hunt_finds_is_minimal_by_hand(method: str) -> None:
    example = hunt(
        HuntTarget(method, max_ops=6, max_bytes=9, tries=3000, seconds=None)
    ).counterexample
    assert example.minimal
    assert reaches(example.item, method, example.loss)
    assert not any(reaches(smaller, method, example.loss) for smaller in by_hand(example.item))


def reaches(graph: Graph, method: str, target: Loss) -> bool:
    value = peak_memory(graph, ORDERINGS[method](graph, 0))
    loss = Loss(value, least_peak(graph), target.objective)
    return loss.loses and loss.reaches(target)


@pytest.mark.parametrize("method", ["lpmf", "bfs", "xla_post_order"])
def test_a_real_graph_shrinks_to_a_core_that_nothing_can_be_taken_from(method: str) -> None:
    graph = read_graph(INSTANCES / "inductor" / "alexnet_bs128.bwd.json.gz")
    target = HuntTarget(method, at_least=Fraction(6, 5), seconds=None)
    example = hunt_from(graph, target).counterexample
    assert isinstance(example.item, Graph)
    target = Loss(6, 5)
    assert example.minimal
    assert example.optimum.proved
    assert len(example.item.ops) <= 10
    assert reaches(example.item, method, target)
    assert not any(reaches(smaller, method, target) for smaller in all_removals(example.item))
    assert not any(reaches(simpler, method, target) for simpler in with_simpler_sizes(example.item))


def test_the_bytes_lost_can_be_kept() -> None:
    graph = read_graph(INSTANCES / "inductor" / "llama_2l_bs1.bwd.json.gz")
    whole = peak_memory(graph, ORDERINGS["bfs"](graph, 0))
    lost = 600_000_000
    target = HuntTarget(
        "bfs", objective=LossObjective.DIFFERENCE, at_least=Fraction(lost), seconds=None
    )
    example = hunt_from(graph, target).counterexample
    assert isinstance(example.item, Graph)
    assert example.minimal
    assert example.loss.value - example.loss.rival >= lost
    assert example.loss.value < whole
    assert example.loss.rival == least_peak(example.item)


ROWS: LiveRows = (
    (0, 4, 8),
    (2, 9, 20),
    (3, 5, 7),
    (4, 8, 13),
    (5, 10, 30),
    (8, 12, 11),
    (9, 12, 9),
)


def slab_loss(rows_problem: object, method: str) -> Loss:
    problem = rows_problem
    return Loss(
        problem.slab_size(PACKINGS[method](problem)),  # type: ignore[attr-defined]
        least_slab(problem),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("method", ["first_fit_arrival", "best_fit_start"])
def test_a_packing_shrinks_too(method: str) -> None:
    problem = make_problem(ROWS)
    before = slab_loss(problem, method)
    assert before.loses
    example = hunt_from(problem, HuntTarget(method, seconds=None)).counterexample
    assert isinstance(example.item, PackingProblem)
    assert example.minimal
    assert example.loss.reaches(before)
    smaller = [without_buffers(example.item, {name}) for name in example.item.names]
    smaller += list(simpler_packings(example.item))
    losses = [slab_loss(p, method) for p in smaller]
    assert not any(loss.loses and loss.reaches(before) for loss in losses)
