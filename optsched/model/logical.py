"""Modules as XLA's memory schedulers see them: an op for each instruction, logical buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from optsched.model.module import Module


@dataclass(frozen=True)
class LogicalComputation:
    """Facts about a computation besides its graph, in which each instruction is an op."""

    operands: tuple[tuple[int, ...], ...]
    control: tuple[tuple[int, ...], ...]
    """`operands` and `control`: row `v` has the operands of op `v` in order, including repeats, and
    the ops that it must run after by request."""
    uses: tuple[tuple[int, ...], ...]
    """Row `v` has all buffers that an operand of op `v` points to."""
    live_out: frozenset[int]
    """Buffers that the result points to."""
    ignored: frozenset[int]
    """Ops that are parameters or constants."""
    root: int
    """Op whose result is that of the computation."""


@dataclass(frozen=True)
class LogicalModule(Module):
    """A module with an op per instruction, and further facts that XLA's schedulers use.

    `instructions` counts the whole module, fused ones included: where XLA ends some counts.
    """

    logical: Mapping[str, LogicalComputation] = field(default_factory=dict)
    instructions: int = 0
