"""Limits on the work of writing a certificate, before one of a smaller bound is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CertificateEffort:
    """Limits on each kind of certificate, from the cheap ones to the long ones."""

    closure_ops: int = 500
    """Most ops of a graph whose closure bound is proved regardless of the time limit."""
    few_states: int = 2_000
    """States that are listed before looking for precedences that would reduce them."""
    most_states: int = 200_000
    """Most states of a certificate; more would be too large to write."""
    few_cases: int = 200
    """Conflicts among supposed precedences that are tried before many states are listed."""
    some_cases: int = 800
    """Conflicts tried instead of `few_cases` if the graph has identical blocks, whose canonical
    order makes each case stronger."""
    most_cases: int = 5_000
    """Conflicts after which the tree of suppositions is given up."""
    most_steps: int = 100_000
    """Most steps of a certificate; 100,000 take about 40 MB."""
    halvings: int = 12
    """Most bounds that are tried if the requested one cannot be proved."""
    kept: float = 0.2
    """Share of the time that is reserved for these smaller bounds."""
    flow_ops: int = 3_000
    """Most ops of a graph whose implied precedences are looked for: each takes a flow."""
    region_ops: int = 100_000
    """Most ops of a graph whose regions are looked for: 100,000 take a minute to write, and half a
    minute to check."""
    case_ops: int = 400
    """Most ops of a graph with suppositions: every case has a matrix of all pairs."""
    critical_ops: int = 4
    """Pairs to suppose an order of are looked for at this number of ops with the least slack, and
    at as many with the highest failure counts."""


DEFAULT_EFFORT = CertificateEffort()
