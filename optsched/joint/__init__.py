"""Order and offsets together: exhaustion of small graphs, other orders of large ones, and models.

`enumerate` goes through all orders of a small graph, in-place choices included, and proves; what
packs it asks of `oracle`, the exact packing engine. `other_orders` makes and packs further orders
of minimum peak. `cpsat` and `milp` are models of the literature as second opinions, whose bounds
are claims.
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
