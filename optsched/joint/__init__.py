"""Order and offsets together: exhaustion of small graphs, other orders of large ones, and models.

`enumerate` goes through all orders of a small graph, in-place choices included, and proves; it asks
`oracle`, the exact packing engine, which falls back on `tiny_packing` where sizes are beyond the
engine. `other_orders` makes and packs further orders of minimum peak. `cpsat` and `milp` are the
models of the literature as second opinions, whose bounds are claims.
"""

from __future__ import annotations

from optsched.joint.enumerate import EnumerationEffort, EnumerationOutcome, enumerate_orders
from optsched.joint.other_orders import OtherOrdersEffort, other_plans

__all__ = [
    "EnumerationEffort",
    "EnumerationOutcome",
    "OtherOrdersEffort",
    "enumerate_orders",
    "other_plans",
]
