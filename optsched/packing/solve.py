"""The entry point: pieces in turn, each on its ladder."""

from __future__ import annotations

import numpy as np

from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.packing.capacity_search import Ladder
from optsched.packing.components import live_rows, make_pieces
from optsched.packing.enumeration import enumerate_packings, is_for_enumeration
from optsched.packing.outcome import Clock, PackingOutcome
from optsched.packing.rules import Rules
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import Event, Limits, OnEvent, Proof, StopReason


def solve_packing(
    problem: PackingProblem,
    *,
    limits: Limits,
    capacity: int | None = None,
    warm_start: IntArray | None = None,
    rules: Rules | None = None,
    on_event: OnEvent | None = None,
) -> PackingOutcome:
    """Find the packing of least slab, or decide whether one fits a capacity.

    Parameters
    ----------
    problem
        Buffers with live ranges; in gaps they are not there, or only a window of them is.
    limits
        `seconds` is honoured between searches of some ten milliseconds; without it, the answer
        depends on the seed alone.
    capacity
        Bytes; stop at the first packing that fits, or when none can.
    warm_start
        Shape `(k,)`: offsets to start from. They are trusted: check them before.
    rules
        Prunings; all if None.
    on_event
        Called whenever the best packing or the bound moves.

    Raises
    ------
    GraphError
        If two pinned buffers overlap while both are live.
    """
    if is_for_enumeration(problem) and clashing_pins(problem) is None:
        found = enumerate_packings(problem, capacity)
        if found.is_complete:
            return _enumerated(problem, found.offsets, capacity)
    solver = _Solver(problem, limits, capacity, rules or Rules(), on_event)
    interrupted = False
    try:
        with held_interrupts():
            solver.run(warm_start)
    except KeyboardInterrupt:
        interrupted = True
    return solver.outcome(interrupted)


def _enumerated(
    problem: PackingProblem, offsets: list[int] | None, capacity: int | None
) -> PackingOutcome:
    """Return what is known once every packing was tried."""
    counters = {"buffers": len(problem)}
    if offsets is None:
        refuted = 0 if capacity is None else capacity + 1
        bound = max(problem.max_load, refuted)
        return PackingOutcome(None, None, bound, None, StopReason.DECIDED, counters)
    ends = [offset + size for offset, size in zip(offsets, problem.size.tolist(), strict=True)]
    if max(ends) >= 2**63:
        raise GraphError(f"{problem.name}: every packing is larger than 2**63 bytes")
    places = np.array(offsets, np.int64)
    slab = problem.slab_size(places)
    if capacity is not None and slab > problem.max_load:
        bound, proof, reason = problem.max_load, None, StopReason.DECIDED
    else:
        at_load = slab == problem.max_load
        proof = Proof.PACKING if at_load else Proof.PACKING_SEARCH
        bound, reason = slab, StopReason.PROVED
    return PackingOutcome(places, slab, bound, proof, reason, counters)


