"""Plans kept in a file, found again by the graph they are for."""

from optsched.store.canonical import CanonicalGraph, canonical_form
from optsched.store.database import PlanStore
from optsched.store.question import (
    LEAST_PEAK,
    Bound,
    Change,
    Question,
    SearchState,
    StoredPlan,
    StoredRecord,
    provenance,
)

__all__ = [
    "LEAST_PEAK",
    "Bound",
    "CanonicalGraph",
    "Change",
    "PlanStore",
    "Question",
    "SearchState",
    "StoredPlan",
    "StoredRecord",
    "canonical_form",
    "provenance",
]
