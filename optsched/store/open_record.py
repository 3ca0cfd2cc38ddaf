"""A record while it is changed: which plan gives way, which bounds count, and its history.

It is read once, when it is opened. The process that changes it holds the transaction, so no other
process can.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from optsched.errors import FormatError, PlanError, UsageError
from optsched.formats.fields import Record
from optsched.model.elements import MAX_TOTAL_BYTES
from optsched.runtime.limits import Objective, Proof
from optsched.store import rows
from optsched.store.prepared import PreparedPlan
from optsched.store.question import Bound
from optsched.store.translate import unpack_bytes


class OpenRecord:
    """A record within a transaction.

    `connection`, `number`: connection to the store, and number of the record.
    """

    def __init__(self, connection: sqlite3.Connection, number: int) -> None:
        self.connection, self.number = connection, number
        query = "SELECT peak, slab FROM records WHERE id = ? AND plan IS NOT NULL"
        self.reached: tuple[int, int] | None = connection.execute(query, (number,)).fetchone()
        self.bounds = list(rows.bounds_of(connection, number))

    def keep_plan(self, plan: PreparedPlan, objective: Objective, origin: str) -> bool:
        """Keep a plan if it is better than the stored one; return True if it was kept."""
        new = plan.peak, plan.slab
        if self.reached is not None and not _is_better(new, self.reached, objective):
            return False
        self.reached = new
        # The checker passed this plan, so bounds above it are wrong, whoever proved them.
        self._withdraw_above()
        change = self._add_history("plan", peak=plan.peak, slab=plan.slab)
        self.connection.execute(
            "UPDATE records SET plan = ?, peak = ?, slab = ?, provenance = ?, change = ?"
            " WHERE id = ?",
            (*plan, origin, change, self.number),
        )
        return True

    def raise_bound(self, bound: Bound, certificate: bytes | None = None) -> bool:
        """Add a bound if it improves on the stored ones; return True if it was added.

        Raise `PlanError` if it is above the plan that is kept.
        """
        named = not bound.proof or bound.proof in list(Proof)
        if not 0 <= bound.value <= MAX_TOTAL_BYTES or not named:
            raise UsageError(f"{bound.value} bytes by proof {bound.proof!r} is no bound")
        # Refused rather than stored: either this bound or that plan is wrong, and the plan was
        # checked.
        if self.reached is not None and bound.value > self._reached(bound.quantity):
            raise PlanError(
                f"bound of {bound.value} bytes on the {bound.quantity} is above the "
                f"{self._reached(bound.quantity)} of a plan"
            )
        # Every plan needs 0 bytes or more.
        if bound.value == 0 or any(_says_as_much(known, bound) for known in self.bounds):
            return False
        rows.add_bound(self.connection, self.number, bound, certificate)
        self.bounds.append(bound)
        about = {"quantity": bound.quantity.value, "value": bound.value, "proof": bound.proof}
        self._note("certificate" if bound.certified else "bound", **about)
        return True

    def keep_search(self, packed: bytes | None, origin: Mapping[str, Any], units: int) -> None:
        """Replace the stored state of a search; None deletes it.

        A state of the same code after more units of work is kept: another process is ahead.
        """
        if packed is not None and self._units_behind(origin) > units:
            return
        self.connection.execute("DELETE FROM searches WHERE record = ?", (self.number,))
        if packed is not None:
            row = self.number, packed, rows.provenance_text({**origin, "units": units})
            self.connection.execute("INSERT INTO searches VALUES (?, ?, ?)", row)

    def _units_behind(self, origin: Mapping[str, Any]) -> int:
        """Return the units of work of the stored state; 0 if damaged or of another version."""
        query = "SELECT state, provenance FROM searches WHERE record = ?"
        row = self.connection.execute(query, (self.number,)).fetchone()
        with suppress(FormatError):
            known = rows.read_provenance(row[1]) if row else {}
            # Units of other code are of other searches, and cannot be compared.
            if "code" in origin and known.get("code") == origin["code"]:
                # Only to see whether it is intact.
                unpack_bytes(row[0])
                return Record(known, "provenance").count("units", 0)
        return 0

    def withdraw(self, is_meant: Callable[[Bound], bool], why: str) -> list[Bound]:
        """Withdraw the bounds for which a condition holds; return them."""
        if not any(map(is_meant, self.bounds)):
            return []
        found = rows.withdraw(self.connection, self.number, is_meant, why)
        for bound in found:
            self._note("withdrawn", quantity=bound.quantity.value, value=bound.value, why=why)
        self.bounds = list(rows.bounds_of(self.connection, self.number))
        return found

    def _withdraw_above(self) -> None:
        """Withdraw bounds that the plan shows to be wrong: the checker passed it."""
        peak, slab = self.reached or (0, 0)
        why = f"a plan has a peak of {peak} bytes and a slab of {slab}"
        wrong = self.withdraw(lambda bound: bound.value > self._reached(bound.quantity), why)
        # Claimed bounds that fall show nothing about a search.
        if any(bound.counts for bound in wrong):
            # What a search left may rest on the same error.
            self.keep_search(None, {}, 0)

    def _reached(self, quantity: Objective) -> int:
        """Bytes of the plan that is kept."""
        assert self.reached is not None
        return self.reached[0 if quantity is Objective.PEAK else 1]

    def _note(self, what: str, **detail: Any) -> None:
        """Add to the history, and mark the record's answer as changed."""
        change = self._add_history(what, **detail)
        query = "UPDATE records SET change = ? WHERE id = ?"
        self.connection.execute(query, (change, self.number))

    def _add_history(self, what: str, **detail: Any) -> int:
        return rows.add_history(self.connection, self.number, what, detail)


def _is_better(new: tuple[int, int], known: tuple[int, int], objective: Objective) -> bool:
    """Return True if a peak and a slab are better than others, the objective first."""
    if objective is Objective.SLAB:
        new, known = new[::-1], known[::-1]
    return new < known


def _says_as_much(known: Bound, bound: Bound) -> bool:
    """Return True if a stored bound makes another one superfluous."""
    if known.quantity is not bound.quantity or known.withdrawn or known.value < bound.value:
        return False
    if bound.certified or not bound.counts:
        # A certificate replaces a mere proof of the same value; nothing replaces a certificate.
        return known.certified if bound.certified else True
    if not known.certified and known.made_by != bound.made_by:
        # Proofs of the other versions may be withdrawn, and are not believed by all.
        return False
    return known.counts and (known.value > bound.value or bool(known.proof) or not bound.proof)
