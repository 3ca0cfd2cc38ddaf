"""Joint graphs that are compiled with a peak, as the passes for their two graphs see them.

Both graphs are compiled in the tracing context of the joint graph: the partitioner sets the region
there, and the passes that are called later find it.

This module does not import torch at its top, as cached modules import it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol


class Watch(Protocol):
    """Observer of the calls of regions."""

    def note_compiled(self) -> None:
        """Leave out the present step, in which a graph is compiled."""

    def call(self, region: str, is_backward: bool, planned: int, run: Callable[[], Any]) -> Any:
        """Run a call of a graph as a part of the step."""


@dataclass(frozen=True)
class Region:
    """A joint graph that is compiled with a peak.

    Parameters
    ----------
    key
        Its digest.
    watch
        Observer of its calls; None if they are not observed.
    limits
        Bytes that its forward and its backward graph may need; None for the plugin's setting.
    expected
        Bytes of inputs that the limit of the backward graph expects its call to own. A call that
        owns others may need as many more or fewer.
    owned
        Inputs that a backward call was seen to own; found when the backward graph is compiled.
    plan
        Digest of all that decides how its graphs are compiled, for the keys of PyTorch's cache of
        graphs; empty if that is not known.
    """

    key: str = ""
    watch: Watch | None = None
    limits: tuple[int, int] | None = None
    expected: int | None = None
    owned: set[str] = field(default_factory=set)
    plan: str = ""


_regions: weakref.WeakKeyDictionary[Any, Region] = weakref.WeakKeyDictionary()
"""By tracing context."""


def set_region(region: Region) -> None:
    """Set the region of the joint graph that is compiled now."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    if context is not None:
        _regions[context] = region


def current_region() -> Region | None:
    """Return the region of the graph that is compiled or loaded now."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    return None if context is None else _regions.get(context)
