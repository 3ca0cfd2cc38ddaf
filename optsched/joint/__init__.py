"""Order and offsets together, where the packing of one least-peak order does not close the gap.

`walk` exchanges ops of an order within a budget, `orders` makes and packs further orders of least
peak, `windows` frees order and offsets inside a stretch of steps (CP-SAT), `exhaust` goes through
all orders of a small graph. Plans are handed out as they are found; bounds are proofs of ours.
`inplace` does the same with all choices of what is written in place. (`windows` is not imported
here: it loads OR-Tools.)
"""

from __future__ import annotations

from optsched.joint.enumerate import Exhausted, exhaust
from optsched.joint.enumerate_inplace import exhaust_inplace
from optsched.joint.orders import other_plans

__all__ = ["Exhausted", "exhaust", "exhaust_inplace", "other_plans"]
