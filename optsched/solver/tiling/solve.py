"""Tiling in rows: the least arena for a cost, the least cost for an arena, or both for many.

One clock limits all steps: the best plan without tiling, the network of positions, paths, and
their packing.
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.errors import UsageError
from optsched.joint.oracle import WORK_PER_SECOND
from optsched.model.rows import RowOp, Rows, Tail
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import Limits, StopReason
from optsched.solver.tiling.bound import Obstacle, find_obstacle
from optsched.solver.tiling.labels import FAR
from optsched.solver.tiling.result import TilingPoint, TilingResult
from optsched.solver.tiling.tiler import Tiler

BANDS = 48
"""Most bands of a stage by default."""
LAST_SECONDS = 3.0
"""Time beyond the limit to find the op that stands in the way, where nothing else bounds."""
OBJECTIVES = ("total", "head")


def tile(
    rows: Rows,
    *,
    capacity: int | None = None,
    extra: float | None = None,
    points: int | None = None,
    tail: Tail | None = None,
    bands: int = BANDS,
    objective: str = "total",
    limits: Limits | Clock | None = None,
) -> TilingResult:
    """Return the best tiling in rows of a model; arguments and errors are those of `optsched.tile`.

    `tail` is none by default, and exactly one question is asked.
    """
    _check(rows, capacity, extra, points, bands, objective)
    clock = Clock.of(limits or Limits())
    known = tail or Tail.none(rows.graph)
    with held_interrupts():
        tiler = Tiler(rows, known, bands, objective, clock)
        return _Answer(tiler, capacity, extra, points).result()


def _check(
    rows: Rows,
    capacity: int | None,
    extra: float | None,
    points: int | None,
    bands: int,
    objective: str,
) -> None:
    if sum(x is not None for x in (capacity, extra, points)) != 1:
        raise UsageError("ask one question: a capacity, extra multiplications, or points")
    if bands < 2:
        raise UsageError(f"a stage has at least 2 bands, got {bands}")
    if points is not None and (not isinstance(points, int) or points < 2):
        raise UsageError(f"a front has at least 2 points, got {points}")
    if extra is not None and not 0 <= extra < 1000:
        raise UsageError(f"extra multiplications must be a fraction of at least 0, got {extra}")
    if objective not in OBJECTIVES:
        raise UsageError(f"objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}")
    if not any(isinstance(op, RowOp) for op in rows.ops):
        why = rows.ops[0] if rows.ops else "the model has no ops"
        raise UsageError(f"{rows.graph.name}: no op is row-local, so nothing runs in bands: {why}")


@dataclass
class _Answer:
    """One question to a tiler, and what is known when the time is over."""

    tiler: Tiler
    capacity: int | None
    extra: float | None
    points: int | None
    best: TilingPoint | None = None
    found: tuple[TilingPoint, ...] = ()
    bound: int | None = None

    def result(self) -> TilingResult:
        tiler, reason = self.tiler, StopReason.EXHAUSTED
        most = None if self.extra is None else int(self.extra * tiler.rows.cost)
        self.found = (tiler.untiled,)
        try:
            self._ask(most)
        except KeyboardInterrupt:
            reason = StopReason.INTERRUPTED
        else:
            if tiler.clock.expired():
                reason = tiler.clock.limit_reason()
        obstacle = self._obstacle()
        return TilingResult(
            rows=tiler.rows,
            tail=tiler.tail,
            bands=tiler.bands,
            objective=tiler.objective,
            capacity=self.capacity,
            extra=most,
            untiled=tiler.untiled,
            best=self.best,
            front=self.found,
            bound=max(self.bound or 0, obstacle.bound + tiler.counted.model),
            obstacle=tiler.rows.graph.ops[obstacle.op].name if obstacle.op >= 0 else "",
            stop_reason=reason,
            seconds=tiler.clock.seconds(),
        )

    def _ask(self, most: int | None) -> None:
        tiler = self.tiler
        fits = self.capacity is None or tiler.size(tiler.untiled) <= self.capacity
        self.best = tiler.untiled if fits else None
        tiler.prepare()
        if self.capacity is not None:
            self.best = tiler.within(self.capacity)
            self.found = (self.best,) if self.best else ()
            self.bound = self._least_size()
        elif most is not None:
            self.best, self.bound = tiler.least(most)
            self.found = (self.best,)
        else:
            self.found = tuple(tiler.front(self.points or 2))
            self.best = self.found[-1]
            self.bound = self._least_size()

    def _least_size(self) -> int | None:
        """Return a bound on the size of all plans of the family."""
        tiler = self.tiler
        if not tiler.exact:
            return None
        path = tiler.paths.smallest(FAR)
        least = tiler.paths.least_load + tiler.counted.model
        bound = least if path is None or tiler.clock.expired() else path.total
        # All paths of at most the capacity have been tried.
        return max(bound, (self.capacity or 0) + 1) if tiler.refuted else bound

    def _obstacle(self) -> Obstacle:
        # With all tilings at hand the least path says more, unless nothing fits.
        if self.tiler.exact and self.best is not None and self.bound is not None:
            return Obstacle(0, -1)
        # A limit on work stays one, so that answers can be repeated.
        by_work = self.tiler.clock.limits.work is not None
        work = int(LAST_SECONDS * WORK_PER_SECOND)
        limit = Clock.of(Limits(work=work) if by_work else Limits(seconds=LAST_SECONDS))
        try:
            return find_obstacle(self.tiler.rows, self.tiler.bands, limit)
        except KeyboardInterrupt:
            return Obstacle(0, -1)
