"""The joint model in OR-Tools CP-SAT: order of ops and offsets of buffers chosen together.

`instance` scales a graph, `variables`, `constraints` and `cuts` make the model, `canonical` turns
a plan into a complete hint, `solver` runs CP-SAT, `engine` minimises,
`solve` and `joint` offer the three forms, `confirm` asks again. CP-SAT's word alone
is never a proof: an outcome holds claims, told from integers.
"""

from __future__ import annotations

from optsched.joint.cpsat.confirm import Confirmation, Verdict, confirm
from optsched.joint.cpsat.cuts import NO_CUTS, Cuts
from optsched.joint.cpsat.joint import solve_joint
from optsched.joint.cpsat.outcome import CpSatOutcome, Stop
from optsched.joint.cpsat.solve import solve_order, solve_packing
from optsched.joint.cpsat.solver import SAFE, SECOND, Settings, StopSignal

__all__ = [
    "NO_CUTS",
    "SAFE",
    "SECOND",
    "Confirmation",
    "CpSatOutcome",
    "Cuts",
    "Settings",
    "Stop",
    "StopSignal",
    "Verdict",
    "confirm",
    "solve_joint",
    "solve_order",
    "solve_packing",
]
