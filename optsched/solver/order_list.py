"""The orders that a search has found, each with its peak, and keys for their packings."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.steps import Order


class RankedOrder(NamedTuple):
    """An order with its rank, the lower the better, and its peak, both in bytes."""

    rank: int
    peak: int
    order: IntArray


class OrderList:
    """The orders that a search has found, each with its peak.

    `parts`: graphs of its pools if the sum of their slabs is minimized: orders are then ranked by
    the sum of the pools' peaks. Empty to rank them by the peak.
    """

    def __init__(self, graph: Graph, parts: Sequence[Graph]) -> None:
        self.graph, self.parts = graph, parts
        self.found: list[RankedOrder] = []
        self.peaks: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.found)

    def add(self, order: Order) -> None:
        """Add an order."""
        found = np.asarray(order, np.int64)
        peak = rank = self.peak_of(found)
        if self.parts:
            rank = sum(peak_memory(part, found) for part in self.parts)
        self.found.append(RankedOrder(rank, peak, found))

    def peak_of(self, order: IntArray) -> int:
        """Return the peak of an order, which is measured only once."""
        # Orders of many ops take megabytes, so that their digests are the keys.
        key = blake2b(order.tobytes(), digest_size=16).digest()
        if key not in self.peaks:
            self.peaks[key] = peak_memory(self.graph, order)
        return self.peaks[key]

    def least_peak(self) -> int | None:
        """Return the lowest peak of the orders; None without one."""
        return min((known.peak for known in self.found), default=None)

    def best(self, count: int) -> list[tuple[int, IntArray]]:
        """Return the peak and order of the best few different orders."""
        found: dict[bytes, tuple[int, IntArray]] = {}
        for _, peak, order in sorted(self.found, key=lambda known: known.rank):
            # Equal orders may come from several heuristics; the first one is kept.
            found.setdefault(order.tobytes(), (peak, order))
            if len(found) == count:
                break
        return list(found.values())


def packing_key(order: Order, pairs: Any) -> bytes:
    """Return a digest of an order and its chosen in-place pairs, which identify a packing."""
    rows = [np.asarray(row, np.int64).tobytes() for row in (order, *pairs)]
    return blake2b(b"".join(rows), digest_size=16).digest()
