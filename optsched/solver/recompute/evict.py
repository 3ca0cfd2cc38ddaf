"""A plan by eviction: go through an order, and release what is cheap to make again.

Where a run needs more bytes than the peak leaves, a storage is evicted: of all those that no node
reads now and that can be made again, the one of most bytes and longest time to its next use for the
cost of making it again, with all that would have to be made again first. A node that reads an
evicted storage makes it again just before. This takes milliseconds and knows nothing of bounds; the
costs in this choice are weighed by factors, and :class:`Evictions` tries other factors, each time
from those of the cheapest plan so far.

Example: a, b and c make 5, 5 and 1 bytes, and e, which reads all three, comes after d, which needs
8 of 15 bytes. If `a` costs 3 and `b` 1, `b` is evicted, and the sequence is a, b, c, d, b, e.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import BoolArray, IntArray
from optsched.runtime.kernel import inner, kernel
from optsched.solver.recompute.runs import TRY_SECONDS, Nodes, Schedule, Unroller, with_repeats
from optsched.solver.recompute.walk import rows

FloatArray = npt.NDArray[np.float64]
NEVER = 1 << 40
"""Step of a use that does not come."""
LONGEST = 3
"""Longest sequence that is tried, in parts of one run of each node."""
FIRST_POWERS = (0.5, 1.0, 2.0)
"""Powers of the time to the next use that are tried first."""
FIRST_TURNS = len(FIRST_POWERS)
SHARES = (0.02, 0.1, 0.5)
"""Parts of the factors that change, by turn."""
TIE = 1e-5
"""Price of a repeat, and of the largest number of bytes, in parts of the largest cost."""


class Stores(NamedTuple):
    """Nodes in an order, and storages; entries of row `i` lie between `ptr[i]` and `ptr[i + 1]`."""

    order: IntArray
    step: IntArray
    """`order` and `step`: nodes by step, and steps by node."""
    read_ptr: IntArray
    read: IntArray
    make_ptr: IntArray
    make: IntArray
    """`read_ptr`, `read`, `make_ptr` and `make`: storages that each node reads and makes."""
    user_ptr: IntArray
    user: IntArray
    """`user_ptr` and `user`: nodes that read each storage."""
    size: IntArray
    maker: IntArray
    kept: BoolArray
    """`size`, `maker` and `kept`: its bytes; its maker, -1 for an input; True if it stays to the
    end."""
    again: BoolArray
    """True for nodes that may run again."""
    price: FloatArray
    """Cost of one more run of each node, more than 0."""
    fixed: int
    """Bytes live throughout."""
    barrier: int
    """Step after which nodes may run again."""


class State(NamedTuple):
    """Live storages and nodes that have run, while the order goes by."""

    live: BoolArray
    pins: IntArray
    use: IntArray
    """`live`, `pins` and `use`: by storage: True if it is live, number of runs on the stack that
    read it, and step of its next use, also by nodes that run again."""
    ran: BoolArray
    """By node: True if it has run."""
    seen: IntArray
    stack: IntArray
    stamp: IntArray
    """`seen`, `stack` and `stamp`: work space of :func:`again_price`; the number that marks nodes
    seen by the present call."""


@inner
def find_uses(stores: Stores, state: State) -> None:
    """Set the step of each storage's next use."""
    state.use[:] = NEVER
    for i in range(len(stores.order) - 1, -1, -1):
        v = stores.order[i]
        # A node that has run is needed again for outputs that are not live.
        at = NEVER if state.ran[v] else i
        for k in range(stores.make_ptr[v], stores.make_ptr[v + 1]):
            s = stores.make[k]
            if state.ran[v] and stores.again[v] and not state.live[s]:
                at = min(at, state.use[s])
        for k in range(stores.read_ptr[v], stores.read_ptr[v + 1]):
            state.use[stores.read[k]] = min(state.use[stores.read[k]], at)


