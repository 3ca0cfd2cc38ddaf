"""The joint model in OR-Tools CP-SAT: the order of ops and the offsets of buffers in one model.

`instance` scales a graph to integral units, `variables` and `constraints` build the model, `solver`
runs CP-SAT, and `solve` is the entry point. Results of CP-SAT alone are never proofs: an outcome
contains claims, and values recomputed in integers.
"""

from __future__ import annotations

from optsched.joint.cpsat.solve import CpSatOutcome, solve_joint
from optsched.joint.cpsat.solver import CpSatEffort

__all__ = ["CpSatEffort", "CpSatOutcome", "solve_joint"]
