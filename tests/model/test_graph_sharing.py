"""Pairs kept apart and groups that share an offset, as a graph has them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optsched.check.plan import check_plan
from optsched.cli import main
from optsched.errors import FormatError, GraphError, PlanError
from optsched.formats import read_graph, write_graph
from optsched.formats.native import graph_document, read_graph_document
from optsched.formats.networkx import from_networkx, to_networkx
from optsched.model.builder import GraphBuilder
from optsched.model.elements import InputPolicy, OutputPolicy
from optsched.model.graph import Graph
from optsched.model.lifetimes import Lifetimes
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan
from optsched.model.pools import apart_bytes
from optsched.solver.pipeline import solve
from tests.support import brute
from tests.support.commands import Cli
from tests.support.generators import random_graph, relabel, with_sharing


def chain() -> GraphBuilder:
    """Four buffers of 8, 2, 6 and 4 bytes, each made of the one before."""
    build = GraphBuilder("chain")
    build.input("a", 8)
    for number, (source, target, size) in enumerate([("a", "b", 2), ("b", "c", 6), ("c", "d", 4)]):
        build.op(f"op{number}", reads=[source], writes={target: size})
    build.op("last", reads=["d"])
    return build


def test_solve_honours_pairs_and_groups() -> None:
    free = solve(chain().build())
    assert (free.peak, free.slab) == (10, 10)
    build = chain()
    build.keep_apart("a", "c")
    apart = solve(build.build())
    assert (apart.peak, apart.slab, apart.status) == (10, 16, "optimal")
    assert (
        apart.offsets["a"] + 8 <= apart.offsets["c"]
        or apart.offsets["c"] + 6 <= (apart.offsets["a"])
    )
    build = chain()
    build.must_share("b", "d")
    shared = solve(build.build())
    assert (shared.peak, shared.slab, shared.status) == (10, 12, "optimal")
    assert shared.offsets["b"] == shared.offsets["d"]


def test_a_group_takes_room_for_its_largest_member_while_one_is_live() -> None:
    build = chain()
    build.must_share("b", "d")
    graph = build.build()
    order, slab = (0, 1, 2, 3), 12
    check_plan(graph, Plan(order, (4, 0, 4, 0)), slab=slab)
    with pytest.raises(PlanError, match="'b' at 0 and 'd' at 6 must share an offset"):
        check_plan(graph, Plan(order, (2, 0, 2, 6)))
    with pytest.raises(PlanError, match="overlap while both are live"):
        check_plan(graph, Plan(order, (2, 0, 4, 0)))


def test_the_checker_sees_pairs() -> None:
    build = chain()
    build.keep_apart("d", "a")
    graph = build.build()
    check_plan(graph, Plan((0, 1, 2, 3), (4, 0, 4, 0)))
    with pytest.raises(PlanError, match=r"'a' at .* and 'd' at .* and are to be kept apart"):
        check_plan(graph, Plan((0, 1, 2, 3), (3, 0, 4, 0)))


BAD: list[tuple[Callable[[GraphBuilder], object], str]] = [
    (lambda g: g.keep_apart("a", "x"), "keep apart names unknown buffer 'x'"),
    (lambda g: g.must_share("a", "x"), "must share names unknown buffer 'x'"),
    (lambda g: g.keep_apart("a", "a"), "keep apart: buffer 'a' is paired with itself"),
    (lambda g: g.must_share("a"), "must share: a group needs at least two buffers, got 'a'"),
    (
        lambda g: (g.must_share("b", "d"), g.must_share("d", "a")),
        "must share: buffer 'd' is named twice",
    ),
    (
        lambda g: (g.must_share("b", "d"), g.keep_apart("d", "b")),
        "buffers 'b' and 'd' must share an offset and must be kept apart",
    ),
    (
        lambda g: g.must_share("a", "b"),
        "buffers 'a' and 'b' must share an offset, but some order has both live at once: "
        "make one a view of the other",
    ),
    (
        lambda g: (g.place("b", pin=0), g.must_share("b", "d")),
        "buffers 'b' (pin 0) and 'd' (pin None) must share an offset: give them the same pin",
    ),
    (
        lambda g: (g.place("d", pool="fast"), g.must_share("b", "d")),
        "buffers 'b' (pool '') and 'd' (pool 'fast') must share an offset: give them the same pool",
    ),
    (
        lambda g: (g.place("b", alignment=8), g.must_share("b", "d")),
        "buffers 'b' (alignment 8) and 'd' (alignment 1) must share an offset: give them the same "
        "alignment",
    ),
    (
        lambda g: (g.input("w", 4, InputPolicy.EXCLUDED), g.keep_apart("a", "w")),
        "buffer 'w' lies outside the slab: it cannot be kept apart or share an offset",
    ),
    (
        lambda g: (g.op("view", reads=["b"], views={"v": "b"}), g.keep_apart("a", "v")),
        "buffer 'v' is a view of 'b': name 'b' instead",
    ),
]


@pytest.mark.parametrize(("change", "said"), BAD)
def test_what_makes_no_sense_is_named(change: Callable[[GraphBuilder], object], said: str) -> None:
    build = chain()
    change(build)
    with pytest.raises(GraphError) as caught:
        build.build()
    assert str(caught.value) == said


@pytest.mark.parametrize("policy", [OutputPolicy.LIVE])
def test_who_is_kept_to_the_end_can_only_be_the_last_of_a_group(policy: OutputPolicy) -> None:
    build = chain()
    build.output("d", policy=policy)
    build.must_share("b", "d")
    assert build.build().must_share == ((1, 3),)
    build = chain()
    build.output("b", policy=policy)
    build.must_share("b", "d")
    with pytest.raises(GraphError, match="some order has both live at once"):
        build.build()


def test_members_are_never_live_together_in_any_order() -> None:
    """Against all orders: what is accepted is live in turn in each, what is refused is not."""
    accepted = refused = 0
    features = {"inputs", "uses", "views", "births", "multi", "workspace", "control"}
    for seed in range(300):
        rng = np.random.default_rng([1, seed])
        graph = random_graph(rng, 5, max_reads=int(rng.integers(4)), features=features)
        able = [b for b, x in enumerate(graph.buffers) if graph.roots[b] == b and not x.external]
        if len(able) < 2:
            continue
        a, b = sorted(rng.choice(able, 2, replace=False).tolist())
        together = False
        for order in brute.orders(graph):
            at = brute.spans_of(graph, order)
            if a in at and b in at and max(at[a][0], at[b][0]) < min(at[a][1], at[b][1]):
                together = True
        try:
            replace(graph, must_share=((a, b),))
        except GraphError:
            refused += 1
            sized = graph.buffers[a].size and graph.buffers[b].size
            assert together or not sized
        else:
            accepted += 1
            assert not together
    assert accepted > 10 < refused


def may_share(graph: Graph, *group: int) -> bool:
    try:
        replace(graph, must_share=(group,))
    except GraphError:
        return False
    return True


def test_a_group_is_accepted_if_all_its_pairs_are() -> None:
    accepted = Counter[bool]()
    features = {"inputs", "uses", "views", "births", "multi", "workspace", "control"}
    for seed in range(200):
        rng = np.random.default_rng([4, seed])
        graph = random_graph(rng, 14, max_reads=int(rng.integers(1, 3)), features=features)
        able = [b for b, x in enumerate(graph.buffers) if graph.roots[b] == b and not x.external]
        group: list[int] = []
        for b in rng.permutation(able).tolist():
            pairs = all(may_share(graph, a, b) for a in group)
            if group:
                assert may_share(graph, *group, b) == pairs
            if pairs:
                group.append(b)
                accepted[len(group) > 2] += 1
    assert accepted[True] > 100


def test_the_members_of_a_long_group_are_compared_with_their_neighbors_only() -> None:
    """One of 3,000 buffers in a chain takes an instant; all pairs of them took minutes."""
    build = GraphBuilder("long")
    build.input("b0", 1)
    for i in range(6_000):
        build.op(f"op{i}", reads=[f"b{i}"], writes={f"b{i + 1}": 1})
    build.must_share(*(f"b{i}" for i in range(0, 6_001, 2)))
    graph = build.build()
    lives = Lifetimes(graph, graph.must_share[0])
    assert len(list(lives._neighbors(graph.must_share[0]))) == 3_000
    assert lives.meeting(graph.must_share[0]) is None


def test_scratch_of_unordered_ops_may_share() -> None:
    """Each is live at one step, and two ops never run at one: every order has them in turn."""
    build = GraphBuilder("scratch")
    build.op("p", writes={"a": 4})
    build.op("q", writes={"b": 6})
    build.op("r", writes={"c": 4}, control=["p"])
    build.must_share("a", "b", "c")
    assert solve(build.build()).slab == 6


def test_scratch_beside_a_buffer_that_is_read_later_is_refused() -> None:
    build = GraphBuilder("scratch")
    build.op("p", writes={"a": 4})
    build.op("q", writes={"b": 4})
    build.op("r", reads=["b"])
    build.must_share("a", "b")
    with pytest.raises(GraphError, match="some order has both live at once"):
        build.build()


def test_nothing_is_lost_in_files(tmp_path: Path) -> None:
    pairs = groups = 0
    for seed in range(60):
        rng = np.random.default_rng([2, seed])
        graph = with_sharing(rng, random_graph(rng, 6))
        pairs, groups = pairs + len(graph.keep_apart), groups + len(graph.must_share)
        write_graph(graph, tmp_path / "graph.json")
        assert read_graph(tmp_path / "graph.json") == graph
        assert from_networkx(to_networkx(graph)) == graph
        ids = rng.permutation(len(graph.buffers)).tolist()
        moved = relabel(graph, range(len(graph.ops)), ids)
        assert len(moved.keep_apart) == len(graph.keep_apart)
        assert relabel(moved, range(len(graph.ops)), np.argsort(ids).tolist()) == graph
    assert pairs > 20 < groups


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"keep_apart": [["a", "x"]]}, "keep_apart number 0: buffers names unknown buffer 'x'"),
        ({"must_share": ["ab"]}, "must_share number 0: buffers must be an array, got 'ab'"),
        ({"keep_apart": [["a"]]}, "keep apart: expected two buffers, got 'a'"),
    ],
)
def test_bad_documents_are_named(change: dict[str, object], said: str) -> None:
    document = {**graph_document(chain().build()), **change}
    with pytest.raises((FormatError, GraphError)) as caught:
        read_graph_document(document)
    assert str(caught.value) == said


def test_in_place_keeps_away_from_pairs_and_groups() -> None:
    build = chain()
    build.inplace("op1", "c", "b")
    build.inplace("op2", "d", "c")
    build.keep_apart("c", "a")
    graph = build.build().with_inplace()
    assert graph.inplace == ((2, 3, 2),)
    candidates = graph.inplace_candidates
    with pytest.raises(GraphError, match="'c' in place, which keep-apart pairs or must-share"):
        replace(graph, inplace=candidates)
    assert replace(graph, keep_apart=(), inplace=candidates).inplace == candidates


def test_the_peak_knows_nothing_of_either() -> None:
    for seed in range(30):
        rng = np.random.default_rng([3, seed])
        graph = random_graph(rng, 6)
        given = with_sharing(rng, graph)
        order = range(len(graph.ops))
        if given.predecessors == graph.predecessors and graph.inplace == given.inplace:
            assert peak_memory(given, order) == peak_memory(graph, order)
            problem, _ = packing_problem(given, order)
            assert problem.joined.problem.max_load >= problem.peak >= 0


def test_a_simulator_file_can_not_say_it(tmp_path: Path) -> None:
    build = chain()
    build.keep_apart("a", "d")
    with pytest.raises(FormatError, match="buffer 'a' is kept apart, which a simulator file"):
        write_graph(build.build(), tmp_path / "x.json", format="inductor")


def test_the_command_line(tmp_path: Path, cli: Cli) -> None:
    build = chain()
    build.keep_apart("a", "c")
    build.must_share("b", "d")
    path, plan = str(tmp_path / "graph.json"), str(tmp_path / "plan.json")
    write_graph(build.build(), path)
    found = cli.json("solve", path, "-o", plan)
    assert found["slab"] == 18
    assert found["kept_apart"] == {"bytes": 16, "buffers": ["a", "b", "c"]}
    told = cli("info", path)
    assert "kept apart     1 pair" in told
    assert "one offset     1 group" in told
    told = cli("solve", path)
    assert "at least 16 bytes are pairwise kept apart in every order: a, b, c" in told
    assert main(["check", path, plan, "--replay"]) == 0
    document = json.loads(Path(plan).read_text())
    document["offsets"]["c"] = document["offsets"]["a"]
    Path(plan).write_text(json.dumps(document))
    assert main(["check", path, plan]) == 1


def test_pairs_bound_the_slab_of_every_order() -> None:
    """Against the least slab of all orders; equal often enough to be of use."""
    tight = above = 0
    for seed in range(90):
        rng = np.random.default_rng([4, seed])
        features = {"inputs", "workspace", "pools"} if seed % 2 else {"multi", "inplace"}
        graph = with_sharing(rng, random_graph(rng, 4, max_size=8, features=features))
        if np.count_nonzero(graph.arrays.size) > 7:
            continue
        best, bound = brute.least_joint(graph), apart_bytes(graph)
        assert best is not None
        assert bound <= best[0]
        assert apart_bytes(graph.with_inplace()) <= bound
        above += bound > best[1]
        tight += bound == best[0] > best[1]
    assert tight > 2 < above, (tight, above)


def test_a_bound_by_pairs_closes_a_graph_too_large_to_be_enumerated() -> None:
    build = GraphBuilder("queues")
    for lane in range(30):
        for at in range(4):
            reads = [f"b{lane}.{at - 1}"] if at else []
            build.op(f"op{lane}.{at}", reads=reads, writes={f"b{lane}.{at}": 64})
    for lane in range(9):
        for other in range(lane):
            build.keep_apart(f"b{other}.3", f"b{lane}.3")
    graph = build.build()
    result = solve(graph, time_limit=20)
    assert (apart_bytes(graph), result.slab_bound, result.slab) == (576, 576, 576)
    assert (result.status, result.peak) == ("optimal", 128)
