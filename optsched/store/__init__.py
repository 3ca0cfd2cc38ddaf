"""Plans kept in a file, found again by the graph they are for."""

from optsched.solver.result import Result
from optsched.store.canonical import CanonicalGraph, canonical_form
from optsched.store.database import PlanStore
from optsched.store.exchange import Taken, export_store, import_store, merge
from optsched.store.prepared import PreparedResult, prepare_result
from optsched.store.question import (
    MINIMUM_PEAK,
    MINIMUM_SLAB,
    Bound,
    RecordChange,
    StoredQuestion,
    StoredRecord,
    objective_bound,
    provenance,
)
from optsched.store.revoke import Rule, read_rule, revoke
from optsched.store.rows import graph_digest
from optsched.store.salvage import salvage
from optsched.store.upkeep import collect_garbage, verify

StoredPlan = Result
"""Former name of the type that a look-up returns."""

__all__ = [
    "MINIMUM_PEAK",
    "MINIMUM_SLAB",
    "Bound",
    "CanonicalGraph",
    "PlanStore",
    "PreparedResult",
    "RecordChange",
    "Rule",
    "StoredPlan",
    "StoredQuestion",
    "StoredRecord",
    "Taken",
    "canonical_form",
    "collect_garbage",
    "export_store",
    "graph_digest",
    "import_store",
    "merge",
    "objective_bound",
    "prepare_result",
    "provenance",
    "read_rule",
    "revoke",
    "salvage",
    "verify",
]
