"""What the engine returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from optsched.model.arrays import IntArray
from optsched.runtime.limits import Proof, StopReason


@dataclass(frozen=True, slots=True)
class PackingOutcome:
    """A packing and what is proved about it.

    Parameters
    ----------
    offsets
        Shape `(k,)`, bytes; None if none was found within the capacity asked for.
    slab
        Bytes of that packing, or None.
    bound
        No packing is smaller.
    proof
        `L1`: a step's live bytes equal the slab. `L4`: everything below was searched. None while
        slab and bound differ.
    stop_reason
        PROVED: slab and bound meet. DECIDED: the capacity is answered. EXHAUSTED: nothing is left
        that the engine could do (sizes beyond the search).
    statistics
        Counters: nodes, searches, states refuted by the table, first fits, components, units, ...
    """

    offsets: IntArray | None
    slab: int | None
    bound: int
    proof: Proof | None
    stop_reason: StopReason
    statistics: dict[str, int] = field(default_factory=dict)
