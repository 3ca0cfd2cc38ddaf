"""Results of planning a module: one of each computation, and those of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optsched.model.module import Module
from optsched.model.plan import Plan, Planned
from optsched.runtime.shown import Shown
from optsched.runtime.text import counted
from optsched.solver.result import Result
from optsched.solver.status import Status


@dataclass(frozen=True, slots=True)
class ModuleResult(Shown):
    """A plan of each computation, and what is proved about the whole module.

    Parameters
    ----------
    module
        The planned module.
    results
        By computation, callees first. Bytes and bounds are those of the computation with all that
        it calls; its plan is of the graph that has the blocks, `result.graph`.
    runtime
        Seconds.

    Examples
    --------
    >>> from optsched import Call, GraphBuilder, Module, solve_module
    >>> body, main = GraphBuilder("body"), GraphBuilder("main")
    >>> body.op("step", workspace=40)
    >>> main.op("while", writes={"y": 8})
    >>> graphs = {"body": body.build(), "main": main.build()}
    >>> module = Module("loop", graphs, "main", (Call("main", "while", ("body",)),))
    >>> result = solve_module(module)
    >>> result.status.value, result.entry.slab, result.peak_bounds
    ('optimal', 48, {'body': 40, 'main': 48})
    """

    module: Module
    results: Mapping[str, Result]
    runtime: float = 0.0

    @property
    def entry(self) -> Result:
        """Result of the entry computation, which holds for the whole module."""
        return self.results[self.module.entry]

    @property
    def graph_and_plan(self) -> Planned:
        """Graph and plan of the entry, with the blocks that its calls need."""
        return self.entry.graph_and_plan

    @property
    def status(self) -> Status:
        """Of the whole, derived from its numbers."""
        return self.entry.status

    @property
    def plans(self) -> dict[str, Plan] | None:
        """The plans by computation; None where one is missing or there are only orders."""
        found = {name: result.plan for name, result in self.results.items()}
        plans = {name: plan for name, plan in found.items() if plan is not None}
        return plans if len(plans) == len(found) and not self.module.results_inside else None

    @property
    def orders(self) -> dict[str, tuple[int, ...]]:
        """Op ids by computation, first to run first, of those that have a plan."""
        return {name: x.plan.order for name, x in self.results.items() if x.plan is not None}

    @property
    def peak_bounds(self) -> dict[str, int]:
        """By computation: no orders have less live bytes, those of what it calls included."""
        return {name: result.peak_bound for name, result in self.results.items()}

    @property
    def covers_interleaving(self) -> bool:
        """True if no smaller slab exists, even if a callee may fill gaps of its caller.

        This is proved if the slab equals the bound on live bytes, which holds for every layout.
        """
        return self.entry.slab is not None and self.entry.slab == self.entry.peak_bound

    @property
    def restriction(self) -> str:
        """The layouts that the bound on the slab is about, in words; empty if they are all."""
        return "" if self.covers_interleaving else self.module.layouts

    def __repr__(self) -> str:
        computations = counted(len(self.results), "computation")
        return f"ModuleResult({self.module.name!r}, {computations}, {self.entry})"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain numbers and text, ready for JSON."""
        whole = {**self.entry.to_dict(), "graph": self.module.name, "runtime": self.runtime}
        parts = {name: result.to_dict() for name, result in self.results.items()}
        for part in (whole, *(parts.values() if self.module.results_inside else ())):
            for key in ("order", "offsets") if part is whole else ("offsets",):
                part.pop(key, None)
        extra = {"entry": self.module.entry, "covers_interleaving": self.covers_interleaving}
        return {**whole, **extra, "computations": parts}
