"""The joint model in OR-Tools CP-SAT: the order of ops and the offsets of buffers in one model.

`order` is the model of the order alone, `variables` and `joint_model` build that of order and
offsets, `solver` runs CP-SAT, and `solve` is the entry point. Results of CP-SAT alone are never
proofs: an outcome contains claims, and values recomputed in integers.
"""

from __future__ import annotations

from optsched.joint.cpsat.incumbent import CpSatOutcome
from optsched.joint.cpsat.solve import solve_joint
from optsched.joint.cpsat.solver import CpSatEffort

__all__ = ["CpSatEffort", "CpSatOutcome", "solve_joint"]
