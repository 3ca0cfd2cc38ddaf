"""Capture of the graphs that Inductor schedules, from any torch model.

Question: what would Inductor schedule for a model, found out without running it?

`graphs` stops each compilation where Inductor reorders, and writes files; `fake_cuda` answers for a
GPU that the machine does not have.
"""

from optsched.plugins.inductor.capture.graphs import (
    Build,
    Built,
    CapturedGraph,
    Observe,
    Phase,
    capture,
    write,
)

__all__ = ["Build", "Built", "CapturedGraph", "Observe", "Phase", "capture", "write"]
