"""From a bound that is known to hold to a certificate of it, the cheapest kind first."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from optsched.certificate.bounds import Claim, closure_step, refute, with_precedences
from optsched.certificate.effort import DEFAULT_EFFORT, CertificateEffort
from optsched.certificate.regions import find_regions
from optsched.certificate.states import list_states
from optsched.certificate.trail import TooLongError, UnshownError, list_steps
from optsched.certificate.tree import ConflictTree
from optsched.check.blocks import check_blocks
from optsched.check.certificate import check_certificate
from optsched.check.network import Network
from optsched.check.steps import BlocksStep, Certificate, OrderStep, RegionStep, Step
from optsched.errors import PlanError
from optsched.model.arrays import IntArray
from optsched.model.dependencies import topological_order
from optsched.model.graph import Graph
from optsched.model.module import Module
from optsched.model.question import restriction_words
from optsched.ordering.context import BlockFamily, OutOfTimeError
from optsched.ordering.reduce.symmetry import line_up
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.runtime.text import counted


@dataclass(frozen=True, slots=True)
class Written:
    """A certificate and what it fell short of.

    Parameters
    ----------
    certificate
        Accepted by the checker.
    rung
        What it is: L2 or L3.
    missing
        Why its bound is below the one asked for, in one line; None if it is not.
    """

    certificate: Certificate
    rung: str
    missing: str | None = None

    def __repr__(self) -> str:
        made, short = self.certificate, "" if self.missing is None else f", {self.missing}"
        words = restriction_words(made.rules)
        among = f" among {words}" if words else ""
        steps = counted(len(made.steps), "step")
        return f"Written({self.rung}, {steps}, {made.bound:,} bytes{among}{short})"


def certify_peak(
    graph: Graph,
    order: Sequence[int] | IntArray,
    bound: int,
    *,
    limits: Limits | Clock | None = None,
    effort: CertificateEffort = DEFAULT_EFFORT,
) -> Written:
    """Return a certificate that no order has a peak below `bound`, or of less where that fails.

    What is shown then is the best bound that ops, precedences and few states give away, found
    by halving what is open above the closure bound; the last part of the time is kept for it.

    Parameters
    ----------
    graph
        The graph.
    order
        A good order.
    bound
        Bytes; what a search proved.
    limits
        What to spend on more than the closure bound.
    effort
        What to try at most.
    """
    clock = Clock.of(limits or Limits())
    at = np.asarray(order, np.int64)
    little = len(graph.ops) <= effort.closure_ops
    value, step = closure_step(graph, [at], None if little else clock)
    if value >= bound:
        return _checked(graph, bound, (step,))
    search = CertificateSearch(graph, at, bound - 1, clock.share(1 - effort.kept), effort)
    try:
        for steps in search.tries():
            if steps is not None:
                return _checked(graph, bound, steps)
        reason = f"there are more than {counted(effort.most_states, 'state')} to list"
        if len(graph.ops) <= effort.case_ops:
            reason += f", and more than {counted(effort.most_cases, 'case')}"
    except TooLongError:
        reason = f"it has more than {counted(effort.most_steps, 'step')}"
    except OutOfTimeError:
        reason = "time is up"
    if search.clock.expired():
        reason = "time is up"
    less, steps = _show_less(replace(search, clock=clock), value) or (value, (step,))
    simple = _checked(graph, less, steps)
    return replace(simple, missing=f"no proof of {bound:,} bytes: {reason}")


def _show_less(search: CertificateSearch, known: int) -> tuple[int, Sequence[Step]] | None:
    """Return the best bound above a known one that cheap steps show, and these, if there is one."""
    found, bound = None, search.budget + 1
    for _ in range(search.effort.halvings):
        if bound - known < 2 or search.clock.expired():
            break
        middle = (known + bound) // 2
        steps = None
        with suppress(OutOfTimeError):
            tries = replace(search, budget=middle - 1).cheap_tries()
            steps = next((steps for steps in tries if steps is not None), None)
        if steps is None:
            bound = middle
        else:
            known, found = middle, (middle, steps)
    return found


@dataclass(frozen=True, slots=True)
class CertificateSearch(Claim):
    """Looks for steps that refute a budget; those on regions or blocks come first."""

    blocks: tuple[BlocksStep, ...] = ()
    regions: tuple[RegionStep, ...] = ()

    def tries(self) -> Iterator[Sequence[Step] | None]:
        """Try one way after the other, the cheapest first."""
        effort, search = self.effort, self
        few = min(effort.few_states, effort.most_states)
        precedences = yield from self.cheap_tries()
        chained = self.with_regions()
        if chained.regions:
            yield from chained.cheap_tries()
        together = self.with_blocks()
        if together.blocks:
            yield together.states(few)
            search = together.in_line()
            precedences = yield from search.cheap_tries()
        tree = search.tree()
        yield search.cases(tree, effort.some_cases if search.blocks else effort.few_cases)
        if together.blocks:
            yield together.states(effort.most_states)
        if chained.regions:
            yield chained.states(effort.most_states)
        yield search.states(effort.most_states, precedences)
        yield search.cases(tree, effort.most_cases)

    def cheap_tries(self) -> Generator[Sequence[Step] | None, None, Sequence[OrderStep]]:
        """List few states, then look at ops; return the precedences these led to."""
        yield self.states(min(self.effort.few_states, self.effort.most_states))
        precedences, steps = refute(self)
        yield None if steps is None else (*self.regions, *self.blocks, *steps)
        return precedences

    def with_regions(self) -> CertificateSearch:
        """The same with regions as chains; all that adds to the graph follows from them."""
        graph = self.graph
        if len(graph.ops) > self.effort.region_ops or graph.arrays.inplace_op.size:
            return self
        folded, regions = find_regions(graph, self.context())
        if not regions:
            return self
        order = np.array(folded.expand(folded.shrink(self.order.tolist())), np.int64)
        chains = ([v for part in step.parts for v in part] for step in regions)
        graph = with_precedences(graph, (pair for chain in chains for pair in pairwise(chain)))
        return replace(self, graph=graph, order=order, regions=regions)

    def with_blocks(self) -> CertificateSearch:
        """The same with the identical blocks of the graph.

        To a search less may be different than to the checker: what an op saves in any case, say.
        """
        network, blocks = Network(self.graph), []
        for family in self.context().families(wanted=True):
            first, *others = (tuple(row) for row in family.rows.tolist())
            same = [first]
            for row in others:
                with suppress(PlanError):
                    check_blocks(network, (first, row), None)
                    same.append(row)
            if len(same) > 1:
                blocks.append(BlocksStep(tuple(same), None))
        return replace(self, blocks=tuple(blocks))

    def in_line(self) -> CertificateSearch:
        """The same with the blocks in line; what that adds to the graph follows from the blocks."""
        graph, families = self.graph, [BlockFamily(np.array(step.rows)) for step in self.blocks]
        lined = line_up(self.context(), families, self.during)
        blocks, pairs = [], list[tuple[int, int]]()
        for step, family in zip(self.blocks, lined.families, strict=True):
            assert family.line is not None
            blocks.append(replace(step, line=family.line))
            pairs += pairwise(family.rows[:, family.line].tolist())
        order = np.array(lined.lead(self.order.tolist()), np.int64)
        graph = with_precedences(graph, pairs)
        return replace(self, graph=graph, order=order, blocks=tuple(blocks))

    def states(self, most: int, precedences: Sequence[OrderStep] = ()) -> list[Step] | None:
        """List the states from one end: the one that has few, else the back: usually fewer.

        Precedences may tell blocks apart: with any, no states count as one.
        """
        network = Network(self.graph)
        for step in precedences:
            network.add(step.first, step.second)
        for region in self.regions:
            network.join(region.parts)
        families = [] if precedences else [(step.rows, step.line) for step in self.blocks]
        tries = [(few, backward) for few in (most // 50, most) for backward in (True, False)]
        for few, backward in tries:
            found = list_states(
                network, self.budget, few, self.clock, backward=backward, families=families
            )
            if found is not None:
                return [*self.regions, *self.blocks, *precedences, found]
        return None

    def tree(self) -> ConflictTree | None:
        """The tree of supposed precedences, if there is to be one."""
        if not self.effort.most_cases or len(self.graph.ops) > self.effort.case_ops:
            return None
        try:
            return ConflictTree(self)
        except UnshownError:
            return None

    def cases(self, tree: ConflictTree | None, most: int) -> list[Step] | None:
        """Go on with a tree up to so many conflicts; its steps if it refutes the budget."""
        try:
            why = None if tree is None else tree.run(min(most, self.effort.most_cases))
            if why is None:
                return None
            steps = list_steps(self.graph, self.budget, why, self.effort.most_steps)
            return [*self.regions, *self.blocks, *steps]
        except UnshownError:
            return None


def _checked(graph: Graph, bound: int, steps: Sequence[Step]) -> Written:
    """Return the certificate with the rung that the checker gives it."""
    certificate = Certificate(graph.name, bound, tuple(steps))
    return Written(certificate, check_certificate(graph, certificate))


def certify_module(
    module: Module,
    orders: Mapping[str, Sequence[int]],
    bounds: Mapping[str, int],
    *,
    limits: Limits | Clock,
) -> dict[str, Written]:
    """Return certificates that no orders have less live bytes than the bounds, by computation.

    What a computation calls has its proved bound in its certificate. Where one falls short of its
    bound, those of its callers build on what it does show.

    Parameters
    ----------
    module
        What was planned.
    orders, bounds
        Of each computation an order, if one is known, and the bound on its peak, all that it
        calls included.
    limits
        For all of them together.
    """
    clock = Clock.of(limits)
    shown: dict[str, int] = {}
    made: dict[str, Written] = {}
    for number, name in enumerate(module.computations):
        graph = module.with_blocks(name, shown)
        part = clock.share(1 / (len(module.computations) - number))
        order = orders.get(name) or topological_order(graph.predecessors)
        made[name] = certify_peak(graph, order, bounds[name], limits=part)
        shown[name] = made[name].certificate.bound
    return made
