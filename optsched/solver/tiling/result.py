"""Answers about tilings: plans with their costs, and bounds on all plans of the family."""

from __future__ import annotations

from dataclasses import dataclass, field

from optsched.model.plan import Plan, Planned
from optsched.model.rows import Rows, Tail
from optsched.model.tiled import TiledGraph, family
from optsched.runtime.limits import StopReason
from optsched.runtime.shown import Told
from optsched.runtime.text import percent
from optsched.solver.status import Status, judge


@dataclass(frozen=True, slots=True)
class TilingPoint:
    """A tiled program with its plan, which the checkers have accepted."""

    tiled: TiledGraph
    plan: Plan
    """`tiled` and `plan`: the program as an ordinary graph, and order and offsets of that."""
    head: int
    tail: int
    """`head` and `tail`: bytes of the slab as the runtime counts them, and of all else that it
    keeps."""
    extra: int
    """Multiplications beyond those of the untiled model; negative if rows are never computed."""
    bound: int | None = None
    """No tiling of the family with as few bytes has fewer extra multiplications; None if that is
    not known."""

    @property
    def arena(self) -> int:
        """Head and tail."""
        return self.head + self.tail

    @property
    def proved(self) -> bool:
        """True if no tiling of the family with as few bytes costs less."""
        return self.bound is not None and self.extra <= self.bound


@dataclass(frozen=True)
class TilingResult(Told):
    """The best tiled plan found for a question, and what is proved."""

    rows: Rows
    tail: Tail
    """`rows` and `tail`: the model, and its tail."""
    bands: int
    """Maximum number of bands of a stage."""
    objective: str
    """`"total"` for head and tail, or `"head"`."""
    capacity: int | None
    extra: int | None
    """`capacity` and `extra`: the question: bytes that must be enough, or the most extra
    multiplications; None otherwise."""
    untiled: TilingPoint
    """The best plan without tiling that was found."""
    best: TilingPoint | None
    """The answer; None if no plan keeps the capacity."""
    front: tuple[TilingPoint, ...]
    """Plans from the largest arena to the smallest; none beats another one."""
    bound: int
    """Bytes below which no tiling of the family gets: within `extra` if that was asked."""
    obstacle: str = ""
    """Name of the op that needs most of these bytes, whole or in any stage; empty if not known."""
    stop_reason: StopReason = StopReason.EXHAUSTED
    seconds: float = field(default=0.0, compare=False)
    """`stop_reason` and `seconds`: why the search ended, and its time."""

    @property
    def graph_and_plan(self) -> Planned:
        """The tiled program as a graph, and its plan; without an answer, the untiled ones."""
        point = self.best or self.untiled
        return Planned(point.tiled.graph, point.plan)

    def size(self, point: TilingPoint) -> int:
        """Return the bytes that the objective counts."""
        return point.head if self.objective == "head" else point.arena

    @property
    def slack(self) -> int:
        """Bytes of alignment to within which an arena is proved."""
        return 0 if self.objective == "head" else self.tail.slack

    @property
    def status(self) -> Status:
        """State of knowledge about the question."""
        if self.best is None:
            refuted = self.capacity is not None and self.bound > self.capacity
            return judge(None, self.bound, refuted=refuted)
        is_least = self.size(self.best) <= self.bound + self.slack
        # A front goes down to the smallest plan of all.
        front = self.extra is not None or all(point.proved for point in self.front)
        proved = self.best.proved if self.capacity is not None else is_least and front
        return judge(self.size(self.best), self.bound, proved=proved)

    def share(self, extra: int) -> float:
        """Return extra multiplications as a fraction of the untiled model's."""
        return extra / self.rows.cost if self.rows.cost else 0.0

    @property
    def family(self) -> str:
        """The plans that bounds are about, in words."""
        return f"tiling {family(self.bands)}"

    def __repr__(self) -> str:
        best = "no plan" if self.best is None else f"arena {self.size(self.best):,}"
        if self.best is not None:
            best += f" at {percent(self.share(self.best.extra), 1)} more multiplications"
        return f"TilingResult({self.status}, {best}, bound {self.bound:,} of {self.family})"