@inner
def again_price(stores: Stores, state: State, s: int, weight: FloatArray) -> float:
    """Return the price of making a storage again, with all that is not live; -1.0 if impossible."""
    if stores.maker[s] < 0 or stores.kept[s] or not stores.again[stores.maker[s]]:
        return -1.0
    state.stamp[0] += 1
    price, count = 0.0, 1
    state.stack[0] = stores.maker[s]
    state.seen[stores.maker[s]] = state.stamp[0]
    while count:
        count -= 1
        v = state.stack[count]
        price += stores.price[v] * weight[v]
        for k in range(stores.read_ptr[v], stores.read_ptr[v + 1]):
            u = stores.maker[stores.read[k]]
            if not state.live[stores.read[k]] and state.seen[u] != state.stamp[0]:
                if not stores.again[u]:
                    return -1.0
                state.seen[u] = state.stamp[0]
                state.stack[count] = u
                count += 1
    return price


@inner
def is_awaited(stores: Stores, state: State, s: int) -> bool:
    """Return True if a node that is still to run reads a storage before nodes may run again."""
    for k in range(stores.user_ptr[s], stores.user_ptr[s + 1]):
        w = stores.user[k]
        if not state.ran[w] and stores.step[w] <= stores.barrier:
            return True
    return False


@inner
def release(stores: Stores, state: State, at: int, weight: FloatArray, power: float) -> int:
    """Release all that is not used again, or else one storage; return the bytes."""
    find_uses(stores, state)
    best, found, unused = 0.0, -1, 0
    for s in range(len(stores.size)):
        if not state.live[s] or state.pins[s] or stores.kept[s]:
            continue
        if state.use[s] == NEVER:
            state.live[s] = False
            unused += stores.size[s]
        elif not unused and not (at <= stores.barrier and is_awaited(stores, state, s)):
            price = again_price(stores, state, s, weight)
            gain = stores.size[s] * float(state.use[s] - at + 1) ** power / price
            if price > 0 and gain > best:
                best, found = gain, s
    if unused or found < 0:
        return unused
    state.live[found] = False
    return int(stores.size[found])


@inner
def pin(stores: Stores, state: State, v: int, by: int) -> None:
    """Count a run on the stack for what it reads."""
    for k in range(stores.read_ptr[v], stores.read_ptr[v + 1]):
        state.pins[stores.read[k]] += by


@inner
def missing(stores: Stores, state: State, v: int) -> int:
    """Return the maker of a storage that a node reads and that is not live; -1 if all are."""
    for k in range(stores.read_ptr[v], stores.read_ptr[v + 1]):
        if not state.live[stores.read[k]]:
            return int(stores.maker[stores.read[k]])
    return -1


@kernel
def evict(
    stores: Stores, peak: int, weight: FloatArray, power: float, runs: IntArray, most: int
) -> int:
    """Write a sequence to `runs`; return its length.

    It is 0 if the sequence has no room, or takes more than `most` looks at nodes. Where nothing is
    left to evict, the peak is raised to what is needed.
    """
    n, m = len(stores.order), len(stores.size)
    state = State(
        np.zeros(m, np.bool_),
        np.zeros(m, np.int64),
        np.zeros(m, np.int64),
        np.zeros(n, np.bool_),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(1, np.int64),
    )
    live, count = stores.fixed, 0
    for s in range(len(stores.size)):
        if stores.maker[s] < 0:
            state.live[s] = True
            live += stores.size[s]
    pending = np.empty(n, np.int64)
    for at in range(n):
        pending[0], top = stores.order[at], 0
        pin(stores, state, pending[0], 1)
        while top >= 0:
            v = pending[top]
            u = missing(stores, state, v)
            if u >= 0:
                # Made again first, before its reader.
                top += 1
                pending[top] = u
                pin(stores, state, u, 1)
                continue
            if count == len(runs) or most < 0:
                return 0
            new = 0
            for k in range(stores.make_ptr[v], stores.make_ptr[v + 1]):
                if stores.kept[stores.make[k]] or not state.live[stores.make[k]]:
                    new += stores.size[stores.make[k]]
            while live + new > peak and most >= 0:
                most -= n
                released = release(stores, state, at, weight, power)
                if not released:
                    peak = live + new
                live -= released
            for k in range(stores.make_ptr[v], stores.make_ptr[v + 1]):
                if not state.live[stores.make[k]]:
                    state.live[stores.make[k]] = True
                    live += stores.size[stores.make[k]]
            state.ran[v] = True
            runs[count] = v
            count += 1
            pin(stores, state, v, -1)
            top -= 1
    return count


