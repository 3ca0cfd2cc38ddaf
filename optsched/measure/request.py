"""A model to measure, with its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optsched.model.graph import Graph
from optsched.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Request:
    """A model to run in its runtime.

    Parameters
    ----------
    path
        Path of the model.
    graph
        Graph of the model in the memory model of the plan.
    plan
        A checked plan of the graph; without one, the model runs only as it is.
    written
        Path of the model's file with a plan in it, such as a tiled one, instead of `plan`.
    options
        Options with which the graph was read.
    own
        Bytes of the slab that the framework plans on its own; None if they are unknown.
    """

    path: str
    graph: Graph
    plan: Plan | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    written: str = ""
    own: int | None = None

    @property
    def profile(self) -> str | None:
        """Path of the profile that the graph was read with."""
        found: str | None = self.options.get("profile")
        return found
