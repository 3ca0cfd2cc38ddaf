"""From a path to a plan: directions of the stages are chosen so that the packing meets the load.

Bands from the top let their input die from its low bytes, so the result lies below it; the next
stage should then run from the bottom, so that its result grows upwards into the bytes that become
free. Stages in turn down and up meet the load in most cases; otherwise single directions are
turned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from optsched.check.plan import check_plan
from optsched.joint.oracle import portion
from optsched.model.arrays import BoolArray
from optsched.model.liveness import live_ranges
from optsched.model.places import placed, places_problem
from optsched.model.plan import Plan
from optsched.model.tiled import Stage, TiledGraph, TiledKind, Tiling
from optsched.model.tiling import tiled_graph
from optsched.runtime.clock import Clock
from optsched.solver.pack import pack
from optsched.solver.tiling.arcs import OUT_OF_REACH, Network
from optsched.solver.tiling.paths import Path

Step = tuple[int, tuple[int, ...], int]
"""An op that runs as it is, or -1; the ops of a stage, and its number of bands."""

QUICK_SECONDS, SLOW_SECONDS, TURN_SECONDS = 0.2, 2.0, 0.05
"""Time for the packing of a path with given directions: at first, of the best ones, and with one
stage turned."""
FEW_TURNS = 8
"""Directions that are tried if many paths are at hand."""
BEST = 3
"""Directions that are tried with more time."""
ALL_DIRECTIONS = 6
"""Stages up to which all directions are tried."""
MOST_TURNS = 2**ALL_DIRECTIONS
"""Directions that are tried for a path."""


@dataclass(frozen=True)
class Realized:
    """A tiled graph with a plan that the checker has accepted."""

    tiled: TiledGraph
    plan: Plan
    head: int
    """Bytes of the slab as the runtime counts them."""
    bound: int
    """No plan of the path has a smaller slab, in any directions."""


def realize(
    net: Network,
    path: Path,
    enough: int,
    clock: Clock,
    *,
    thorough: bool = True,
    decide: bool = False,
    turns: int = FEW_TURNS,
) -> Realized:
    """Return the plan of least head that is found for a path; stop at `enough` bytes.

    Directions are tried with a short search each, and the best ones with a longer one. Unless
    `thorough`, only the `turns` most promising directions are tried. To `decide` is to find out no
    more than if `enough` bytes are enough.
    """
    tries = _Tries(net, path, max(enough, path.load), clock, decide)
    directions = _directions(net, path)
    if not thorough:
        tries.run(islice(directions, turns), QUICK_SECONDS)
    elif not tries.run(directions, QUICK_SECONDS):
        tries.run(tries.nearest(), SLOW_SECONDS)
    return tries.result(thorough=thorough)


def realize_in(
    net: Network,
    path: Path,
    ways: tuple[bool, ...],
    enough: int,
    clock: Clock,
    *,
    turns: bool = False,
) -> Realized:
    """Return the plan found for a path with given directions, by a short search.

    `enough` bytes are wanted. If a plan has more, `turns` asks for shorter searches with single
    stages turned that have bytes above.
    """
    seed = clock.limits.seed
    best = _packed(net, path, ways, portion(clock, QUICK_SECONDS, seed), enough)
    if not turns or best.head <= enough:
        return best
    crowded = crowded_arcs(net, path, best.tiled, best.plan, enough)
    stages = [(a, x) for a, x in zip(path.arcs, crowded, strict=True) if net.what[a, 1] >= 0]
    for k, (arc, is_crowded) in enumerate(stages):
        if not is_crowded or net.ways[arc, int(not ways[k])] > enough:
            continue
        if clock.expired():
            break
        turned = (*ways[:k], not ways[k], *ways[k + 1 :])
        made = _packed(net, path, turned, portion(clock, TURN_SECONDS, seed), enough)
        if made.head <= enough:
            return made
    return best


@dataclass
class _Tries:
    """Plans of a path in several directions."""

    net: Network
    path: Path
    enough: int
    clock: Clock
    decide: bool
    found: dict[tuple[bool, ...], Realized] = field(default_factory=dict)
    skipped: int = OUT_OF_REACH
    """Least load of the directions that cannot improve on a plan."""

    def run(self, directions: Iterable[tuple[bool, ...]], seconds: float) -> bool:
        """Pack directions, one after another; return True if a plan is small enough."""
        arcs = _stages(self.net, self.path)
        for ways in directions:
            loads = [int(self.net.ways[a, int(w)]) for a, w in zip(arcs, ways, strict=True)]
            best = min((x.head for x in self.found.values()), default=OUT_OF_REACH)
            if self.found and self.decide:
                best = min(best, self.enough + 1)
            if max(loads, default=0) >= best:
                self.skipped = min(self.skipped, max(loads))
                continue
            part = portion(self.clock, seconds, self.clock.limits.seed)
            capacity = self.enough if self.decide else None
            made = _packed(self.net, self.path, ways, part, capacity)
            old = self.found.get(ways, made)
            self.found[ways] = min(old, made, key=lambda x: (x.head, -x.bound))
            if made.head <= self.enough:
                return True
            if self.clock.expired():
                break
        return False

    def nearest(self) -> list[tuple[bool, ...]]:
        """Return the directions of the smallest plans."""
        return sorted(self.found, key=lambda x: (self.found[x].head, x))[:BEST]

    def result(self, *, thorough: bool) -> Realized:
        """Return the smallest plan, with a bound for all directions if all were tried."""
        best = min(self.found.values(), key=lambda x: x.head)
        bound = self.path.load
        count = len(_stages(self.net, self.path))
        if thorough and count <= ALL_DIRECTIONS and not self.clock.expired():
            bound = max(bound, min(self.skipped, *(x.bound for x in self.found.values())))
        return replace(best, bound=min(bound, best.head))


def _stages(net: Network, path: Path) -> list[int]:
    return [a for a in path.arcs if net.what[a, 1] >= 0]


def steps_of(net: Network, path: Path) -> list[Step]:
    """Return per arc: the op or -1, the ops of the stage, and its number of bands."""
    found: list[Step] = []
    for arc in path.arcs:
        what, count = net.what[arc].tolist()
        if count < 0:
            found.append((what, (), 0))
        else:
            found.append((-1, net.stages[what].ops, int(net.counts[count])))
    return found


def crowded_arcs(net: Network, path: Path, tiled: TiledGraph, plan: Plan, limit: int) -> list[bool]:
    """Return by arc of a path True if its plan has bytes above a limit there."""
    crowded, sizes = _crowded(tiled, plan, limit), Counter(op.stage for op in tiled.ops)
    found, step, stage = list[bool](), 0, 0
    for _, own, _ in steps_of(net, path):
        count = sizes[stage] if own else 1
        stage += bool(own)
        found.append(bool(crowded[step : step + count].any()))
        step += count
    return found


def _crowded(tiled: TiledGraph, plan: Plan, limit: int) -> BoolArray:
    """Return by step True if bytes above a limit are live."""
    found = np.zeros(len(plan.order), bool)
    ranges = live_ranges(tiled.graph, plan.order).tolist()
    for buffer, at, (first, last) in zip(tiled.graph.buffers, plan.offsets, ranges, strict=True):
        if at is not None and at + buffer.size > limit:
            found[first:last] = True
    return found


def _directions(net: Network, path: Path) -> Iterator[tuple[bool, ...]]:
    """Yield directions of the stages, True for upwards, the most promising ones first."""
    arcs = _stages(net, path)
    # Each op as it is moves the data to the other end of the slab, as a stage does.
    ends = [k for k, a in enumerate(path.arcs) if net.what[a, 1] >= 0]
    queue = [tuple((k + start) % 2 == 1 for k in ends) for start in (0, 1)]
    queue += [tuple((k + start) % 2 == 1 for k in range(len(arcs))) for start in (0, 1)]
    queue.append(tuple(bool(net.ways[a, 1] < net.ways[a, 0]) for a in arcs))
    queue += [(way,) * len(arcs) for way in (False, True)]
    seen: set[tuple[bool, ...]] = set()
    while queue and len(seen) < MOST_TURNS:
        ways = queue.pop(0)
        if ways not in seen:
            seen.add(ways)
            yield ways
            queue += [tuple(w != (i == k) for i, w in enumerate(ways)) for k in range(len(arcs))]


def _packed(
    net: Network, path: Path, ways: tuple[bool, ...], clock: Clock, capacity: int | None
) -> Realized:
    """Return a path with these directions, packed into a capacity if there is one."""
    steps = steps_of(net, path)
    turn = iter(ways)
    stages = [Stage(ops, bands, next(turn)) for _, ops, bands in steps if ops]
    tiled = tiled_graph(net.lattice.rows, Tiling(tuple(stages)))
    order = order_of(tiled, steps)
    made = _plan_of(tiled, order, tiled, clock, capacity)
    if made.head > made.plan.slab(tiled.graph):
        # A view that is rounded ends above the slab: places that hold their views may pack better.
        other = _plan_of(tiled, order, _with_views(tiled), clock, capacity)
        made = min(made, replace(other, bound=made.bound), key=lambda x: x.head)
    return made


def _plan_of(
    tiled: TiledGraph, order: list[int], packed: TiledGraph, clock: Clock, capacity: int | None
) -> Realized:
    """Return the plan of a tiled graph in an order; `packed` has the sizes of its places."""
    problem, ids = places_problem(packed, order)
    result = pack(problem, capacity=capacity, limits=clock)
    bound = result.slab_bound
    if result.offsets is None:
        # Proved not to fit: any packing will do.
        result = pack(problem, limits=clock.share(0))
    result.stop_reason.raise_if_interrupted()
    assert result.offsets is not None
    plan = placed(tiled, order, ids, result.offsets)
    check_plan(tiled.graph, plan)
    return Realized(tiled, plan, tiled.head(plan), bound)


def _with_views(tiled: TiledGraph) -> TiledGraph:
    """Return the graph with places up to the rounded end of the last tensor in each."""
    ends = [place.size for place in tiled.places]
    for x in tiled.tensors:
        ends[x.place] = max(ends[x.place], x.shift + tiled.source.rounded(x.size))
    places = (replace(place, size=end) for place, end in zip(tiled.places, ends, strict=True))
    return replace(tiled, places=tuple(places))


def order_of(tiled: TiledGraph, steps: list[Step]) -> list[int]:
    """Return the order of the tiled ops along a path."""
    whole = {op.op: v for v, op in enumerate(tiled.ops) if op.kind is TiledKind.WHOLE}
    rows: list[list[int]] = [[] for _ in tiled.tiling.stages]
    for v, op in enumerate(tiled.ops):
        if op.stage >= 0:
            rows[op.stage].append(v)
    stage, order = iter(rows), list[int]()
    for v, ops, _ in steps:
        order += next(stage) if ops else [whole[v]]
    return order
