"""Plan files of a module: an order and offsets for each of its computations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optsched.check.claims import Unverified, unverified
from optsched.check.module import (
    ModuleChecked,
    check_module_certificate,
    check_module_claims,
    replay_module,
)
from optsched.errors import PlanError, UsageError
from optsched.formats.answers.answer import MODEL, READING, Answer, Proved
from optsched.formats.answers.plain import minimal
from optsched.formats.format import Content, Format, Source
from optsched.formats.opening import read_as
from optsched.model.graph import Graph
from optsched.model.module import Module
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.check.certificate import Certificate
    from optsched.check.replay import Replayed
    from optsched.model.plan import Plan


class ModuleAnswer(Answer):
    """A plan of each computation of a module; called ones have their block in a caller's slab."""

    takes = READING | MODEL | {"--replay"}
    certificate = Content.MODULE_CERTIFICATE
    planned: Module
    plans: dict[str, Plan]
    of_each: dict[str, dict[str, Any]]
    checked: ModuleChecked

    def subject(self) -> None:
        """Read all computations."""
        if isinstance(self.asked.graph, Graph):
            raise UsageError(f"{self.path}: plan of a module; give the module's file as well")
        self.planned = self.asked.module()

    def read(self) -> None:
        """Read the plans, and check them and their claims."""
        module = self.planned
        self.plans, self.of_each = read_as(self.row, self.source, {"module": module})
        # One claim for the whole file: all computations have the same model.
        planned = any(claim["inplace"] for claim in self.of_each.values())
        allowed = any(graph.in_place for graph in module.graphs.values())
        if self.asked.writes_in_place(self.path, planned=planned, allowed=allowed) and not allowed:
            module = module.with_graphs(Graph.with_inplace)
        self.planned, self.claims = module, self.of_each[module.entry]
        checked = self.checked = check_module_claims(module, self.plans, self.of_each)
        names = [module.entry, *(name for name in module.computations if name != module.entry)]
        self.parts = {
            name: (module.with_blocks(name, checked.slabs), self.plans[name]) for name in names
        }
        peak, slab = checked.peaks[module.entry], checked.slabs[module.entry]
        self.record = {"graph": module.name, "peak": peak, "slab": slab}
        self.record["computations"] = {
            name: {"peak": checked.peaks[name], "slab": checked.slabs[name]}
            for name in checked.peaks
        }
        count = counted(len(module.graphs), "computation")
        self.lines = [f"peak {peak:,} bytes, slab {slab:,} bytes in {count}"]

    def replay(self) -> Replayed:
        """Execute the plan of each computation."""
        return replay_module(self.planned, self.plans)

    def unverified(self, proved: Proved | None) -> list[Unverified]:
        """Return bounds that the file claims, of the entry and then of what it calls."""
        bound = 0 if proved is None else proved.of_file
        entry = unverified(self.claims, bound, self.planned.graphs[self.planned.entry])
        others = [name for name in self.of_each if name != self.planned.entry]
        # A certificate has a bound for each computation, but only the entry's is looked at.
        called = [
            Unverified(f"{claim.what} of {name!r}", claim.bound, claim.proof)
            for name in (others if proved is None else ())
            for claim in unverified(self.of_each[name])
        ]
        return [*entry, *called]

    def read_proof(self, row: Format, source: Source) -> dict[str, Certificate]:
        """Return the certificates of a file by computation."""
        found: dict[str, Certificate] = read_as(row, source, {"module": self.planned})
        return found

    def proved(self, certificate: Mapping[str, Certificate]) -> Proved:
        """Check the certificates of all computations."""
        bound = check_module_certificate(self.planned, certificate)[self.planned.entry]
        peak = self.record["peak"]
        if bound > peak:
            raise PlanError(f"bound {bound} is above the peak {peak} of orders")
        words = f"proved: no orders below {bound:,} bytes, {minimal(self.record, bound)}"
        return Proved(bound, words, covers=True, of_file=bound)
