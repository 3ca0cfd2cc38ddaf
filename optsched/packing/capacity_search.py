"""One piece from its bound upwards: first fit, then search at one capacity after another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optsched.model.arrays import IntArray
from optsched.packing.beam import search_beam
from optsched.packing.components import Piece
from optsched.packing.engine import Engine
from optsched.packing.kernels import branch
from optsched.packing.kernels.search import EXHAUSTED, SOLVED
from optsched.packing.orders import FIRST_FIT_ORDERS
from optsched.packing.outcome import Clock
from optsched.packing.portfolio import Portfolio
from optsched.packing.rules import Rules
from optsched.packing.subset_sums import Heights

FIRST_NODES = 60_000
"""Nodes of the first search at a capacity; each later turn has twice as many."""

BEAM_BUFFERS = 64
"""From this many buffers on, beams are tried: below, branch and bound is quicker."""

BEAMS = ((60, 0.02), (100, 0.03), (400, 0.02), (60, 0.02), (100, 0.015), (200, 0.03), (400, 0.02))
"""Width and softness. Success is luck: narrow beams have it sooner on some instances, wide ones on
others."""

BEAM_RULES = (branch.FEWEST_THEN_TIGHT, branch.FEWEST_THEN_LOWEST)
"""By turns; in two rounds each of the beams has both."""

BEAM_NOISE = 0.05

BEAM_SKIPS = 1
"""More let states put off what is hard, and these look better than those that have done it."""

BEAM_SHARE = 6
"""Children that beams make, for each node of the branch and bound."""

BEAMS_LOW = 8
"""Turns in which all beams aim at the bound."""

PATIENCE = 4
"""Turns before beams, where a capacity is asked for: restarts mostly do."""

FIRST_FIT_WORK = 4_000_000_000
"""Rough steps of all first fits together: fewer orders are tried where buffers are many."""


class Ladder:
    """Climbs from the bound, and down from the best packing, until they meet.

    Parameters
    ----------
    piece
        What to pack.
    rules
        Prunings.
    seed
        Of the noise in the orders.
    clock
        When to stop.
    on_move
        Called with the source when the best packing or the bound has moved.

    Attributes
    ----------
    enough
        A slab of this many bytes ends the climb, whether or not it is least.
    deciding
        Whether `enough` is a capacity asked for: smaller slabs are of no use then.
    bound, slab
        Bytes; the slab counts once there are `offsets`.
    """

    def __init__(
        self,
        piece: Piece,
        rules: Rules,
        seed: int,
        clock: Clock,
        on_move: Callable[[str], None],
    ) -> None:
        self.piece, self.rules, self.clock, self.on_move = piece, rules, clock, on_move
        self.engine = Engine(piece, rules)
        self.random = np.random.default_rng(seed)
        self.bound = piece.bound
        self.enough = self.bound
        self.deciding = False
        self.offsets: IntArray | None = None
        self.slab = -1
        self.fits = self.beams = 0
        self.heights: Heights | None = None
        self.portfolios: dict[int, Portfolio] = {}

    @property
    def best(self) -> IntArray:
        """The best packing, in units; there is one after :meth:`run_first_fit`."""
        if self.offsets is None:
            raise RuntimeError("no packing yet")
        return self.offsets

    def done(self) -> bool:
        """Whether the packing is good enough or no better one exists."""
        return self.offsets is not None and self.slab <= max(self.bound, self.enough)

    def offer(self, offsets: IntArray, source: str) -> None:
        """Keep a packing if it is better."""
        slab = self.piece.slab(offsets)
        if self.offsets is None or slab < self.slab:
            self.offsets, self.slab = offsets, slab
            self.on_move(source)

    def offer_bytes(self, offsets: IntArray) -> None:
        """Keep a packing given in bytes, if it lies on whole units."""
        if not (offsets % self.piece.unit).any():
            self.offer(offsets // self.piece.unit, "warm start")

    def run_first_fit(self) -> None:
        """Try the orders of first fit; the first one is begun whatever the time."""
        n = len(self.piece)
        orders = max(4, min(len(FIRST_FIT_ORDERS), FIRST_FIT_WORK // max(1, n * n)))
        unlimited = int(self.piece.bytes.sum() + self.piece.unit * (
            self.piece.alignment.sum() + self.piece.pin.max(initial=0) + n + 1
        ))  # fmt: skip
        for name in FIRST_FIT_ORDERS[:orders]:
            begun = self.fits > 0 or self.offsets is not None
            if self.done() or (begun and not self.clock.in_time()):
                return
            capacity = unlimited if self.offsets is None else self.slab - 1
            self.fits += 1
            order = self.engine.keys.order(name)
            if self.engine.first_fit(order, capacity, in_time=self.clock.in_time):
                self.offer(self.engine.offsets(), f"first fit {name}")

    def raise_bound(self, refuted: int) -> None:
        """Go to the next height above a capacity that was searched in full."""
        if self.heights is None:
            upper = self.slab if self.rules.heights else 0
            self.heights = Heights(self.piece, upper)
        following = self.heights.after(refuted)
        self.bound = max(self.bound, min(following, self.slab))
        self.on_move("exhaustive search")

    def search(self, capacity: int, nodes: int) -> bool:
        """Search at a capacity; whether that decided it."""
        portfolio = self.portfolios.get(capacity)
        if portfolio is None:
            portfolio = Portfolio(self.engine, capacity, self.random, self.clock.in_time)
            self.portfolios[capacity] = portfolio
        answer = portfolio.run(nodes)
        if answer == SOLVED:
            self.offer(self.engine.offsets(), "branch and bound")
        elif answer == EXHAUSTED:
            self.raise_bound(capacity)
        return answer in (SOLVED, EXHAUSTED)

    def run_beams(self, capacity: int, nodes: int) -> None:
        """Try beams until one succeeds or that many children have been made."""
        until = self.engine.nodes + nodes
        while self.engine.nodes < until and self.clock.in_time():
            width, softness = BEAMS[self.beams % len(BEAMS)]
            answer = search_beam(
                self.engine,
                capacity,
                width=width,
                rule=BEAM_RULES[self.beams % len(BEAM_RULES)],
                softness=softness,
                noise=BEAM_NOISE,
                skips=BEAM_SKIPS,
                random=self.random,
                in_time=self.clock.in_time,
            )
            self.beams += 1
            if answer == SOLVED:
                self.offer(self.engine.offsets(), "beam search")
                return

    def climb(self) -> None:
        """Search until done, out of time, or beyond what the search can take."""
        nodes = FIRST_NODES
        turn = 0
        few = len(self.piece) < BEAM_BUFFERS or self.piece.windows is not None
        while not self.done() and self.piece.is_searchable and self.clock.in_time():
            target = max(self.bound, min(self.enough, self.slab - 1))
            if self.search(target, nodes) or not self.clock.in_time():
                continue
            middle = self.slab - max(1, (self.slab - target) // 2)
            if middle > target and turn % 2 == 0 and not self.deciding:
                self.search(middle, nodes)
            if turn >= (PATIENCE if self.deciding else 1) and not few and not self.done():
                # The target may be out of reach: later turns take the middle by turns.
                low = turn < BEAMS_LOW or turn % 2 == 1 or self.deciding
                self.run_beams(target if low else max(middle, target), BEAM_SHARE * nodes)
            nodes += nodes // (2 if few else 8)
            turn += 1
