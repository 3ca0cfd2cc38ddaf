"""Plans kept in a file, found again by the graph they are for."""

from optsched.store.database import PlanStore
from optsched.store.document import graph_key
from optsched.store.exchange import Taken, export_store, import_store, merge
from optsched.store.prepared import PreparedResult, prepare_result
from optsched.store.question import Bound, RecordChange, StoredRecord, objective_bound, provenance
from optsched.store.revoke import Rule, read_rule, revoke
from optsched.store.upkeep import collect_garbage, verify

__all__ = [
    "Bound",
    "PlanStore",
    "PreparedResult",
    "RecordChange",
    "Rule",
    "StoredRecord",
    "Taken",
    "collect_garbage",
    "export_store",
    "graph_key",
    "import_store",
    "merge",
    "objective_bound",
    "prepare_result",
    "provenance",
    "read_rule",
    "revoke",
    "verify",
]
