"""A second opinion on a claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from optsched.joint.cpsat.cuts import NO_CUTS
from optsched.joint.cpsat.outcome import CpSatOutcome
from optsched.joint.cpsat.solver import SECOND
from optsched.runtime.limits import Limits


class Verdict(StrEnum):
    """What a second opinion says of a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A second opinion, and the better answer if it refutes the claim."""

    verdict: Verdict
    outcome: CpSatOutcome


def confirm(
    form: Callable[..., CpSatOutcome], claim: CpSatOutcome, *, limits: Limits
) -> Confirmation:
    """Ask again whether anything lies below a claimed bound, as differently as can be.

    No presolve, no symmetries, no cuts, no bounds of ours, no warm start, and a decision in place
    of an objective. Two configurations that agree are still no proof.

    Parameters
    ----------
    form
        What made the claim: `partial(solve_joint, graph)`, say.
    claim
        Its answer.
    limits
        Of the second run.

    Examples
    --------
    >>> from functools import partial
    >>> from optsched.joint.cpsat import solve_joint
    >>> from optsched.model.builder import GraphBuilder
    >>> build = GraphBuilder()
    >>> build.op("a", writes={"x": 4})
    >>> form = partial(solve_joint, build.build())
    >>> confirm(form, form(), limits=Limits(10)).verdict
    <Verdict.CONFIRMED: 'confirmed'>
    """
    below = form(capacity=claim.bound - 1, limits=limits, cuts=NO_CUTS, settings=SECOND)
    if below.infeasible:
        return Confirmation(Verdict.CONFIRMED, below)
    found = below.value is not None and below.value < claim.bound
    return Confirmation(Verdict.REFUTED if found else Verdict.OPEN, below)
