"""How much the writer of certificates tries before it writes less."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CertificateEffort:
    """Limits of each way to a certificate, from the cheap ones to the long ones.

    Parameters
    ----------
    few_states
        States that are listed before precedences are looked for that would make them fewer.
    most_states
        More are too large to write.
    few_cases
        Conflicts among supposed precedences that are looked at before many states are listed.
    some_cases
        The same where blocks are identical: with these in line a case says much.
    most_cases
        Conflicts after which suppositions are given up.
    most_steps
        A proof of more steps is too long to write: 100,000 take some 40 MB.
    halvings
        Bounds that are tried at most for something less than what was asked for.
    kept
        Part of the time that is kept for that.
    flow_ops
        Of more ops no implied precedences are looked for: each is shown by a flow of its own.
    region_ops
        Of more ops no regions are looked for: 100,000 take a minute, and half of one to check.
    case_ops
        Of more ops no orders of pairs are supposed: every case keeps a matrix of all pairs.
    critical_ops
        Ops with the least slack, and as many most often in conflict, at which pairs of ops to
        suppose an order of are looked for.
    """

    few_states: int = 2_000
    most_states: int = 200_000
    few_cases: int = 200
    some_cases: int = 800
    most_cases: int = 5_000
    most_steps: int = 100_000
    halvings: int = 12
    kept: float = 0.2
    flow_ops: int = 3_000
    region_ops: int = 100_000
    case_ops: int = 400
    critical_ops: int = 4


DEFAULT_EFFORT = CertificateEffort()
