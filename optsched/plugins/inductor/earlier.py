"""Orders and cuts that were found for equal graphs earlier in this process.

A step within a budget is simulated before it is compiled
(:mod:`optsched.plugins.inductor.recompute`). The searches are under time limits, so a second one
may find less. What fitted in the simulation is remembered, so that it fits when it is compiled; and
it is a part of the split's recipe (:mod:`optsched.plugins.inductor.recompute.recipe`), so that it
fits in another process, too.

>>> orders = Earlier[str](most=2)
>>> for key in ("a", "b", "c"):
...     orders.keep(key, key.upper())
>>> with orders.noted() as used:
...     orders.get("a"), orders.get("c")
(None, 'C')
>>> used
{'c': 'C'}
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Earlier(Generic[T]):
    """The latest results by graph.

    `most`: number of results that are kept.
    """

    def __init__(self, most: int) -> None:
        self.most, self.found = most, dict[str, T]()
        self._notes: list[dict[str, T]] = []

    def get(self, key: str) -> T | None:
        """Return the result for a key; None if there is none."""
        if key in self.found:
            self._note(key)
        return self.found.get(key)

    @contextmanager
    def noted(self) -> Iterator[dict[str, T]]:
        """Yield a dictionary of the results that are looked up or kept in the body."""
        used = dict[str, T]()
        self._notes.append(used)
        try:
            yield used
        finally:
            self._notes.pop()

    def keep(self, key: str, result: T) -> None:
        """Keep a result, and drop the oldest one if there are too many."""
        self.found.pop(key, None)
        self.found[key] = result
        self._note(key)
        while len(self.found) > self.most:
            del self.found[next(iter(self.found))]

    def _note(self, key: str) -> None:
        for used in self._notes:
            used[key] = self.found[key]
