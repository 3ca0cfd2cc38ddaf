"""Status of a result, derived from its numbers, and these numbers in a few words."""

from __future__ import annotations

from enum import StrEnum

from optsched.runtime.limits import Proof


class Status(StrEnum):
    """State of knowledge at the end of a search; derived from the numbers of its result.

    Examples
    --------
    >>> from optsched import PackingProblem, Status, pack
    >>> problem = PackingProblem(size=[8, 4], start=[0, 2], end=[4, 6])
    >>> pack(problem).status is Status.OPTIMAL
    True
    >>> pack(problem, capacity=11).status is Status.INFEASIBLE
    True
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


def judge(
    value: int | None, bound: int, *, refuted: bool = False, proved: bool | None = None
) -> Status:
    """Return the status of a result.

    `value`: quantity that was minimized; None without an answer. `bound`: lower bound on it.
    `refuted`: True if no answer can satisfy the request. `proved`: True if the answer is proved
    optimal (default: if it meets the bound).
    """
    if refuted:
        return Status.INFEASIBLE
    if value is None:
        return Status.UNKNOWN
    is_best = value <= bound if proved is None else proved
    return Status.OPTIMAL if is_best else Status.FEASIBLE


def short(what: str, value: int | None, bound: int, proof: Proof | str | None) -> str:
    """Return a value and its proof, or its lower bound, for a line in an interpreter."""
    if value is not None and proof:
        return f"{what} {value:,} " + (f"by {proof.words}" if isinstance(proof, Proof) else proof)
    return f"{what} {value} >= {bound}"
