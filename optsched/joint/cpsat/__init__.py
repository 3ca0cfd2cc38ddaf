"""The joint model in OR-Tools CP-SAT: order of ops and offsets of buffers chosen together.

`instance` scales a graph to whole units, `variables` and `constraints` make the model, `hints`
turns a plan into a complete hint, `solver` runs CP-SAT, and `solve` asks the three questions. What
CP-SAT says is never a proof by itself: an outcome holds claims, and values replayed in integers.
"""

from __future__ import annotations

from optsched.joint.cpsat.solve import CpSatOutcome, solve_joint, solve_order, solve_packing
from optsched.joint.cpsat.solver import SAFE

__all__ = [
    "SAFE",
    "CpSatOutcome",
    "solve_joint",
    "solve_order",
    "solve_packing",
]
