"""Savings of stored plans, against the framework's own bytes that were recorded with them.

A store keeps graphs without the order that a framework chose, so the bytes before planning are
written into the provenance of a plan when it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from optsched.errors import FormatError
from optsched.formats.fields import Record
from optsched.model.saving import Saving
from optsched.runtime.limits import Objective
from optsched.runtime.text import readable
from optsched.store.question import StoredRecord, objective_bound

OWN_PLAN: Final = "own_plan"
"""Key of a provenance."""


def own_plan(found: Saving) -> dict[str, Any]:
    """Return the provenance fields that tell what a framework holds on its own; none if unknown."""
    if found.before is None:
        return {}
    names = {"noun": found.noun, "against": found.against, "method": found.method}
    facts = {"quantity": found.quantity.value, "before": found.before, **names}
    # Measured bytes are compared with measured ones.
    if found.planned is not None:
        facts |= {"among": found.among} | ({} if found.after is None else {"held": found.after})
    return {OWN_PLAN: facts}


def record_savings(records: Iterable[StoredRecord]) -> list[Saving]:
    """Return the savings of records with a plan whose provenance tells the bytes before."""
    found = []
    for record in records:
        # Provenance of imported stores may be anything.
        with suppress(FormatError, ValueError):
            if record.value is not None and OWN_PLAN in record.provenance:
                found.append(_saving(record, Record(record.provenance[OWN_PLAN], OWN_PLAN)))
    return found


def _saving(record: StoredRecord, given: Record) -> Saving:
    quantity = Objective(given.text("quantity"))
    noun, against, method = (
        readable(given.text(name), 200) for name in ("noun", "against", "method")
    )
    after = record.slab if quantity is Objective.SLAB else record.peak
    # A bound of 0 says nothing.
    bound = objective_bound(record.bounds, quantity).value or None
    before = given.count("before")
    if not given.has("among"):
        return Saving(quantity, noun, before, after, bound, against, method, record.among)
    held, among = given.count("held", -1), readable(given.text("among"), 200)
    if held < 0:
        why = "not recorded"
        return Saving(quantity, noun, before, None, bound, against, method, among, after, why)
    return Saving(quantity, noun, before, held, bound, against, method, among, after)
