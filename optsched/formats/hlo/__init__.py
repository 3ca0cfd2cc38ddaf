"""XLA: modules in HLO text as graphs, and its buffer assignments as plans of them.

References
----------
https://openxla.org/xla/operation_semantics, and what jax 0.10 dumps on the CPU: the tests compare
with its live ranges and offsets.
"""

from __future__ import annotations

from optsched.formats.hlo.buffer_assignment import FORMAT as BUFFER_ASSIGNMENT
from optsched.formats.hlo.read import FORMAT, read_hlo

__all__ = ["BUFFER_ASSIGNMENT", "FORMAT", "read_hlo"]
