"""Plans kept in a file, found again by the graph they are for."""

from optsched.store.canonical import CanonicalGraph, canonical_form
from optsched.store.database import PlanStore, StoredPlan

__all__ = ["CanonicalGraph", "PlanStore", "StoredPlan", "canonical_form"]
