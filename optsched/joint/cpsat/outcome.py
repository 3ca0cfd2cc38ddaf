"""What comes back from CP-SAT, told from integers and never from its status."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from optsched.model.plan import Plan


class Stop(StrEnum):
    """Why the search ended."""

    CLAIMED = "claimed"
    """CP-SAT says that nothing better exists, or that the capacity was met."""
    INFEASIBLE = "claimed infeasible"
    """CP-SAT says that no plan obeys the pins, or fits in the capacity."""
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class CpSatOutcome:
    """The best plan and what CP-SAT claims about all others; nothing here is a proof.

    Parameters
    ----------
    value
        Bytes of the objective (slab, or peak), or None without a plan.
    bound
        CP-SAT says that no plan has fewer bytes; at least the bound it was given.
    stop
        Why the search ended.
    order
        Op ids by step; None without a plan.
    offsets
        Of a packing, by position in its problem: first byte of each buffer.
    plan
        Order and offsets of a graph, if both were chosen.
    tie_value, tie_bound
        The second objective among plans of this value (the peak, where the slab is the first) and
        the claimed bound on it.
    improved
        Whether it is better than the warm start.
    seconds
        Wall-clock time.
    """

    value: int | None
    bound: int
    stop: Stop
    order: tuple[int, ...] | None = None
    offsets: tuple[int, ...] | None = None
    plan: Plan | None = None
    tie_value: int | None = None
    tie_bound: int = 0
    improved: bool = False
    seconds: float = 0.0

    @property
    def optimal(self) -> bool:
        """Whether the plan is claimed to be optimal: its value meets the bound."""
        return self.value is not None and self.value <= self.bound

    @property
    def infeasible(self) -> bool:
        """Whether it is claimed that no plan exists, or none within the capacity."""
        return self.stop is Stop.INFEASIBLE
