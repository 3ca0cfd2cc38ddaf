"""Restarts of branch and bound in different orders.

Run times of branch and bound are heavy-tailed: in most problems some order needs hardly more nodes
than there are buffers, while most orders take very long. The portfolio therefore runs each arm (a
value order and a section rule) with a small node limit, then again with random noise in the order.
The node limits follow Luby's sequence, which is within a logarithmic factor of the best restart
strategy for any distribution of run times.

Searches without noise and with doubling limits run in between, so that a capacity of a small
component can also be refuted.

References
----------
M. Luby, A. Sinclair, D. Zuckerman, "Optimal speedup of Las Vegas algorithms", 1993.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.packing.engine import PackingEngine
from optsched.packing.kernels.search import LIMIT
from optsched.runtime.clock import Clock


def luby(k: int) -> int:
    """Return the k-th element, counted from 1, of Luby's sequence.

    >>> [luby(k) for k in range(1, 9)]
    [1, 1, 2, 1, 1, 2, 4, 1]
    """
    while True:
        bits = k.bit_length()
        # The last element of a block of 2**bits - 1 elements is the largest of the block.
        if k == (1 << bits) - 1:
            return 1 << (bits - 1)
        # Otherwise the sequence repeats from its start.
        k -= (1 << (bits - 1)) - 1


def shuffled(rank: IntArray, noise: float, random: np.random.Generator) -> IntArray:
    """Return a random permutation close to `rank`."""
    order = np.argsort(rank + random.normal(0, noise * len(rank), len(rank)), kind="stable")
    result = np.empty(len(rank), np.int64)
    result[order] = np.arange(len(rank))
    return result


class RestartPortfolio:
    """Rounds of searches over all arms at one capacity in bytes, with growing node limits."""

    def __init__(
        self, engine: PackingEngine, capacity: int, random: np.random.Generator, clock: Clock
    ) -> None:
        self.engine, self.capacity, self.random, self.clock = engine, capacity, random, clock
        self.effort = engine.effort
        self.round = 0
        self.long_limit = self.effort.long_nodes * len(engine.component)
        self.spent = self.spent_long = 0

    def run(self, nodes: int) -> int:
        """Run whole rounds until one decides, `nodes` nodes are spent, or the clock has expired."""
        until = self.spent + nodes
        answer = LIMIT
        while answer == LIMIT and self.spent < until and not self.clock.expired():
            answer = self._run_round()
            if answer == LIMIT and self._wants_long_search() and not self.clock.expired():
                answer = self._run_long_search()
        return answer

    def _decide(self, rank: IntArray, rule: int, limit: int) -> int:
        before = self.engine.nodes
        answer = self.engine.decide(self.capacity, rank, rule, limit, self.clock)
        # At least 1, so that a search that ends at once cannot be repeated forever.
        self.spent += max(1, self.engine.nodes - before)
        return answer

    def _run_round(self) -> int:
        engine, effort = self.engine, self.effort
        self.round += 1
        # Weights of an earlier order would lead the new one to the same conflicts.
        engine.reset_weights()
        limit = effort.nodes_per_buffer * max(16, len(engine.component)) * luby(self.round)
        for name, rule in effort.arms:
            noise = effort.noise[(self.round - 1) % len(effort.noise)]
            rank = shuffled(engine.keys.rank(name), noise, self.random)
            answer = self._decide(rank, rule, limit)
            if answer != LIMIT or self.clock.expired():
                return answer
        return LIMIT

    def _wants_long_search(self) -> bool:
        few = len(self.engine.component) <= self.effort.long_buffers
        # Half of all nodes: long searches wait until the short ones have used as many.
        return few and self.spent_long + self.long_limit <= self.spent

    def _run_long_search(self) -> int:
        limit = self.long_limit
        self.long_limit *= 2
        before = self.spent
        name, rule = self.effort.arms[0]
        answer = self._decide(self.engine.keys.rank(name), rule, limit)
        self.spent_long += self.spent - before
        return answer
