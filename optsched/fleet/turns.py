"""Buffer that returns results in the order in which their tasks were started."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

MOST_HELD = 256
"""Maximum number of results held; beyond it, no more tasks should start."""

_Thing = TypeVar("_Thing")


class Turns(Generic[_Thing]):
    """Reorders results of tasks that finish out of order.

    >>> turns = Turns[str]()
    >>> for number in (5, 3):
    ...     turns.begin(number)
    >>> list(turns.end(3, "second"))
    []
    >>> list(turns.end(5, "first"))
    ['first', 'second']
    """

    def __init__(self) -> None:
        self._begun: deque[int] = deque()
        self._held: dict[int, _Thing] = {}

    @property
    def has_room(self) -> bool:
        """True if another task may start; few results are held then."""
        return len(self._held) < MOST_HELD

    def begin(self, number: int) -> None:
        """Register the start of a task; once, even if it is tried several times."""
        self._begun.append(number)

    def end(self, number: int, thing: _Thing) -> Iterator[_Thing]:
        """Register a task's result, and yield all results whose turn has come."""
        self._held[number] = thing
        # The task begun first must end first; results that came early wait here.
        while self._begun and self._begun[0] in self._held:
            yield self._held.pop(self._begun.popleft())
