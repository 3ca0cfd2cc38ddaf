"""How much the writer of certificates tries before it writes less."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CertificateEffort:
    """Limits of each way to a certificate, from the cheap ones to the long ones."""

    closure_ops: int = 500
    """Up to this many ops the closure bound is shown regardless of the time: it takes little."""
    few_states: int = 2_000
    """States that are listed before precedences are looked for that would make them fewer."""
    most_states: int = 200_000
    """More are too large to write."""
    few_cases: int = 200
    """Conflicts among supposed precedences that are looked at before many states are listed."""
    some_cases: int = 800
    """The same where blocks are identical: with these in line a case says much."""
    most_cases: int = 5_000
    """Conflicts after which suppositions are given up."""
    most_steps: int = 100_000
    """A proof of more steps is too long to write: 100,000 take some 40 MB."""
    halvings: int = 12
    """Bounds that are tried at most for something less than what was asked for."""
    kept: float = 0.2
    """Part of the time that is kept for that."""
    flow_ops: int = 3_000
    """Of more ops no implied precedences are looked for: each is shown by a flow of its own."""
    region_ops: int = 100_000
    """Of more ops no regions are looked for: 100,000 take a minute, and half of one to check."""
    case_ops: int = 400
    """Of more ops no orders of pairs are supposed: every case keeps a matrix of all pairs."""
    critical_ops: int = 4
    """Ops with the least slack, and as many most often in conflict, at which pairs of ops to
    suppose an order of are looked for."""


DEFAULT_EFFORT = CertificateEffort()
