"""Findings: the plans, orders and bounds that a stage of a search yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from optsched.model.steps import Order
from optsched.runtime.limits import Objective, Proof

if TYPE_CHECKING:
    from optsched.solver.packing_result import PackingResult

PlanType = TypeVar("PlanType")
MOVED = "moved"
"""Number of ops of the baseline that a plan moves, as the quantity of a bound."""
SPILLED = "spilled"
"""Bytes of the buffers in a later pool than their own, as the quantity of a bound."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound: no plan that the question allows has fewer bytes."""

    quantity: str
    """Quantity that is bounded: an :class:`Objective`, :data:`MOVED` or :data:`SPILLED`."""
    value: int
    """Bytes; for moves, ops of the baseline."""
    proof: Proof
    """Kind of proof; a CLAIMED bound is a solver's word and closes nothing."""

    @property
    def rank(self) -> tuple[int, bool]:
        """Key by which bounds on one quantity compare; of equal ones a joint bound says more."""
        return self.value, self.proof is Proof.JOINT


@dataclass(frozen=True, slots=True)
class Finding(Generic[PlanType]):
    """Results of a stage; any part may be empty."""

    source: str
    """Name of the heuristic, bound or engine, for progress reports."""
    plans: tuple[PlanType, ...] = ()
    """Plans, or offsets of a packing problem. The checker sees each one."""
    orders: tuple[Order, ...] = ()
    """Orders worth packing."""
    bounds: tuple[Bound, ...] = ()
    """Lower bounds, proved or claimed."""
    more: bool = False
    """True if the stage could find more, given more time."""
    trial: bool = False
    """True for plans of heuristics, which users may add: a wrong one is logged and dropped."""
    statistics: Mapping[str, int] = field(default_factory=dict)
    """Counters of the engine by name."""
    packing: PackingResult | None = None
    """Packing in pools of the order of the plan, or of an order that has no plan."""


def peak_bound(value: int, proof: Proof | None = None) -> tuple[Bound, ...]:
    """Return a bound on the peak of all orders, proved by search unless another proof is given."""
    return (Bound(Objective.PEAK, value, proof or Proof.SEARCH),)


def slab_bound(value: int, proof: Proof = Proof.JOINT_SEARCH) -> tuple[Bound, ...]:
    """Return a bound on the slab of all plans, by default one from a search through all orders."""
    return (Bound(Objective.SLAB, value, proof),)
