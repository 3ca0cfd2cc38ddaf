"""Many short searches in different orders: run times are heavy-tailed, some order is quick."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optsched.model.arrays import IntArray
from optsched.packing.engine import Engine
from optsched.packing.kernels import branch
from optsched.packing.kernels.search import LIMIT

ARMS: tuple[tuple[str, int], ...] = (
    ("TWA", branch.FEWEST_THEN_TIGHT),
    ("ZWT", branch.TIGHTEST),
    ("TWA", branch.EXTRA_PER_FAILURE),
    ("ZAT", branch.TIGHTEST),
    ("TAW", branch.FEWEST_THEN_LOWEST),
    ("WAT", branch.EXTRA_PER_FAILURE),
)
"""Value order and section rule."""

NOISE = (0.03, 0.1, 0.05)
"""Standard deviation of a buffer's place in the order, by round, as a share of all places."""

NODES_PER_BUFFER = 2
"""A search that succeeds needs hardly more nodes than buffers; most others go on for very long."""

LONG_BUFFERS = 128
"""Up to this many buffers a capacity may be refuted: half of the nodes go to long searches."""


def luby(k: int) -> int:
    """Return the k-th number, from 1, of Luby, Sinclair and Zuckerman's restart sequence."""
    while True:
        bits = k.bit_length()
        if k == (1 << bits) - 1:
            return 1 << (bits - 1)
        k -= (1 << (bits - 1)) - 1


def shuffled(rank: IntArray, noise: float, random: np.random.Generator) -> IntArray:
    """Return ranks near the given ones."""
    order = np.argsort(rank + random.normal(0, noise * len(rank), len(rank)), kind="stable")
    result = np.empty(len(rank), np.int64)
    result[order] = np.arange(len(rank))
    return result


class Portfolio:
    """Rounds over the arms at one capacity, with growing limits.

    Parameters
    ----------
    engine
        The piece.
    capacity
        Bytes.
    random
        Of the noise.
    in_time
        Whether there is time left.
    """

    def __init__(
        self,
        engine: Engine,
        capacity: int,
        random: np.random.Generator,
        in_time: Callable[[], bool],
    ) -> None:
        self.engine, self.capacity, self.random = engine, capacity, random
        self.in_time = in_time
        self.round = 0
        self.long_limit = 64 * len(engine.piece)
        self.spent = self.spent_long = 0

    def run(self, nodes: int) -> int:
        """Run whole rounds until one is decisive or that many nodes are spent; in time."""
        until = self.spent + nodes
        answer = LIMIT
        while answer == LIMIT and self.spent < until and self.in_time():
            answer = self._run_round()
            if answer == LIMIT and self._wants_long_search() and self.in_time():
                answer = self._run_long_search()
        return answer

    def _decide(self, rank: IntArray, rule: int, limit: int) -> int:
        before = self.engine.nodes
        answer = self.engine.decide(self.capacity, rank, rule, limit, self.in_time)
        self.spent += max(1, self.engine.nodes - before)
        return answer

    def _run_round(self) -> int:
        engine = self.engine
        self.round += 1
        engine.reset_weights()
        limit = NODES_PER_BUFFER * max(16, len(engine.piece)) * luby(self.round)
        for name, rule in ARMS:
            noise = NOISE[(self.round - 1) % len(NOISE)]
            rank = shuffled(engine.keys.rank(name), noise, self.random)
            answer = self._decide(rank, rule, limit)
            if answer != LIMIT or not self.in_time():
                return answer
        return LIMIT

    def _wants_long_search(self) -> bool:
        few = len(self.engine.piece) <= LONG_BUFFERS
        return few and self.spent_long + self.long_limit <= self.spent

    def _run_long_search(self) -> int:
        limit = self.long_limit
        self.long_limit *= 2
        before = self.spent
        name, rule = ARMS[0]
        answer = self._decide(self.engine.keys.rank(name), rule, limit)
        self.spent_long += self.spent - before
        return answer
