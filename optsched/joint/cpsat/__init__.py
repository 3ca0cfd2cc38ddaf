"""The joint model in OR-Tools CP-SAT: order of ops and offsets of buffers chosen together.

`instance` scales a graph to whole units, `variables` and `constraints` make the model, `solver`
runs CP-SAT, and `solve` asks. What CP-SAT says is never a proof by itself: an outcome holds
claims, and values replayed in integers.
"""

from __future__ import annotations

from optsched.joint.cpsat.solve import CpSatOutcome, solve_joint
from optsched.joint.cpsat.solver import CpSatEffort

__all__ = ["CpSatEffort", "CpSatOutcome", "solve_joint"]
