"""Upper limits of addresses: every engine and the checker keep them, as all offsets tried show."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from heuristics import PACKINGS
from optsched import (
    Graph,
    GraphBuilder,
    MemoryModel,
    PackingProblem,
    Plan,
    Pool,
    Question,
    check_packing,
    check_plan,
    pack,
    read_graph,
    solve,
    write_graph,
)
from optsched.errors import GraphError, OptschedError, PlanError, UsageError
from optsched.model.elements import MAX_ADDRESS
from optsched.model.limits import limited, limited_packing, parse_limits, upper_limits
from optsched.model.liveness import live_ranges
from optsched.model.packing_problem import Gap
from optsched.model.reserved import Region
from optsched.model.streams import with_streams
from optsched.packing import solve_packing
from optsched.packing.rules import Rules
from optsched.runtime.limits import Limits
from optsched.solver.packing_result import PackingResult
from optsched.solver.spill.pooled import PooledProblem
from optsched.solver.status import Status
from tests.support.commands import Cli

Row = tuple[int, int, int, int, int]
"""Start, end, size, alignment and limit of a buffer."""


def least_of_rows(rows: Sequence[Row]) -> int | None:
    """Return the least slab of some buffers by trying all offsets, or None."""
    place = [0] * len(rows)
    best = 1 + sum(size + alignment for _, _, size, alignment, _ in rows)
    none = best

    def meets(i: int, j: int) -> bool:
        together = rows[j][0] < rows[i][1] and rows[i][0] < rows[j][1]
        low = place[j] < place[i] + rows[i][2]
        return together and low and place[i] < place[j] + rows[j][2]

    def put(i: int, top: int) -> None:
        nonlocal best
        if i == len(rows) or top >= best:
            best = min(best, top)
            return
        _, _, size, alignment, limit = rows[i]
        for place[i] in range(0, min(best - 1, limit) - size + 1, alignment):
            if not any(meets(i, j) for j in range(i)):
                put(i + 1, max(top, place[i] + size))

    put(0, 0)
    return None if best == none else best


def least_by_trying(problem: PackingProblem, regions: Sequence[Region] = ()) -> int | None:
    """Return the least slab by trying all offsets, with the limits compared here."""
    free = replace(problem, below=np.full(len(problem), MAX_ADDRESS))
    room = int(problem.size.sum() + problem.alignment.sum() + max(0, problem.pin.max()))
    room += max((region.high for region in regions), default=0)
    live = problem.end > problem.start
    highest = np.where(live, np.minimum(room, problem.below - problem.size), room)
    columns = (problem.pin.tolist(), problem.alignment.tolist(), highest.tolist())
    ranges = [
        [pin] if pin >= 0 else range(0, most + 1, step)
        for pin, step, most in zip(*columns, strict=True)
    ]
    # Without any step, nothing is reserved.
    regions = regions if problem.end.max() > problem.start.min() else []
    high = max((region.high for region in regions), default=0)
    best: int | None = None
    for offsets in product(*ranges):
        slab = max(high, problem.slab_size(offsets))
        if best is not None and slab >= best:
            continue
        if any(_in(region, problem, offsets) for region in regions):
            continue
        try:
            check_packing(free, offsets)
        except PlanError:
            continue
        best = slab
    return best


def _in(region: Region, problem: PackingProblem, offsets: Sequence[int]) -> bool:
    """Return True if a buffer lies in a region that is reserved at all steps."""
    return any(
        at + low < region.high and region.low < at + high
        for i, at in enumerate(offsets)
        for start, end, low, high in problem.rectangles(i)
        if start < end and low < high
    )


def random_problem(random: random.Random) -> PackingProblem:
    """Return a problem of up to four buffers with limits, pins, alignments, gaps and groups."""
    n = random.randint(1, 4)
    size = [random.randint(0, 4) for _ in range(n)]
    start = [random.randint(0, 4) for _ in range(n)]
    end = [at + random.randint(0, 4) for at in start]
    alignment = [random.choice([1, 1, 1, 2]) for _ in range(n)]
    pin, below = [-1] * n, [MAX_ADDRESS] * n
    if random.random() < 0.25:
        i = random.randrange(n)
        pin[i] = alignment[i] * random.randint(0, 3)
    for i in range(n):
        if random.random() < 0.6:
            below[i] = max(0, pin[i]) + size[i] + random.randint(0, 6)
    gaps = []
    for at, until, bytes_ in zip(start, end, size, strict=True):
        gap = []
        if until - at > 1 and random.random() < 0.2:
            low = random.randint(0, bytes_)
            gap = [Gap(at + 1, until, (low, random.randint(low, bytes_)))]
        gaps.append(gap)
    return PackingProblem(
        size=size,
        start=start,
        end=end,
        alignment=alignment,
        pin=pin,
        below=below,
        gaps=gaps if any(gaps) else (),
        keep_apart=[x for x in ((0, n - 1),) if n > 1 and random.random() < 0.2],
        must_share=[(1, n - 2)] if n > 3 and random.random() < 0.3 else (),
    )


def test_packings_are_the_best_that_keep_all_limits() -> None:
    binds = none = 0
    for seed in range(300):
        numbers = random.Random(seed)
        regions = [Region(2, 4)] if numbers.random() < 0.2 else []
        problem = random_problem(numbers)
        least = least_by_trying(problem, regions)
        try:
            found: PackingResult | None = pack(problem, reserved=regions, work=100_000)
        except GraphError:
            found = None
        if found is None:
            none += least is None
            assert least is None, seed
            continue
        assert found.slab == found.slab_bound == least, seed
        check_packing(problem, found.offsets)
        free = replace(problem, below=np.full(len(problem), MAX_ADDRESS))
        binds += pack(free, reserved=regions, work=100_000).slab != least
        for capacity in (least - 1, least):
            if capacity < 0 or (regions and capacity < 4):
                continue
            within = pack(problem, capacity=capacity, reserved=regions, work=100_000)
            assert (within.slab is not None and within.slab <= capacity) == (capacity == least)
            assert (within.slab_bound > capacity) == (capacity < least), seed
    assert none
    assert binds


@pytest.mark.parametrize("off", ["identical", "far_skip", "failures", "subset_sums", "units"])
def test_no_rule_of_the_search_loses_a_packing(off: str) -> None:
    some, without = Rules(), replace(Rules(), **{off: False})
    for seed in range(150):
        problem = random_problem(random.Random(seed))
        try:
            problem.joined.problem.refuse_clashing_pins()
        except GraphError:
            continue
        one, other = (
            solve_packing(problem, limits=Limits(work=100_000), rules=rules)
            for rules in (some, without)
        )
        assert (one.slab, one.bound) == (other.slab, other.bound), seed


def test_identical_buffers_with_different_limits_are_not_exchanged() -> None:
    problem = PackingProblem(
        size=[4] * 5, start=[0] * 5, end=[1] * 5, below=[20, 20, 8, 4, MAX_ADDRESS]
    )
    found = pack(problem)
    assert (found.slab, found.slab_bound) == (20, 20)
    assert found.offsets[3] == 0
    assert found.offsets[2] == 4
    with pytest.raises(GraphError, match="12 bytes of one step must end at or below 8"):
        pack(limited_packing(problem, {"b0": 8}), work=100_000)
    # Sizes beyond the search: first fit alone, but no wrong claim.
    sizes, below = [2**60 + 1, 2**40 + 3], [2**61, 2**41]
    huge = PackingProblem(size=sizes, start=[0, 0], end=[1, 1], below=below)
    assert pack(huge, work=1000).offsets.tolist() == [2**40 + 3, 0]


def test_too_many_bytes_below_an_address_are_refuted_without_a_search() -> None:
    numbers = np.random.default_rng(1)
    start, size = numbers.integers(0, 60, 200), 16 * numbers.integers(1, 500, 200)
    free = PackingProblem(size=size, start=start, end=start + numbers.integers(1, 12, 200))
    below = np.where(numbers.random(200) < 0.2, size + 8_000, free.below)
    problem = replace(free, below=below)
    low = problem.below < MAX_ADDRESS
    load = max(int(size[low & (start <= t) & (t < free.end)].sum()) for t in range(60))
    assert load > below[low].max()
    outcome = solve_packing(problem, limits=Limits(work=1))
    assert (outcome.offsets, outcome.bound) == (None, MAX_ADDRESS + 1)
    # A pinned buffer that ends below the address takes its part of the room.
    rows = {"size": [4, 4], "start": [0, 0], "end": [1, 1], "below": [MAX_ADDRESS, 7]}
    pinned = PackingProblem(pin=[2, -1], **rows)
    assert solve_packing(pinned, limits=Limits(work=1)).bound == MAX_ADDRESS + 1
    # Where limits leave some room, first fit finds it: it takes the buffers of low limits first.
    wide = replace(free, below=np.where(low, 40_000 + size, free.below))
    found = pack(wide, work=1)
    assert check_packing(wide, found.offsets) < 1.2 * free.max_load


def test_a_group_ends_where_each_of_its_members_may() -> None:
    # Member `b` of 2 bytes must start at 3 or below, so the group of 6 bytes ends at 9.
    group = PackingProblem(
        names=["a", "b", "c"],
        size=[6, 2, 3],
        start=[0, 2, 0],
        end=[2, 4, 4],
        below=[MAX_ADDRESS, 5, 3],
        must_share=[("a", "b")],
    )
    assert group.joined.problem.below.tolist() == [9, 3]
    assert pack(group).offsets.tolist() == [3, 3, 0]
    # A member that is never live binds nothing, as the checker has it.
    dead = replace(group, end=np.array([2, 2, 4]), start=np.array([0, 2, 0]))
    assert dead.joined.problem.below.tolist() == [MAX_ADDRESS, 3]
    assert check_packing(dead, [4, 4, 0]) == 10


def test_the_checker_of_packings_compares_each_end() -> None:
    problem = PackingProblem(names=["a", "b"], size=[4, 4], start=[0, 0], end=[2, 2], below=[8, 6])
    assert check_packing(problem, [4, 0]) == 8
    with pytest.raises(PlanError, match="'b' ends at 8, above its upper limit of 6"):
        check_packing(problem, [0, 4])
    with pytest.raises(UsageError, match="pools and upper limits exclude each other"):
        PooledProblem.of(problem, ["", ""], [Pool("fast", 8)])
    with pytest.raises(GraphError, match="'b': it ends at 7 or above, its upper limit is 6"):
        replace(problem, pin=np.array([-1, 3]))


def random_graph(numbers: random.Random, pools: Sequence[str] = ("",)) -> Graph:
    build, names = GraphBuilder("g"), list[str]()
    for v in range(numbers.randint(2, 5)):
        reads = [name for name in names if numbers.random() < 0.5]
        sizes = {f"x{v}{k}": numbers.randint(1, 6) for k in range(numbers.choice([1, 1, 2]))}
        build.op(f"o{v}", reads=reads, writes=sizes)
        for name in sizes:
            build.place(name, pool=numbers.choice(pools), alignment=numbers.choice([1, 1, 2]))
        names += sizes
    build.output(names[-1])
    return build.build()


def least_slab(graph: Graph, limits: dict[str, int]) -> int | None:
    """Return the least sum of slabs over all orders and offsets; None without a valid plan."""
    found = []
    for order in permutations(range(len(graph.ops))):
        try:
            ranges = live_ranges(graph, list(order)).tolist()
        except PlanError:
            continue
        pools: dict[str, list[Row]] = {}
        for buffer, (start, end) in zip(graph.buffers, ranges, strict=True):
            if buffer.size and start < end:
                row = (start, end, buffer.size, buffer.alignment, limits.get(buffer.name, 99))
                pools.setdefault(buffer.pool, []).append(row)
        slabs = [least_of_rows(rows) for rows in pools.values()]
        if None not in slabs:
            found.append(sum(slab or 0 for slab in slabs))
    return min(found, default=None)


@pytest.mark.parametrize(
    ("engine", "pools"),
    [("auto", ("",)), ("auto", ("", "fast")), ("cpsat", ("",)), ("cpsat", ("", "fast")),
     ("milp", ("",)), ("heuristics", ("",))],
)  # fmt: skip
def test_plans_are_the_best_that_keep_all_limits(engine: str, pools: Sequence[str]) -> None:
    none = refused = 0
    for seed in range(60):
        numbers = random.Random(seed)
        graph = random_graph(numbers, pools)
        limits = {
            buffer.name: buffer.size + numbers.randint(0, 5)
            for buffer in graph.buffers
            if numbers.random() < 0.5
        }
        least = least_slab(graph, limits)
        try:
            kept = limited(graph, limits)
        except GraphError:
            # The buffers of one op do not fit.
            refused += 1
            if least is not None:
                raise
            continue
        if least is None:
            none += 1
            if engine == "auto":
                # All orders are enumerated, so that it is proved.
                with pytest.raises(GraphError, match="or miss an upper limit in every order"):
                    solve(kept, time_limit=20)
            else:
                assert solve(kept, engine=engine, time_limit=20).plan is None
            continue
        result = solve(kept, engine=engine, time_limit=20)
        if result.plan is None:
            # These two pack by heuristics alone.
            assert engine in ("milp", "heuristics")
            continue
        assert result.slab_bound <= least <= result.slab
        assert engine in ("milp", "heuristics") or result.slab == least, seed
        assert engine != "auto" or result.slab_bound == least, seed
        check_plan(kept, result.plan)
        for name, limit in limits.items():
            at = result.plan.offsets[kept.buffer_ids[name]]
            assert at is None or at + kept.buffer(name).size <= limit
    assert none + refused > 5


def fork() -> Graph:
    build = GraphBuilder("fork")
    build.op("other", writes={"c": 5})
    build.op("big", writes={"a": 9})
    build.op("sum", reads=["a"], writes={"b": 1})
    build.op("join", reads=["b", "c"], writes={"y": 1})
    build.output("y")
    return build.build()


@pytest.mark.parametrize("streams", [1, 2])
def test_limits_that_no_order_can_keep_are_refused_after_all_orders(streams: int) -> None:
    build = GraphBuilder("held")
    build.op("p", writes={"a": 5})
    build.op("q", control=["p"], writes={"b": 5})
    build.op("r", reads=["a"], control=["q"])
    build.op("s", reads=["b"])
    build.op("t", writes={"c": 1})
    graph = build.build()
    # No op needs `a` and `b`, but `a` waits for `r` while `q` makes `b`.
    kept = MemoryModel(below={"a": 6, "b": 6}).apply(graph)
    kept = with_streams(kept, [f"s{v % streams}" for v in range(5)])
    with pytest.raises(GraphError, match="or miss an upper limit in every order"):
        solve(kept, time_limit=20)
    with pytest.raises(GraphError, match="or miss an upper limit in every order"):
        solve(kept, objective="peak", time_limit=20)
    assert solve(kept, capacity=9, time_limit=20).status is Status.INFEASIBLE


def test_limits_are_data_of_the_graph_and_of_its_scope(tmp_path: Path) -> None:
    graph = fork()
    kept = MemoryModel(below={"c": 6}).apply(graph)
    assert kept.memory_model == "default; 'c' below 6"
    assert upper_limits(kept)[kept.buffer_ids["c"]] == 6
    assert (upper_limits(graph) == MAX_ADDRESS).all()
    one, other = Question(graph), Question(kept)
    assert one.scope != other.scope
    assert not one.covers(other)
    assert not other.covers(one)
    assert Question(limited(graph, {"c": 7})).scope != other.scope
    # Files, rules, pools and copies of the graph carry the limits.
    write_graph(kept, tmp_path / "kept.json")
    for copy in (read_graph(tmp_path / "kept.json"), kept.without_streams(), kept.with_inplace()):
        assert copy.digest == kept.digest
        assert (upper_limits(copy) == upper_limits(kept)).all()
    # A plan of the graph without limits is not one of the graph with them.
    high = Plan.from_names(kept, ["big", "sum", "other", "join"], {"a": 1, "b": 0, "c": 2, "y": 7})
    check_plan(graph, replace(high, offsets=high.offsets[:-1]))
    with pytest.raises(PlanError, match="'c' ends at 7, above its upper limit of 6"):
        check_plan(kept, high)


def test_bounds_with_limits_do_not_verify_as_those_without(tmp_path: Path, cli: Cli) -> None:
    build = GraphBuilder("chain")
    build.op("p", writes={"b": 5})
    build.op("q", reads=["b"], writes={"c": 5})
    build.op("r", reads=["c"], writes={"d": 1})
    build.op("s", reads=["c", "d"])
    graph, plan, proof = (tmp_path / name for name in ("g.json", "p.json", "proof.json"))
    write_graph(build.build(), graph)
    below = ["--below", "c=6", "--below", "d=1"]
    # `d` lies at 0, so `c` lies at 1 and `b` above it at 6.
    cli("solve", graph, "-o", plan, "--certificate", proof, *below)
    assert solve(build.build(), time_limit=5).slab == 10
    document = json.loads(plan.read_text())
    assert (document["slab"], document["slab_bound"]) == (11, 11)
    cli("check", graph, plan, proof, *below)
    # With the words of the limits dropped, the plan is one of the graph without them.
    plan.write_text(json.dumps(document | {"memory_model": "default"}))
    # The certificate is about the peak alone, which limits do not change.
    found = cli("check", graph, plan, proof)
    assert "claimed, not verified: no slab below 11 bytes" in found
    cli("check", graph, plan, *below, code=1)


def test_views_name_their_root_and_outputs_with_limits_are_not_written_in_place() -> None:
    build = GraphBuilder("chain")
    build.op("p", writes={"x": 4})
    build.op("q", reads=["x"], writes={"y": 4})
    build.op("r", reads=["y"], writes={"z": 4})
    build.output("z")
    build.inplace("q", "y", "x")
    build.inplace("r", "z", "y")
    graph = build.build().with_inplace()
    kept = limited(graph, {"y": 4})
    assert [pair[1] for pair in kept.inplace] == [graph.buffer_ids["z"]]
    result = solve(kept, time_limit=5)
    assert result.plan is not None
    assert (result.slab, result.plan.offsets[:2]) == (8, (4, 0))


@pytest.mark.parametrize(
    ("below", "message"),
    [
        ({"z": 4}, "buffer 'z' is not in graph 'fork'"),
        ({"c": 4}, "buffer 'c' of 5 bytes does not fit below 4"),
        ({"c": "x"}, "'x' is not a number of bytes"),
        ({"c": 2**63}, "upper limit of 'c' must be at most"),
        ({"a": 9, "b": 9}, "op 'sum' needs 10 bytes that end at or below 9"),
    ],
)
def test_limits_that_no_graph_can_have(below: dict[str, int | str], message: str) -> None:
    with pytest.raises(OptschedError, match=message):
        limited(fork(), below)


def test_limits_below_a_pin_and_of_what_is_not_planned() -> None:
    build = GraphBuilder("pinned")
    build.input("w", 8, policy="excluded")
    build.op("p", reads=["w"], writes={"x": 4})
    build.place("x", pin=8)
    build.output("x")
    with pytest.raises(GraphError, match="'x': pinned to 8 it ends at 12, above its limit of 11"):
        limited(build.build(), {"x": 11})
    with pytest.raises(GraphError, match="'w' lies outside the slab: it has no upper limit"):
        limited(build.build(), {"w": 11})
    with pytest.raises(UsageError, match="'x' has an upper limit, which pools that spill"):
        solve(limited(build.build(), {"x": 12}), pools=[Pool("fast", 99)])


@pytest.mark.parametrize(
    ("texts", "capacity", "message"),
    [
        (["c"], None, "--below wants NAME=BYTES, got 'c'"),
        (["=5"], None, "--below wants NAME=BYTES, got '=5'"),
        (["c=5", "c=6"], None, "--below gives 'c' twice"),
        (["c="], None, "'' is not a number of bytes"),
        (["c=9"], 9, "--below c=9 has no effect: the capacity is 9 bytes"),
    ],
)
def test_texts_that_are_no_limits(texts: list[str], capacity: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_limits(texts, capacity)
    assert parse_limits(["a=b=1KiB"], 9999) == {"a=b": 1024}


def test_a_graph_names_the_limits_that_leave_no_room() -> None:
    found = solve(limited(random_graph(random.Random(48)), {"x00": 11, "x20": 7}), capacity=19)
    assert found.slab_bound == 20
    assert "with upper limits (x20 below 7, x00 below 11): x00 5, x20 5" in found.summary()
    assert "4 ops, 4 buffers" in found.summary()


@pytest.mark.parametrize("name", ["skyline", "linear_scan", "first_fit_arrival", "hill_climb"])
def test_packers_place_buffers_of_low_limits_first(name: str) -> None:
    problem = PackingProblem(
        size=[9, 4, 4], start=[0, 0, 2], end=[4, 2, 4], below=[MAX_ADDRESS, 4, 4]
    )
    assert PACKINGS[name](problem).tolist() == [4, 0, 0]
