"""A model to measure, with its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optsched.model.graph import Graph
from optsched.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Request:
    """A model to run in its runtime."""

    path: str
    """Path of the model."""
    graph: Graph
    """Graph of the model in the memory model of the plan."""
    plan: Plan | None = None
    """A checked plan of the graph; without one, the model runs only as it is."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options with which the graph was read."""
    written: str = ""
    """Path of the model's file with a plan in it, such as a tiled one, instead of `plan`."""
    own: int | None = None
    """Bytes of the slab that the framework plans on its own; None if they are unknown."""

    @property
    def profile(self) -> str | None:
        """Path of the profile that the graph was read with."""
        found: str | None = self.options.get("profile")
        return found
