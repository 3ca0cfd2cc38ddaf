"""Orders in which the search and first fit try buffers.

The name of an order lists its sort keys, most significant first. "ZW" takes the largest buffers
first and breaks ties in favor of the longest-lived; :class:`SortKeys` lists all keys.

Example: `a` has 8 bytes and covers 2 sections, `b` 8 bytes and 3, `c` 4 bytes and 9. The order ZW
is b, a, c; the order W alone is c, b, a.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import IntArray
from optsched.packing.components import Component

FIRST_FIT_ORDERS = (
    "TZ", "TW", "TA", "TL", "TR", "ZW", "ZL", "A", "WZ", "CW",
    "KW", "KZW", "KB", "KD", "DW", "LZ", "LW", "RZ", "RW",
)  # fmt: skip
"""Orders of first fit; those that start with T or K, the breadth orders, win most often."""


class SortKeys:
    """Sort keys of the buffers of a component; buffers with low keys come first.

    T: densest covered section first. W: longest lifetime, in sections. Z: largest size. A: largest
    area. C: largest sum of the loads of the covered sections. L: earliest start. R: latest end. K:
    buffers live in the densest section first. B: longest lifetime before that section. D: nearest
    to that section. In all orders, buffers of low upper limits come first.
    """

    def __init__(self, component: Component) -> None:
        first, last = component.sections.first, component.sections.last
        self.n, self.below = len(component), component.problem.below[component.ids]
        length = last - first
        load = component.load
        peak = int(np.argmax(load)) if len(load) else 0
        # Steps of the range before the densest section; 0 if the buffer starts after it.
        before = np.maximum(0, peak - first)
        away = np.maximum(0, np.maximum(first - peak, peak - last + 1))
        total = np.concatenate([[0], np.cumsum(load.astype(np.float64))])
        self.table: dict[str, npt.NDArray[np.float64] | IntArray] = {
            "T": -range_max(load, first, last),
            "W": -length,
            "Z": -component.size,
            "A": -(component.size.astype(np.float64) * length),
            "C": -(total[last] - total[first]),
            "L": first,
            "R": -last,
            "K": (away > 0).astype(np.int64),
            "B": -before,
            "D": away,
        }
        self.orders: dict[str, IntArray] = {}

    def order(self, name: str) -> IntArray:
        """Return the buffers in the named order."""
        if name not in self.orders:
            # The last key of `lexsort` counts most, so the letters are reversed.
            keys = [self.table[key] for key in reversed(name)]
            self.orders[name] = np.lexsort([*keys, self.below])
        return self.orders[name]

    def rank(self, name: str) -> IntArray:
        """Return the position of each buffer in the named order."""
        found = np.empty(self.n, np.int64)
        found[self.order(name)] = np.arange(self.n)
        return found


def range_max(values: IntArray, first: IntArray, last: IntArray) -> IntArray:
    """Return the maximum of `values[first[i]:last[i]]` for each `i`; ranges must not be empty."""
    # Sparse table: two overlapping windows, whose width is a power of two, cover each range.
    tables = [values]
    width = 1
    while 2 * width <= len(values):
        shorter = tables[-1]
        tables.append(np.maximum(shorter[:-width], shorter[width:]))
        width *= 2
    # The exponent of a float gives the binary logarithm of the length, rounded down.
    level = np.frexp((last - first).astype(np.float64))[1] - 1
    result = np.zeros(len(first), np.int64)
    for k, table in enumerate(tables):
        here = np.flatnonzero(level == k)
        result[here] = np.maximum(table[first[here]], table[last[here] - (1 << k)])
    return result
