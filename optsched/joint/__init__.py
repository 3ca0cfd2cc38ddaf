"""Joint choice of order and offsets: enumeration of small graphs, other orders, and models.

`enumerate` goes through all orders of a small graph, including in-place choices, and proves
results. It asks `oracle`, the exact packing engine, whether orders pack. `other_orders` creates and
packs further orders of minimum peak. `order_neighborhoods` lowers the peak of an order by the exact
search of a part of it. `cpsat` and `milp` are models from the literature that give second opinions;
their bounds are claims, not proofs.
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
