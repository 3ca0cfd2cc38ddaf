"""The order problem as a mixed-integer program, solved by HiGHS: a second opinion next to CP-SAT.

`program` is the program of one round, `highs` runs HiGHS on it, and `solve` is the entry point.
Results are claims: every order is replayed in integers, and a refuted claim is dropped.
"""

from __future__ import annotations

from optsched.joint.milp.solve import solve_order_milp

__all__ = ["solve_order_milp"]