class Evictions:
    """Sequences within a peak, from one order of the nodes.

    `unroller`: runs and buffers of the problem. `base`: a sequence of all nodes without repeats.
    `peak`: bytes that must not be exceeded. `seed`: seed of the random factors.
    """

    def __init__(self, unroller: Unroller, base: Nodes, peak: int, seed: int = 0) -> None:
        self.unroller, self.peak = unroller, peak
        self.stores = _stores(unroller, with_repeats(unroller.problem, base, ()))
        self.random = np.random.default_rng(seed)
        self.best: Schedule | None = None
        # Bytes above the peak, cost, bytes and repeats of the best schedule.
        self.rank: tuple[int, ...] = ()
        self.weight, self.power, self.turn = np.ones(len(base)), 1.0, 0

    def next(self) -> None:
        """Make a schedule without repeats that are not needed, and keep the best one.

        If it exceeds the peak, another order may still need less.
        """
        weight, power = self.weight, self.power
        if self.turn < FIRST_TURNS:
            power = FIRST_POWERS[self.turn]
        else:
            # Few factors change at some turns, many at others.
            chosen = self.random.random(len(weight)) < SHARES[self.turn % len(SHARES)]
            weight = weight * np.exp(chosen * self.random.standard_normal(len(weight)))
        self.turn += 1
        n = len(self.stores.order)
        runs = np.empty(LONGEST * n, np.int64)
        most = self.unroller.most()
        self.unroller.spend(n * n, TRY_SECONDS)
        length = evict.for_work(n * n)(self.stores, self.peak, weight, power, runs, most)
        if length:
            self._take(self.unroller.clean(runs[:length].tolist()), weight, power)

    def _take(self, nodes: Nodes, weight: FloatArray, power: float) -> None:
        peak = max(self.peak, self.unroller.measure(nodes).peak)
        found = self.unroller.shortest(nodes, peak)
        rank = (max(0, found.peak - self.peak), *self.unroller.price(found))
        if self.best is None or rank <= self.rank:
            self.best, self.rank, self.weight, self.power = found, rank, weight, power


def _stores(unroller: Unroller, order: Nodes) -> Stores:
    problem = unroller.problem
    storages, nodes = problem.storages, range(len(problem.ops))
    again = np.zeros(len(order), np.bool_)
    again[list(problem.again)] = True
    # Free repeats have a price, too, by their bytes: fewer of them are better.
    most = max(1, *problem.cost), max(1, *(problem.made_bytes(v) for v in nodes))
    price = [
        problem.cost[v] / most[0] + TIE * (0.1 + problem.made_bytes(v) / most[1]) for v in nodes
    ]
    step = {v: i for i, v in enumerate(order)}
    return Stores(
        np.array(order, np.int64),
        np.array([step[v] for v in nodes], np.int64),
        *rows(problem.reads),
        *rows(problem.makes),
        *rows([storage.readers for storage in storages]),
        size=np.array([storage.size for storage in storages], np.int64),
        maker=np.array([storage.maker for storage in storages], np.int64),
        kept=np.array([storage.kept for storage in storages], np.bool_),
        again=again,
        price=np.array(price),
        fixed=problem.fixed,
        barrier=-1 if unroller.early else max((step[v] for v in unroller.loss), default=-1),
    )
