"""Regions as steps of a certificate: chains of parts that the checker can verify to be optimal.

A region may run along its hill-valley order without loss (:mod:`optsched.ordering.reduce.regions`).
Each step names the parts of the chain; the checker verifies their valleys and hills on its own.
Inner regions come first, and are ops of the regions around them.

Example: branches `a` and `b` between `split` and `join`, where `b` goes into the deeper valley over
the lower hill. The step is the chain of the parts (`b`), (`a`); all later steps may use that `b`
runs before `a`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optsched.check.network import Network
from optsched.check.region import check_region
from optsched.check.steps import RegionStep
from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.ordering.context import SearchContext
from optsched.ordering.reduce.contraction import contract
from optsched.ordering.reduce.modules import ChainedProblem, ModuleContraction
from optsched.ordering.reduce.regions import find_forks


class Chains(ModuleContraction):
    """A problem while its regions become chains, including regions that are chains already.

    The search merges the ops of a chain by contraction. The checker does not have contractions, so
    a chain is a region like any other here.
    """

    def __init__(self, problem: SearchContext, network: Network) -> None:
        super().__init__(problem)
        self.network = network
        self.steps: list[RegionStep] = []

    def contract_all(self, forks: Sequence[int]) -> None:
        """Make chains of the regions that start at the ops `forks`, after folding plain chains."""
        self.fold_chains(self.order)
        super().contract_all(forks)

    def contract(self, region: list[int]) -> bool:
        """Make a chain of a region, after folding the plain chains in it."""
        self.fold_chains(region)
        return self.fold_one([v for v in region if self.part[v] == v])

    def fold_chains(self, ops: Sequence[int]) -> None:
        """Fold the plain chains among some ops into fewer parts."""
        inside = set(ops)
        for v in ops:
            # Not the first op of its chain: it is reached from there.
            if self.part[v] != v or self.follows(v, inside):
                continue
            chain = [v]
            while len(self.succ[chain[-1]]) == 1:
                (w,) = self.succ[chain[-1]]
                if w not in inside or not self.follows(w, inside):
                    break
                chain.append(w)
            for piece in self.pieces(chain):
                self.fold_one(piece, fewer=True)

    def follows(self, v: int, inside: set[int]) -> bool:
        """Return True if an op is not the first of its chain."""
        if len(self.pred[v]) != 1:
            return False
        (u,) = self.pred[v]
        return u in inside and len(self.succ[u]) == 1

    def pieces(self, chain: Sequence[int]) -> list[list[int]]:
        """Return the stretches of a chain between ops that share buffers outside the chain."""
        found: list[list[int]] = [[]]
        # A shared buffer used outside would break the sum of live bytes.
        inside = set(chain)
        for v in chain:
            if all(self.users[b] <= inside for b in self.read[v]):
                found[-1].append(v)
            else:
                found.append([])
        return [piece for piece in found if len(piece) > 1]

    def fold_one(self, region: list[int], *, fewer: bool = False) -> bool:
        """Make a chain of a region if the checker accepts it; return False otherwise.

        With `fewer`, the chain must also have fewer parts than the region has ops.
        """
        chain = self.find_chain(region) if len(region) > 1 else None
        if chain is None or (fewer and len(chain.ends) > len(region)):
            return False
        parts = self.parts_of(chain)
        # The checker decides; what it refuses is left as it is.
        try:
            check_region(self.network, parts)
        except PlanError:
            return False
        self.network.join(parts)
        self.put(chain)
        self.steps.append(RegionStep(tuple(map(tuple, parts))))
        return True


def find_regions(
    graph: Graph, problem: SearchContext
) -> tuple[ChainedProblem, tuple[RegionStep, ...]]:
    """Return the problem of a graph with chains for its regions, and the steps that prove them."""
    plain = contract(problem.problem, merge=False, check_time=problem.check_time)
    chains = Chains(replace(problem, problem=plain.problem), Network(graph))
    chains.contract_all(find_forks(plain.problem, chains.order))
    return chains.result(), tuple(chains.steps)
