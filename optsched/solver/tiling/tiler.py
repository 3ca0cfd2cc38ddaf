"""Searches of tilings of one model: within a size, within a cost, and of the front.

A path's load is a lower bound on the slab of its plan, so the least cost of a path bounds the cost
of all plans; a path whose packing meets its load is the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from optsched.check.tiling import check_tiled
from optsched.model.plan import Plan
from optsched.model.rows import Rows, Tail
from optsched.model.tiled import TiledGraph, Tiling
from optsched.model.tiling import tiled_graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import StopReason
from optsched.solver.pipeline import solve
from optsched.solver.tiling.arcs import Network, network
from optsched.solver.tiling.labels import FAR
from optsched.solver.tiling.lattice import Lattice
from optsched.solver.tiling.paths import Branch, Path, Paths, non_dominated, ranked
from optsched.solver.tiling.realize import FEW_TURNS, Realized, crowded_arcs, realize, realize_in
from optsched.solver.tiling.refine import refine
from optsched.solver.tiling.repair import tighten, tightened
from optsched.solver.tiling.result import TilingPoint
from optsched.solver.tiling.sides import sides

UNTILED_SHARE, POINT_SHARE, REFINE_SHARE = 0.15, 0.4, 0.1
"""Parts of the time for the plan without tiling, of the rest for the plan of one path, and for
the loads of its stages."""
FEW_PATHS, MOST_PATHS = 6, 400
"""Paths of a question that are packed until one fits: at first in few directions, then in all."""
MOST_LOWER, MOST_KNOWN, MOST_RELAXED = 12, 3, 12
"""Paths that are packed as is known to do for a capacity and a cost, and with each of
:data:`RELAXED`."""
REPAIRS, MOST_REPAIRS, REPAIR_TURNS = (25, 0), 16, 3
"""Hundredths of the bytes that a packing lacks by which loads are tightened more each time, at
first in large steps; the times, and the directions of a path."""
RELAXED = (0, 1, 2, 4, 8)
"""Hundredths of a capacity by which packings may be smaller than the known ones."""


@dataclass
class Tiler:
    """Search of tilings of one model, for one question after another."""

    rows: Rows
    """The model."""
    tail: Tail
    """Bytes beside the slab."""
    bands: int
    """Most bands of a stage."""
    objective: str
    """`"total"` or `"head"`."""
    clock: Clock
    """Limit of everything."""
    exact: bool = field(default=True, init=False)
    """True if the network holds every tiling of the family."""
    refuted: bool = field(default=False, init=False)
    """True if the last capacity that was asked is proved to fit no tiling of the family."""

    def __post_init__(self) -> None:
        self.counted = Tail.none(self.rows.graph) if self.objective == "head" else self.tail
        self.reason = StopReason.EXHAUSTED
        self.untiled = self._untiled()

    def prepare(self) -> None:
        """Make the network of all tilings."""
        self.reason.raise_if_interrupted()
        lattice = Lattice(self.rows)
        if lattice.positions is None:
            ops = [self.untiled.tiled.ops[k].op for k in self.untiled.plan.order]
            lattice = Lattice(self.rows, tuple(v for v in ops if v is not None))
            self.exact = False
        self.net: Network = network(
            lattice, self.bands, self.counted, self.clock, self.untiled.head
        )
        self.exact = self.exact and self.net.complete
        self.paths = Paths(self.net, self.counted.model, self.clock)
        self.sides = sides(self.net, self.clock)
        self.known = Paths(self.sides, self.counted.model, self.clock)

    @property
    def slack(self) -> int:
        """Most bytes by which the size of a plan exceeds that of its path for its tail alone."""
        return self.counted.slack

    def size(self, point: TilingPoint) -> int:
        """Return the bytes that the objective counts."""
        return point.head if self.objective == "head" else point.arena

    def _untiled(self) -> TilingPoint:
        """Return the best order and offsets without tiling."""
        graph = self.rows.graph
        result = solve(graph, limits=self.clock.share(UNTILED_SHARE))
        # A plan that was found before an interrupt is kept.
        self.reason = result.stop_reason
        assert result.plan is not None
        tiled = tiled_graph(self.rows, Tiling())
        plan = _same_plan(self.rows, tiled, result.plan)
        return self._point(Realized(tiled, plan, tiled.head(plan), 0), 0)

    def _point(self, made: Realized, extra: int, most: int = FAR) -> TilingPoint:
        """Return a plan as a point. If it has more than `most` bytes, its tail is a sum."""
        tail = made.tiled.tail(self.tail)
        point = TilingPoint(made.tiled, made.plan, made.head, tail, extra)
        # The exact tail is that of the written file, which takes longer than all else. It is not
        # below the sum.
        if self.size(point) > most:
            return point
        check_tiled(made.tiled, made.plan)
        if self.tail.exact is None:
            return point
        return replace(point, tail=self.tail.exact(made.tiled, made.plan))

    def _refined(self, find: Callable[[Branch], Path | None]) -> Callable[[Branch], Path | None]:
        """Return a search that finds no path with a stage whose load cannot be packed."""

        def refined(branch: Branch) -> Path | None:
            path = find(branch)
            while path and refine(self.net, path, self.clock.share(REFINE_SHARE)):
                path = find(branch)
            return path

        return refined

    def plan(
        self,
        path: Path,
        size: int,
        *,
        most: int = FAR,
        thorough: bool = False,
        decide: bool = False,
        turns: int = FEW_TURNS,
    ) -> TilingPoint:
        """Return the plan of a path; `size` bytes are enough, more than `most` are of no use."""
        share, enough = self.clock.share(POINT_SHARE), size - path.tail
        made = realize(self.net, path, enough, share, thorough=thorough, decide=decide, turns=turns)
        return self._point(made, path.extra, most)

    def _at_ends(self, path: Path, most: int, size: int = 0) -> TilingPoint:
        """Return the plan of a path whose packing may be known, in its directions.

        `size` bytes are enough, more than `most` are of no use. If the packing is known and yet not
        found, single stages are turned.
        """
        own, ways = self.sides.resolved(path)
        enough = max(own.load, size - self.slack - path.tail)
        turns = size > 0 and self.sides.is_known(path, enough)
        made = realize_in(self.net, own, ways, enough, self.clock, turns=turns)
        return self._point(made, path.extra, most)

    def within(self, size: int) -> TilingPoint | None:
        """Return the cheapest plan found of at most `size` bytes, with a bound on its cost."""
        self.refuted = False
        best = self.untiled if self.size(self.untiled) <= size else None
        path = self.paths.cheapest(size)
        if self.clock.expired() or path is None:
            proved = self.exact and not (self.paths.dropped or self.clock.expired())
            self.refuted = proved and best is None
            return best
        best, bound = self._lower(size, best), path.extra if self.exact else None
        for more in (self._nearly_known, self._repaired):
            if best is None or bound is None or best.extra > bound:
                best = more(size, best)
        for most, thorough in ((FEW_PATHS, False), (MOST_PATHS, True)):
            if self.clock.expired() or (best and bound is not None and best.extra <= bound):
                break
            found, value = self._cheapest(size, best, most, thorough=thorough)
            best, bound = found or best, value if bound is None else max(bound, value or bound)
            if self.refuted or self.clock.expired():
                break
        known = bound if not self.paths.dropped else None
        return None if best is None else replace(best, bound=known)

    def _cheapest(
        self, size: int, best: TilingPoint | None, most: int, *, thorough: bool
    ) -> tuple[TilingPoint | None, int | None]:
        """Try paths in order of their cost; return a plan that fits, and a bound on the cost."""
        find = self._refined(lambda branch: self.paths.cheapest(size, branch=branch))
        bound, is_proof = None, self.exact
        for number, (path, value) in enumerate(ranked(find, lambda x: x.extra)):
            # A search that time has ended may have missed better paths.
            if self.clock.expired():
                return best, bound
            # Every path before this one was proved not to fit.
            bound = value if is_proof else bound
            if best is not None and value >= best.extra:
                return best, bound
            point = self.plan(path, size, most=size, thorough=thorough, decide=True)
            if self.size(point) <= size:
                return point, bound
            # Stages that no load needs are left out, but they may help a packing.
            is_proof = False
            if self.clock.expired() or number >= most:
                return best, bound
        # A search that ended early finds no path either.
        is_proof &= not self.clock.expired()
        self.refuted = is_proof and best is None and not self.paths.dropped
        # All paths that cost less than the known plan were proved not to fit.
        return best, best.extra if best is not None and is_proof else bound

    def _nearly_known(self, size: int, best: TilingPoint | None) -> TilingPoint | None:
        """Return the cheapest plan found for paths that take little more than is known to do.

        Where the packing of such a path fails, arcs take as much as is known to do from then on; if
        they do so already, they are left out.
        """
        tried = dict[tuple[int, ...], TilingPoint]()
        for percent in RELAXED:
            self._relax(size * percent // 100)
            for _ in range(MOST_RELAXED):
                path = self.known.cheapest(size)
                is_better = path and (best is None or path.extra < best.extra)
                if path is None or not is_better or self.clock.expired():
                    break
                if path.arcs not in tried:
                    tried[path.arcs] = self._at_ends(path, size, size)
                point = tried[path.arcs]
                if self.size(point) <= size:
                    best = point
                    break
                own, limit = self.sides.resolved(path)[0], size - path.tail
                crowded = crowded_arcs(self.net, own, point.tiled, point.plan, limit)
                if not self.sides.restore(path, crowded, limit):
                    tighten(self.net, own, point.tiled, point.plan, limit, 0, self.sides)
        self._relax(0)
        return best

    def _repaired(self, size: int, best: TilingPoint | None) -> TilingPoint | None:
        """Return the cheapest plan found with loads tightened where packings fail."""
        first: TilingPoint | None = None
        for share in REPAIRS:
            with tightened(self.net, self.paths):
                for number in range(MOST_REPAIRS):
                    path = self.paths.cheapest(size)
                    is_better = path and (best is None or path.extra < best.extra)
                    if path is None or not is_better or self.clock.expired():
                        break
                    # The first path is the same with each share.
                    point = (first if not number else None) or self.plan(
                        path, size, most=size, turns=REPAIR_TURNS
                    )
                    first = first or point
                    if self.size(point) <= size:
                        best = point
                        break
                    by = number * share * (self.size(point) - size) // 100
                    limit = size - path.tail
                    tighten(self.net, path, point.tiled, point.plan, limit, by)
        return best

    def _smaller(self, extra: int, best: TilingPoint) -> TilingPoint:
        """Return the smallest plan found with loads tightened where packings fail."""
        for share in REPAIRS:
            with tightened(self.net, self.paths):
                for number in range(MOST_REPAIRS):
                    path = self.paths.smallest(extra, self.size(best) - self.slack - 1)
                    if path is None or self.clock.expired():
                        break
                    most = self.size(best) - 1
                    point = self.plan(path, path.total, most=most, turns=REPAIR_TURNS)
                    best = min(best, point, key=self.size)
                    by = number * share * max(0, point.head - path.load) // 100
                    tighten(self.net, path, point.tiled, point.plan, path.load, by)
        return best

    def _relax(self, by: int) -> None:
        self.sides.relax(by)
        self.known.__dict__.pop("least_load", None)

    def _lower(self, size: int, best: TilingPoint | None) -> TilingPoint | None:
        """Return the plan of a path whose packing is known, if it is cheaper than the best one.

        If the plan has too many bytes after all, the next load is smaller by as many. Then loads
        between one that fits and one that does not are halved.
        """
        found, low, high, above = None, 0, FAR, 0
        for number in range(MOST_LOWER):
            limit = (low + high) // 2 if found else high - max(1, above) if number else FAR
            path = self.known.cheapest(size, limit)
            if path is None and found is None and number:
                # The last steps down are small ones.
                path = self.known.cheapest(size, high - 1)
            if path is None or self.clock.expired() or high - low < 2:
                break
            if found is not None and path.load <= low:
                low = limit
                continue
            if best is not None and path.extra >= best.extra:
                break
            point = self._at_ends(path, size)
            if self.size(point) <= size:
                found, low = point, max(path.load, limit)
                if number == 0:
                    break
            else:
                high, above = path.load, self.size(point) - size
        return found or best

    def least(self, extra: int) -> tuple[TilingPoint, int | None]:
        """Return the smallest plan found within a cost, and a bound on the bytes of all of them."""
        best, bound = self.untiled, None
        if self.exact and (least := self.paths.smallest(extra)) and not self.clock.expired():
            bound = least.total
        for number in range(MOST_KNOWN):
            path = self.known.smallest(extra, self.size(best) - 1 - number)
            if path is None or self.clock.expired():
                break
            best = min(best, self._at_ends(path, self.size(best) - 1), key=self.size)
        for thorough in (False, True):
            if bound is not None and self.size(best) <= bound + self.slack:
                break
            best, value = self._smallest(extra, best, thorough=thorough)
            if not thorough and (value is None or self.size(best) > value + self.slack):
                best = self._smaller(extra, best)
            bound = value if bound is None else max(bound, value or bound)
            if self.clock.expired():
                break
        return best, bound if not self.paths.dropped else None

    def _smallest(
        self, extra: int, best: TilingPoint, *, thorough: bool
    ) -> tuple[TilingPoint, int | None]:
        """Try paths in order of their size; return the smallest plan, and a bound on the size."""
        find = self._refined(lambda branch: self.paths.smallest(extra, self.size(best) - 1, branch))
        bound, is_proof = None, self.exact
        for number, (path, value) in enumerate(ranked(find, lambda x: x.total)):
            if self.clock.expired():
                return best, bound
            bound = value if is_proof else bound
            if value >= self.size(best) - self.slack:
                return best, bound
            most = self.size(best) - 1
            point = self.plan(path, value, most=most, thorough=thorough)
            best = min(best, point, key=self.size)
            if self.size(best) > value + self.slack:
                best = min(best, self._lean(point, extra, most), key=self.size)
            enough = self.size(best) - self.slack
            is_proof = False
            if enough <= value or self.clock.expired():
                return best, bound
            if number >= (MOST_PATHS if thorough else FEW_PATHS):
                return best, bound
        # No other path is smaller than the best plan, unless the search ended early.
        is_proof &= not self.clock.expired()
        return best, self.size(best) - self.slack if is_proof else bound

    def _lean(self, point: TilingPoint, extra: int, most: int) -> TilingPoint:
        """Return a plan with the head of another one, and with the least tail that head allows."""
        paths = self.paths.within(point.head, extra=extra)
        path = min(paths, key=lambda x: (x.tail, x.extra), default=None)
        if path is None or path.tail + point.head >= self.size(point) - self.slack:
            return point
        return self.plan(path, point.head + path.tail, most=most)

    def front(self, points: int) -> list[TilingPoint]:
        """Return plans from the untiled one to the smallest, without those that others beat."""
        top = self.size(self.untiled)
        paths = [x for found in self.paths.sweep(top, top) for x in found]
        pairs = non_dominated([(x.total, x.extra) for x in paths])
        smaller = [pair for pair in reversed(pairs) if pair[0] < top]
        count = min(points - 1, len(smaller))
        # Evenly spaced, the smallest one included.
        picked = [smaller[(k + 1) * len(smaller) // count - 1] for k in range(count)]
        found = [self.untiled]
        for k, (size, extra) in enumerate(picked):
            if self.clock.expired():
                break
            with self._until(self.clock.share(1 / (len(picked) - k))):
                # The size of a path is a sum, which the tail of its plan may exceed.
                point = self.within(size + self.slack)
                # A plan that is larger than the load of its path is on the front, too.
                path = self.paths.smallest(extra) if point is None else None
                point = point if path is None else self.plan(path, path.total)
            if point is not None:
                found.append(point)
        kept = non_dominated([(self.size(x), x.extra) for x in found])
        by_pair = {(self.size(x), x.extra): x for x in found}
        return [self._bounded(by_pair[pair]) for pair in reversed(kept)]

    @contextmanager
    def _until(self, clock: Clock) -> Iterator[None]:
        """Limit what runs inside by another clock."""
        whole = self.clock
        self.clock = self.paths.clock = self.known.clock = clock
        try:
            yield
        finally:
            self.clock = self.paths.clock = self.known.clock = whole

    def _bounded(self, point: TilingPoint) -> TilingPoint:
        """Return a plan with the bound for its own size."""
        if not self.exact or self.clock.expired():
            return point
        path = self.paths.cheapest(self.size(point))
        is_proof = path is not None and not (self.paths.dropped or self.clock.expired())
        known = path.extra if path is not None and is_proof else None
        return replace(point, bound=known)


def _same_plan(rows: Rows, tiled: TiledGraph, plan: Plan) -> Plan:
    """Return a plan of the graph as one of the tiled graph without stages."""
    graph, number = rows.graph, {op.op: v for v, op in enumerate(tiled.ops)}
    offsets: list[int | None] = [None] * len(tiled.graph.buffers)
    for tensor in tiled.tensors:
        for piece, _ in tiled.places[tensor.place].pieces:
            offsets[piece] = plan.offsets[tensor.buffer]
    for v, op in enumerate(graph.ops):
        scratch = tiled.graph.ops[number[v]].workspace
        if op.workspace is not None and scratch is not None:
            offsets[scratch] = plan.offsets[op.workspace]
    return Plan(tuple(number[v] for v in plan.order), tuple(offsets))
