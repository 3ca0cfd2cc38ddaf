"""Origin of a graph: the format of its file, and what the file says beside the graph.

The origin decides which framework's own plan a saving is measured against, and its orders are among
those that the solver packs first. It stays with a graph while memory model and order rules are
applied, and has no effect on bounds or digests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Origin:
    """The format and the recorded orders of the file that a graph was read from.

    Parameters
    ----------
    format
        Name of the format, a key of :data:`optsched.formats.FORMATS`.
    orders
        Op ids, first to run first, by the name of the order.
    trouble
        Message of the error in the recorded orders; empty if they could be read. The graph itself
        is intact, and can be planned.
    held
        Bytes that the framework holds for the file as it is, by the name of the graph's memory
        model in which they are counted; empty if the format's rules do not tell.

    Examples
    --------
    >>> from optsched import Graph, Op
    >>> from optsched.model.origin import Origin
    >>> graph = Graph("pair", (Op("a"), Op("b")), origin=Origin("tflite", {"tflm": (0, 1)}))
    >>> graph.origin.orders["tflm"]
    (0, 1)
    """

    format: str
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    trouble: str = ""
    held: Mapping[str, int] = field(default_factory=dict)