class _Solver:
    def __init__(
        self,
        problem: PackingProblem,
        limits: Limits,
        capacity: int | None,
        rules: Rules,
        on_event: OnEvent | None,
    ) -> None:
        self.problem, self.limits, self.rules, self.on_event = problem, limits, rules, on_event
        self.capacity = capacity
        self.clock = Clock(limits.seconds)
        live = problem.end > problem.start
        ends = np.maximum(problem.pin, 0) + problem.size
        self.bound = max(problem.max_load, int(ends[live].max(initial=0)))
        self.offsets: IntArray | None = None
        self.slab = 0
        self.ladders: list[Ladder] = []
        self.statistics = {"windows": 0, "pieces": 0}

    def run(self, warm_start: IntArray | None) -> None:
        """First fit for all pieces, then climb, the piece of greatest bound first."""
        if warm_start is not None:
            self.offsets = np.array(warm_start, np.int64)
            self.slab = self.problem.slab_size(self.offsets)
        clash = clashing_pins(self.problem)
        if clash is not None:
            a, b = (self.problem.names[i] for i in clash)
            raise GraphError(f"buffers {a!r} and {b!r} are pinned onto each other")
        pieces = sorted(make_pieces(self.problem, self.rules), key=lambda piece: -piece.bound)
        self.statistics["pieces"] = len(pieces)
        self.statistics["windows"] = sum(piece.windows is not None for piece in pieces)
        for piece in pieces:
            self._note_bound(piece.bound)
        if self._is_settled():
            return
        for number, piece in enumerate(pieces):
            seed = self.limits.seed + 1009 * number
            ladder = Ladder(piece, self.rules, seed, self.clock, self._moved)
            ladder.enough = self._enough()
            ladder.deciding = self.capacity is not None
            if self.offsets is not None:
                ladder.offer_bytes(self.offsets[piece.ids])
            ladder.run_first_fit()
            if ladder.offsets is None:
                return
            self.ladders.append(ladder)
        self._moved("first fit")
        for ladder in self.ladders:
            ladder.enough = self._enough()
            ladder.climb()
            if self._is_settled() or not self.clock.in_time():
                return

    def _enough(self) -> int:
        """Bytes that no piece needs to go below."""
        return max(self.bound, self.capacity or 0)

    def _is_settled(self) -> bool:
        if self.capacity is not None and self.bound > self.capacity:
            return True
        return self.offsets is not None and self.slab <= self._enough()

    def _note_bound(self, bound: int) -> None:
        self.bound = max(self.bound, bound)

    def _moved(self, source: str) -> None:
        """Put the pieces together and pass on what is new."""
        if len(self.ladders) < self.statistics["pieces"]:
            return
        before = (self.slab if self.offsets is not None else -1, self.bound)
        offsets = np.where(self.problem.pin > 0, self.problem.pin, 0)
        for ladder in self.ladders:
            self._note_bound(ladder.bound)
            offsets[ladder.piece.ids] = ladder.best * ladder.piece.unit
        slab = self.problem.slab_size(offsets)
        if self.offsets is None or slab < self.slab:
            self.offsets, self.slab = offsets, slab
        if self.on_event is not None and before != (self.slab, self.bound):
            self.on_event(Event(self.clock.elapsed(), self.slab, self.bound, source))

    def outcome(self, interrupted: bool) -> PackingOutcome:
        """Put the result together."""
        engines = [ladder.engine for ladder in self.ladders]
        slab = None if self.offsets is None else self.slab
        proof = None
        if slab == self.bound:
            at_load = slab == self.problem.max_load
            proof = Proof.PACKING if at_load else Proof.PACKING_SEARCH
        if interrupted:
            reason = StopReason.INTERRUPTED
        elif slab == self.bound:
            reason = StopReason.PROVED
        elif self._is_settled():
            reason = StopReason.DECIDED
        else:
            reason = StopReason.TIME_LIMIT if self.clock.expired else StopReason.EXHAUSTED
        self.statistics |= {
            "buffers": sum(len(ladder.piece) for ladder in self.ladders),
            "sections": sum(ladder.piece.sections.count for ladder in self.ladders),
            "first fits": sum(ladder.fits for ladder in self.ladders),
            "beams": sum(ladder.beams for ladder in self.ladders),
            "searches": sum(engine.runs for engine in engines),
            "nodes": sum(engine.nodes for engine in engines),
            "states refuted before": sum(engine.refuted for engine in engines),
        }
        return PackingOutcome(self.offsets, slab, self.bound, proof, reason, self.statistics)


def clashing_pins(problem: PackingProblem) -> tuple[int, int] | None:
    """Return two pinned buffers that overlap while both are live, if there are any."""
    live = live_rows(problem)
    pinned = np.flatnonzero(problem.pin[live.owner] >= 0)
    pinned = pinned[np.argsort(live.start[pinned], kind="stable")]
    owner = live.owner[pinned]
    low, high = problem.pin[owner] + live.low[pinned], problem.pin[owner] + live.high[pinned]
    until = np.searchsorted(live.start[pinned], live.end[pinned])
    for k in range(len(pinned)):
        here = slice(k + 1, int(until[k]))
        meets = (low[here] < high[k]) & (low[k] < high[here]) & (owner[here] != owner[k])
        if meets.any():
            return int(owner[k]), int(owner[k + 1 + int(np.argmax(meets))])
    return None
