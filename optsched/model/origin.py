"""Origin of a graph: the format of its file, and what the file says beside the graph.

The origin decides which framework's own plan a saving is measured against, and its orders are among
those that the solver packs first. It stays with a graph while memory model and order rules are
applied, and has no effect on bounds or digests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from optsched.runtime.bytes import round_up


@dataclass(frozen=True, slots=True)
class ArenaTail:
    """Bytes that a runtime keeps in the array of the slab, after it: the tail of its arena.

    Examples
    --------
    >>> ArenaTail(4, 700, 1000).needed(64), ArenaTail(4, 700, 1000).needed(640)
    (1008, 1344)
    """

    pointer: int
    """Bytes of a pointer in the builds of the runtime that are meant."""
    tail: int
    """Bytes that stay."""
    prepared: int
    """Bytes of an array that is enough while the runtime prepares the model, of any slab."""
    unknown: tuple[str, ...] = ()
    """Kinds of ops for which the runtime may keep bytes that are not counted."""
    alignment: int = 16
    """Number of bytes that divides the size of the array."""

    def needed(self, head: int) -> int:
        """Return the bytes of an array that is enough for a slab of `head` bytes."""
        return round_up(max(head + self.tail, self.prepared), self.alignment)


@dataclass(frozen=True, slots=True)
class Origin:
    """The format and the recorded orders of the file that a graph was read from.

    Examples
    --------
    >>> from optsched import Graph, Op
    >>> from optsched.model.origin import Origin
    >>> graph = Graph("pair", (Op("a"), Op("b")), origin=Origin("tflite", {"tflm": (0, 1)}))
    >>> graph.origin.orders["tflm"]
    (0, 1)
    """

    format: str
    """Name of the format, a key of :data:`optsched.formats.FORMATS`."""
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Op ids, first to run first, by the name of the order."""
    trouble: str = ""
    """Message of the error in the recorded orders; empty if they could be read. The graph itself is
    intact, and can be planned."""
    held: Mapping[str, int] = field(default_factory=dict)
    """Bytes that the framework holds for the file as it is, by the name of the graph's memory model
    in which they are counted; empty if the format's rules do not tell."""
    tails: tuple[ArenaTail, ...] = ()
    """Bytes that the framework keeps after the slab, by size of pointers; empty for a framework
    that has the slab to itself."""
    file: str = ""
    """Path of the file; empty if it was read from a pipe."""
