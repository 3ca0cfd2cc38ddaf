"""A result in sentences, for people who were not there."""

from __future__ import annotations

from typing import Any

from optsched.reports.view import View
from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import Proof, optimality_gap
from optsched.solver.result import Result

PROOFS = {
    Proof.PACKING: "L1: the live bytes of one step fill the slab, so this order packs no better",
    Proof.BOUND: "L2: an op, or the last or first of a set, forces that many live bytes, whatever "
    "the order",
    Proof.SEARCH: "L3: all orders that might need less were searched, none is left",
    Proof.PACKING_SEARCH: "L4: all packings of this order below were searched, none is left",
    Proof.JOINT: "L5: the slab equals a proved bound on the peak of every order, and no slab is "
    "smaller than the peak",
    Proof.JOINT_SEARCH: "L6: all packings below were searched, in every order, none is left",
}
"""What each kind of proof says; a solver's claim is none."""
_POOLS = (
    "L5: the slabs together equal a proved bound on the sum of the pools' own peaks, in every order"
)
"""What a joint proof says where the sum of several slabs is above the peak of all pools."""


def percent(share: float, unit: str = " %") -> str:
    """Return a share in percent that is 0 only if nothing is there."""
    if share == 0:
        return f"0{unit}"
    return f"{100 * share:.1f}{unit}" if share >= 0.0005 else f"<0.1{unit}"


def summary(result: Result, shown: View) -> str:
    """Return one sentence: what a plan needs, and how far that is from the minimum."""
    pools, what = len(shown.slabs), "packing" if shown.subject.is_packing else "plan"
    where = "in a slab of" if pools < 2 else f"in {pools} slabs, together"
    size = f"{shown.subject.counts} {where} {format_bytes(shown.slab)}"
    gap = optimality_gap(shown.slab, result.slab_bound)
    if gap == 0:
        return f"{size}: no {what} needs less, and that is proved."
    return (
        f"{size}: at most {percent(gap)} of it could be saved, since no {what} at all needs "
        f"less than {format_bytes(result.slab_bound)}."
    )


def verdicts(result: Result, best_peak: int, best_slab: int, *, given: bool = False) -> list[str]:
    """Return one sentence on the peak and one on the slab: the bound, and what proves it.

    Parameters
    ----------
    result
        Of our own solver.
    best_peak, best_slab
        The fewest bytes known, whoever found them.
    given
        Whether live ranges are given, so that no order could change the peak.
    """
    lines = []
    for what, found, value, bound, proof in (
        ("peak", result.peak, best_peak, result.peak_bound, result.peak_proof),
        ("slab", result.slab, best_slab, result.slab_bound, result.slab_proof),
    ):
        minimum = f"{format_bytes(bound)} ({bound:,} bytes)"
        if given and what == "peak":
            lines.append(f"The live ranges are given: at their fullest step {minimum} are live.")
        elif value > bound:
            gap = percent(optimality_gap(value, bound))
            lines.append(
                f"No {what} is below {minimum}: that much is proved. The smallest one found is "
                f"{format_bytes(value)}, so {gap} of it is open."
            )
        elif found == value and proof is not None and proof in PROOFS:
            pooled = proof is Proof.JOINT and bound > result.peak_bound
            lines.append(f"The minimum {what} is {minimum}. {_POOLS if pooled else PROOFS[proof]}.")
        else:
            lines.append(f"The minimum {what} is {minimum}: a plan meets the proven bound.")
    if result.claimed_bound is not None:
        lines.append(
            f"A solver claims a bound of {result.claimed_bound:,} bytes; nobody has checked it."
        )
    return lines


def bottleneck(explained: dict[str, Any], bound: int) -> str:
    """Return what one op says of the bound, and what is left to a search."""
    found = explained["bound"]
    at, op = explained["at"], explained["op"]
    where = f"while op {op} runs" if op is not None else f"at the {at} of every order"
    text = f"At least {format_bytes(found)} ({found:,} bytes) are live {where}, in every order"
    if found < bound:
        return f"{text}. The other {bound - found:,} bytes are what searching the orders adds."
    return f"{text}; that is the bound on the peak."
