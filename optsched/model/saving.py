"""A saving: bytes before and after planning, and whether less is possible.

For example, let TFLite Micro's planner need an arena of 663,552 bytes, and let a plan need 454,656,
which is proved to be the minimum. Then the saving reads::

    arena 663,552 -> 454,656 bytes (-31 %) against TFLite Micro's own planner;
    smallest possible, proved
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from optsched.runtime.limits import Objective
from optsched.runtime.text import most_less


@dataclass(frozen=True, slots=True)
class Saving:
    """Bytes before and after planning."""

    quantity: Objective
    """`peak` or `slab`: the quantity compared."""
    noun: str
    """Word for it in sentences, such as "arena"."""
    before: int | None
    """Bytes that the framework's own method needs; None if it is unknown for this file."""
    after: int | None
    """Bytes of the plan; None without a plan."""
    bound: int | None = None
    """Proved lower bound, in bytes, on `after`; None if nothing is known of it."""
    against: str = ""
    """The framework's method, in words; empty if `before` is None."""
    method: str = ""
    """Name of that method for `compare`."""
    among: str = ""
    """Plans that the bound is about, in words; empty if they are all of the graph's."""
    planned: int | None = None
    """Bytes that the plan itself has, if the other figures are measured: what a runtime holds
    beside them, such as scratch of kernels, is in no plan. None if `after` is that of the plan."""
    unmeasured: str = ""
    """Reason why `after` is not known although there is a plan; empty if it is, or without one."""

    @property
    def saved(self) -> int | None:
        """Bytes saved, negative if the plan needs more; None if one side is unknown."""
        return None if self.before is None or self.after is None else self.before - self.after

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, ready for JSON."""
        return {**asdict(self), "quantity": self.quantity.value, "saved": self.saved}

    def __str__(self) -> str:
        reason = self.unmeasured and f"with the plan not measured ({self.unmeasured})"
        return "; ".join(part for part in (self._change(), reason, self.verdict) if part)

    def _change(self) -> str:
        if self.before is None:
            return (
                f"{self.noun}: no plan found"
                if self.after is None
                else f"{self.noun} {self.after:,} bytes"
            )
        if self.after is None:
            return f"{self.noun} {self.before:,} bytes with {self.against}"
        if self.before == self.after:
            return f"{self.noun} {self.after:,} bytes, as with {self.against}"
        share = change(self.before, self.after)
        return (
            f"{self.noun} {self.before:,} -> {self.after:,} bytes ({share}) against {self.against}"
        )

    @property
    def verdict(self) -> str:
        """Return whether less is possible, in words; empty if nothing is known.

        Without a plan, this is about the framework's own. A bound is about bytes of plans, which
        are named if others were measured.
        """
        among = f" among {self.among}" if self.among else ""
        value = self.before if self.after is None else self.after
        named = ""
        if self.planned is not None:
            named = "" if self.planned == self.after else f"planned {self.planned:,} bytes"
            value = self.planned
        if value is None or self.bound is None:
            return named
        named = named and f"{named}, "
        if value <= self.bound:
            return f"{named}smallest possible{among}, proved"
        return f"{named}at most {most_less(value, self.bound)} less is possible{among}"


def change(before: int, after: int) -> str:
    """Return a change of bytes in percent with its sign, such as "-31 %"; only 0 is shown as 0.

    Examples
    --------
    >>> change(100, 69), change(10**6, 10**6 - 1), change(10**6, 1), change(0, 5)
    ('-31 %', '-<0.1 %', '-99.9 %', '+inf %')
    """
    if before == after:
        return "0 %"
    share = 100 * (after - before) / before if before else float("inf")
    if abs(share) < 0.05:
        return "-<0.1 %" if share < 0 else "+<0.1 %"
    if share < -99 and after:
        # Not rounded to a hundred: something is left.
        return f"{max(share, -99.9):+.1f} %"
    return f"{share:+,.{0 if abs(share) >= 10 else 1}f} %"
