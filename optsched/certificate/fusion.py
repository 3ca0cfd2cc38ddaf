"""Certificates that no split of a fused graph has a lower peak, composed from those of the leaves.

Example: the search branched once. Each of the two leaves gets an ordinary certificate for its
graph, and the tree says which buffer was decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optsched.certificate.write import certify_peak
from optsched.check.certificate import Certificate
from optsched.check.fused import (
    FusionBranch,
    FusionCertificate,
    FusionLeaf,
    FusionTree,
    check_fusion,
)
from optsched.check.steps import End, EndStep
from optsched.runtime.clock import Clock
from optsched.runtime.fold import fold
from optsched.solver.fusion.result import Branch, FusionResult, Leaf, Node


@dataclass(frozen=True, slots=True)
class WrittenFusion:
    """A certificate that the checker has accepted, its kind of proof, and what it lacks."""

    certificate: FusionCertificate
    rung: str
    missing: str | None = None


def certify_fusion(result: FusionResult, clock: Clock) -> WrittenFusion:
    """Return a certificate of a result's bound, or of a smaller one if time is too short."""
    writer = _Writer(result.fused.graph.name, result.bound, clock)
    tree = writer.tree(result.tree)
    bound = min(result.bound, writer.least)
    certificate = FusionCertificate(result.fused.graph.name, bound, tree)
    return WrittenFusion(certificate, check_fusion(result.fused, certificate), writer.missing)


@dataclass(slots=True)
class _Writer:
    graph: str
    bound: int
    clock: Clock
    least: int = 2**63
    missing: str | None = None

    def tree(self, node: Node) -> FusionTree:
        return fold(node, _parts, self._part)

    def _part(self, node: Node, parts: Sequence[FusionTree]) -> FusionTree:
        if isinstance(node.at, Branch):
            return FusionBranch(node.at.buffer, parts[0], parts[1])
        return self.leaf(node.at)

    def leaf(self, leaf: Leaf) -> FusionLeaf:
        solved = leaf.solved
        if solved is None and leaf.bound:
            return FusionLeaf(None)
        if solved is None:
            # The search was stopped before its first bound: nothing is proved but 0 bytes.
            self.least, self.missing = 0, "the search has no bound yet"
            return FusionLeaf(Certificate(self.graph, 0, (EndStep(End.START),)))
        # The bound of a leaf may be that of the node above it.
        bound = min(self.bound, solved.bound) + solved.above
        written = certify_peak(solved.graph, solved.order, bound, limits=self.clock.share(0.5))
        proved = max(0, written.certificate.bound - solved.above)
        self.least = min(self.least, proved)
        self.missing = self.missing or written.missing
        if proved < self.bound:
            self.missing = self.missing or f"a leaf proves {proved:,} bytes"
        return FusionLeaf(written.certificate, allowed=solved.above > 0)


def _parts(node: Node) -> tuple[Node, ...]:
    return (node.at.stays, node.at.cut) if isinstance(node.at, Branch) else ()
