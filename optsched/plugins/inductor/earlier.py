"""Orders and cuts that were found for equal graphs earlier in this process.

A step within a budget is simulated before it is compiled
(:mod:`optsched.plugins.inductor.recompute`). The searches are under time limits, so a second one
may find less. What fitted in the simulation is remembered, so that it fits when it is compiled.

>>> orders = Earlier[str](most=2)
>>> for key in ("a", "b", "c"):
...     orders.keep(key, key.upper())
>>> orders.get("a"), orders.get("c")
(None, 'C')
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Earlier(Generic[T]):
    """The latest results by graph.

    `most`: number of results that are kept.
    """

    def __init__(self, most: int) -> None:
        self.most, self.found = most, dict[Hashable, T]()

    def get(self, key: Hashable) -> T | None:
        """Return the result for a key; None if there is none."""
        return self.found.get(key)

    def keep(self, key: Hashable, result: T) -> None:
        """Keep a result, and drop the oldest one if there are too many."""
        self.found.pop(key, None)
        self.found[key] = result
        while len(self.found) > self.most:
            del self.found[next(iter(self.found))]
