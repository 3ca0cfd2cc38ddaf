"""The best plan and the claimed bound of a run of CP-SAT, while its models are solved.

Every plan is checked before it counts. A claim that a checked plan refutes is dropped at the end,
with all other claims of the run.

Example: plans of 14 and 12 bytes are offered, and the bound 13 is claimed. The second plan refutes
it, so that the outcome has the plan of 12 bytes and the bound that was proved before.
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.check.plan import check_plan
from optsched.errors import PlanError
from optsched.joint.claims import refutation, report
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Event, Objective, OnEvent, StopReason


@dataclass(frozen=True, slots=True)
class CpSatOutcome:
    """The best plan, and CP-SAT's claim about all other plans."""

    value: int | None
    """Value of the objective (slab or peak) in bytes, or None without a plan."""
    bound: int
    """Claimed lower bound in bytes: at least the bound passed in, and above the capacity if CP-SAT
    reports that no plan fits.
    """
    stop_reason: StopReason
    """EXHAUSTED: CP-SAT reports that its search is complete. DECIDED: a plan fits the capacity."""
    plan: Plan | None = None
    """Order and offsets, or None."""
    refuted: str = ""
    """Line that says which claim was refuted and dropped, or an empty string."""

    @property
    def optimal(self) -> bool:
        """Return True if the plan is claimed to be optimal: its value equals the bound."""
        return self.value is not None and self.value <= self.bound

    @property
    def infeasible(self) -> bool:
        """Return True if it is claimed that no plan satisfies the pins or the capacity."""
        return self.value is None and self.stop_reason is StopReason.EXHAUSTED


class Incumbent:
    """The best plan and the claimed bound, in bytes.

    `graph`, `objective`, `capacity`, `clock`, `on_event`: as for
    :func:`optsched.joint.cpsat.solve_joint`. `warm_start`: plan to start from, or None. `bound`:
    proved lower bound.
    """

    def __init__(
        self,
        graph: Graph,
        objective: Objective,
        capacity: int | None,
        clock: Clock,
        on_event: OnEvent | None,
        warm_start: Plan | None,
        bound: int,
    ) -> None:
        self.graph, self.is_slab, self.capacity = graph, objective is Objective.SLAB, capacity
        self.clock, self.on_event = clock, on_event
        self.proved = self.bound = bound
        self.plan = warm_start
        # A warm start counts even if it exceeds the capacity.
        self.value = None if warm_start is None else self._measured(warm_start)
        self.refuted = ""

    def offer(self, plan: Plan) -> None:
        """Check a plan, and keep it if it is better and fits the capacity.

        Raise `PlanError` if the plan is wrong.
        """
        value = self._measured(plan)
        # Only plans that answer the question count as a value.
        if self.capacity is not None and value > self.capacity:
            return
        if self.value is None or value < self.value:
            self.plan, self.value = plan, value
            self._tell()

    def offer_claimed(self, plan: Plan, found: int) -> None:
        """Check a plan that CP-SAT claims; a wrong one is reported in one line and dropped."""
        # Only better plans are worth the check.
        if self.value is not None and found >= self.value:
            return
        try:
            self.offer(plan)
        except PlanError as error:
            self.refuted = report(f"cpsat: claimed a plan of {found:,} bytes, refuted: {error}")

    def raise_bound(self, bound: int) -> None:
        """Keep a claimed bound if it is higher."""
        if bound > self.bound:
            self.bound = bound
            self._tell()

    def fits(self) -> bool:
        """Return True if a capacity is asked for and met."""
        if self.capacity is None or self.value is None:
            return False
        return self.value <= self.capacity

    def is_settled(self) -> bool:
        """Return True if nothing is left to search."""
        if self.capacity is not None and self.bound > self.capacity:
            return True
        return self.fits() or (self.value is not None and self.value <= self.bound)

    def settled(self) -> StopReason:
        """Return the stop reason of a search that is settled."""
        return StopReason.DECIDED if self.fits() else StopReason.EXHAUSTED

    def outcome(self, reason: StopReason) -> CpSatOutcome:
        """Return the outcome, without claims if one of them is refuted."""
        line = self.refuted or refutation("cpsat", self.bound, self.value)
        # The line of a refuted plan was reported when it was refuted.
        if line and not self.refuted:
            report(line)
        # With one wrong claim, no other claim of this run can be kept.
        bound = self.proved if line else self.bound
        return CpSatOutcome(self.value, bound, reason, self.plan, line)

    def _measured(self, plan: Plan) -> int:
        checked = check_plan(self.graph, plan)
        return checked.slab if self.is_slab else checked.peak

    def _tell(self) -> None:
        if self.on_event is not None:
            self.on_event(Event(self.clock.seconds(), self.value, self.bound, "cpsat"))
