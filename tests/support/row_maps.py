"""Random tiny graphs with row maps, and every tiling of them with its least slab."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

from optsched.errors import GraphError
from optsched.model.builder import GraphBuilder
from optsched.model.places import places_problem
from optsched.model.plan import Plan
from optsched.model.rows import RowMap, RowOp, RowRule, Rows
from optsched.model.tiled import Stage, TiledGraph, TiledKind, Tiling
from optsched.model.tiling import tiled_graph
from optsched.solver.pack import pack
from optsched.solver.packing_result import PackingResult

Maps = list[tuple[str, dict[str, int]]]

LOCAL_SHARE = 0.92
"""Part of the ops that can run in bands."""


def banded() -> Rows:
    """Return a convolution of 3 rows over 8 rows, which bands make smaller."""
    build = GraphBuilder("net", alignment=16)
    build.input("x", 256)
    build.op("conv", reads=["x"], writes={"y": 256})
    build.output("y")
    conv = RowOp(1, (RowMap(0, window=3, pad=1),), rule=RowRule.SAME, cost=10)
    return Rows(build.build(), (conv,), heights=(8, 8), row_bytes=(32, 32))


def random_rows(seed: int, ops: int = 3) -> Rows:
    """Return a graph of 2 to `ops` ops: windows, strides, paddings, branches and scratch."""
    rng = random.Random(seed)
    build = GraphBuilder("random", alignment=16)
    height, width = rng.choice([4, 5, 6, 7, 8, 9, 12]), rng.choice([4, 8, 16, 20])
    sizes = {"x": (height, width)}
    build.input("x", _rounded(height * width))
    drafts = []
    for k in range(rng.randint(2, ops)):
        names = list(sizes)
        source = names[-1] if rng.random() < 0.8 else rng.choice(names)
        rows, maps, rule = _random_op(rng, source, sizes)
        width = rng.choice([4, 8, 12, 16, 24])
        size, scratch = _rounded(rows * width), rng.choice([0, 0, 0, 32])
        read = [name for name, _ in maps]
        build.op(f"o{k}", reads=read, writes={f"t{k}": size}, workspace=scratch, kind="rows")
        sizes[f"t{k}"] = (rows, width)
        bytes_ = (rng.choice([16, 32]), rng.choice([0, 0, 4])) if scratch else (0, 0)
        drafts.append((f"t{k}", maps, rule, width, bytes_, rng.random() < LOCAL_SHARE))
    build.output(list(sizes)[-1])
    if rng.random() < 0.3 and len(sizes) > 3:
        build.output(rng.choice(list(sizes)[1:-1]))
    return _with_maps(build, sizes, drafts)


def _rounded(size: int) -> int:
    return -(-size // 16) * 16


def _random_op(
    rng: random.Random, source: str, sizes: dict[str, tuple[int, int]]
) -> tuple[int, Maps, RowRule]:
    height = sizes[source][0]
    kind = rng.choice(["same", "valid", "elementwise", "add", "pad", "up"]) if height > 1 else ""
    if kind == "same":
        window, stride = rng.choice([1, 2, 3, 5]), rng.choice([1, 1, 2, 3])
        rows = -(-height // stride)
        pad = max((rows - 1) * stride + window - height, 0) // 2
        return rows, [(source, {"window": window, "stride": stride, "pad": pad})], RowRule.SAME
    if kind == "valid":
        window, stride = rng.choice([x for x in (1, 2, 3) if x <= height]), rng.choice([1, 2])
        rows = (height - window) // stride + 1
        return rows, [(source, {"window": window, "stride": stride})], RowRule.EXACT
    if kind == "pad":
        above, below = rng.choice([0, 1]), rng.choice([0, 1])
        return height + above + below, [(source, {"pad": above})], RowRule.EXACT
    if kind == "up" and height < 20:
        map_ = rng.choice([{"up": 2}, {"up": 2, "window": 3, "pad": 1}])
        return 2 * height, [(source, map_)], RowRule.SCALED
    same = [name for name in sizes if sizes[name][0] == height and name != source]
    others: Maps = [(rng.choice(same), {})] if kind == "add" and same else []
    return height, [(source, {}), *others], RowRule.EXACT


def _with_maps(
    build: GraphBuilder, sizes: dict[str, tuple[int, int]], drafts: Sequence[tuple[Any, ...]]
) -> Rows:
    graph = build.build()
    ids, ops = graph.buffer_ids, list[RowOp | str]()
    for name, maps, rule, width, scratch, is_local in drafts:
        rows = tuple(RowMap(ids[source], **numbers) for source, numbers in maps)
        cost = sizes[name][0] * width
        op = RowOp(ids[name], rows, rule=rule, cost=cost, scratch=scratch)
        ops.append(op if is_local else "not row-local: as drawn")
    heights, row_bytes = [0] * len(graph.buffers), [0] * len(graph.buffers)
    for name, (height, width) in sizes.items():
        heights[ids[name]], row_bytes[ids[name]] = height, width
    return Rows(graph, tuple(ops), tuple(heights), tuple(row_bytes))


def all_stages(rows: Rows) -> list[tuple[int, ...]]:
    """Return all sets of ops that the reduction accepts as a stage, by trying each."""
    found = []
    count = len(rows.graph.ops)
    for size in range(1, count + 1):
        for ops in itertools.combinations(range(count), size):
            try:
                tiled_graph(rows, Tiling((Stage(ops, 2),)))
            except GraphError as error:
                # With more bands it may work: a band of padding alone, for example.
                if "padding alone" not in str(error):
                    continue
            found.append(ops)
    return found


def all_tilings(rows: Rows, bands: int) -> Iterator[tuple[TiledGraph, list[int]]]:
    """Yield every tiling, with every order in which its stages run as a whole."""
    for stages in _disjoint(all_stages(rows)):
        for counts in itertools.product(range(2, bands + 1), repeat=len(stages)):
            for ways in itertools.product((False, True), repeat=len(stages)):
                chosen = tuple(map(Stage, stages, counts, ways))
                try:
                    tiled = tiled_graph(rows, Tiling(chosen))
                except GraphError:
                    continue
                yield from ((tiled, order) for order in _orders(tiled))


def _disjoint(stages: Sequence[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    yield []
    for k, stage in enumerate(stages):
        rest = [other for other in stages[k + 1 :] if not set(other) & set(stage)]
        yield from ([stage, *more] for more in _disjoint(rest))


def _orders(tiled: TiledGraph) -> Iterator[list[int]]:
    """Yield the orders of a tiled graph that do not interleave a stage with other ops."""
    units: dict[object, list[int]] = {}
    for v, op in enumerate(tiled.ops):
        units.setdefault(v if op.kind is TiledKind.WHOLE else f"stage {op.stage}", []).append(v)
    blocks = list(units.values())

    def orders(done: list[int], left: list[list[int]]) -> Iterator[list[int]]:
        if not left:
            yield done
        for block in left:
            needs = {u for v in block for u in tiled.graph.predecessors[v]} - set(block)
            if needs <= set(done):
                yield from orders([*done, *block], [x for x in left if x is not block])

    return orders([], blocks)


def least_slab(tiled: TiledGraph, order: Sequence[int]) -> tuple[int, Plan]:
    """Return the least slab of a tiled graph in an order, proved, and a plan with it."""
    result, plan = packed(tiled, order)
    assert result.slab is not None
    assert result.slab == result.slab_bound
    return result.slab, plan


def packed(
    tiled: TiledGraph, order: Sequence[int], seconds: float = 20
) -> tuple[PackingResult, Plan]:
    """Return a packing of a tiled graph in an order, and its plan."""
    from optsched.model.places import placed

    problem, ids = places_problem(tiled, order)
    result = pack(problem, time_limit=seconds)
    assert result.offsets is not None
    return result, placed(tiled, order, ids, result.offsets)
