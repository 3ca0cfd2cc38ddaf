"""What was begun in some order ends in that order, however long each of it takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

MOST_HELD = 256
"""Things that wait for one begun before them; beyond that nothing more should begin."""

_Thing = TypeVar("_Thing")


class Turns(Generic[_Thing]):
    """Holds what ends before something that was begun earlier.

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
        """Whether more may begin, so that what waits stays little."""
        return len(self._held) < MOST_HELD

    def begin(self, number: int) -> None:
        """Begin something; once, though it may be tried more often."""
        self._begun.append(number)

    def end(self, number: int, thing: _Thing) -> Iterator[_Thing]:
        """End it, and yield all that has its turn by that."""
        self._held[number] = thing
        while self._begun and self._begun[0] in self._held:
            yield self._held.pop(self._begun.popleft())
