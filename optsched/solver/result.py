"""What a solver returns: the plan it found, the bounds it proved, and why it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.runtime.limits import Event, Limits, Objective, OnEvent, Proof, StopReason


class Status(StrEnum):
    """What is known at the end; derived from the numbers of a :class:`Result`."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Result:
    """A solver's answer; `status` is derived, so that it can not contradict the numbers.

    Parameters
    ----------
    plan
        The best plan found, checked; or None.
    peak, slab
        Bytes of that plan, of all pools together; None without one.
    peak_bound, slab_bound
        No plan at all has a smaller peak or slab.
    peak_proof, slab_proof
        What stands behind the value when it meets its bound; None while it does not.
    objective
        What was to be least.
    stop_reason
        Why the search ended.
    capacity
        Bytes the slab had to fit in, if that was the question.
    claimed_bound
        A bound on the objective with only a solver's word behind it, above the proved one.
    runtime
        Seconds.
    trace
        Incumbent and bound as they moved.
    order_search
        What the exact search for an order did, by rule; empty where none was needed.
    """

    plan: Plan | None
    peak: int | None
    slab: int | None
    peak_bound: int
    slab_bound: int
    peak_proof: Proof | None
    slab_proof: Proof | None
    objective: Objective
    stop_reason: StopReason
    capacity: int | None = None
    claimed_bound: int | None = None
    runtime: float = 0.0
    trace: tuple[Event, ...] = field(default=(), repr=False)
    order_search: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def status(self) -> Status:
        """Optimal only if the objective asked for is proved; a claim is not a proof."""
        if self.capacity is not None and self.slab_bound > self.capacity:
            return Status.INFEASIBLE
        value = self.slab if self.objective is Objective.SLAB else self.peak
        bound = self.slab_bound if self.objective is Objective.SLAB else self.peak_bound
        proof = self.slab_proof if self.objective is Objective.SLAB else self.peak_proof
        if value is None:
            return Status.UNKNOWN
        if value == bound and proof not in (None, Proof.CLAIMED):
            return Status.OPTIMAL
        return Status.FEASIBLE


class Solver(Protocol):
    """What every exact engine looks like from the pipeline."""

    def solve(
        self,
        graph: Graph,
        *,
        limits: Limits,
        warm_start: Plan | None = None,
        on_event: OnEvent | None = None,
    ) -> Result:
        """Return the best plan and bounds within the limits."""
        ...
