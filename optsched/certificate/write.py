"""Writing of certificates: from a bound that a search has proved to steps that prove it again.

The kinds of certificate are tried from the cheapest to the longest
(:meth:`CertificateSearch.tries`) until one refutes the budget, `bound - 1`. If the time is too
short, smaller bounds are tried by bisection. The checker verifies each certificate at once.

Example: a bound of 10 bytes. If only few states are within 9 bytes, their list refutes that budget.
Otherwise one op at which 10 bytes are live in every order is enough, or else a tree of supposed
precedences whose leaves are such ops.
"""

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
from optsched.check.certificate import Certificate, Step, check_certificate
from optsched.check.network import Network
from optsched.check.steps import BlocksStep, OrderStep, RegionStep
from optsched.errors import PlanError
from optsched.model.arrays import IntArray
from optsched.model.dependencies import topological_order
from optsched.model.graph import Graph
from optsched.model.module import Module
from optsched.model.question import restriction_words
from optsched.ordering.context import BlockFamily, OutOfTimeError
from optsched.ordering.reduce.symmetry import order_copies
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.runtime.text import counted


@dataclass(frozen=True, slots=True)
class Written:
    """A certificate that the checker has accepted."""

    certificate: Certificate
    rung: str
    """Short code of its proof: L2 (order bound) or L3 (order search)."""
    missing: str | None = None
    """Reason, in one line, if its bound is below the requested one; else None."""
    variant: str = ""
    """As of the graph: choices by which it was made of another one."""

    def __repr__(self) -> str:
        made, short = self.certificate, "" if self.missing is None else f", {self.missing}"
        words = restriction_words(made.rules, variant=self.variant)
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
    """Return a certificate that no order has a peak below `bound`, or below a smaller bound.

    The smaller bound, if that fails, is the best one that ops, precedences and short lists of
    states prove. It is found by bisection above the closure bound; a part of the time is reserved
    for it.

    With it come its kind of proof, and the reason if its bound is smaller than requested.

    `order`: op ids of a good order; it decides which ops are looked at first. `bound`: bytes; a
    bound that a search has proved. `limits`: limits on the work beyond the closure bound (default:
    none). `effort`: limits on each kind of certificate.

    Examples
    --------
    >>> from optsched import GraphBuilder
    >>> builder = GraphBuilder("join")
    >>> builder.op("a", writes={"x": 4})
    >>> builder.op("b", writes={"y": 4})
    >>> builder.op("join", reads=["x", "y"], writes={"z": 3})
    >>> builder.output("z")
    >>> certify_peak(builder.build(), [0, 1, 2], 11)  # L2: order bound
    Written(L2, 1 step, 11 bytes)
    """
    clock = Clock.of(limits or Limits())
    at = np.asarray(order, np.int64)
    # Small graphs get their best simple bound regardless of the time.
    little = len(graph.ops) <= effort.closure_ops
    value, step = closure_step(graph, [at], None if little else clock)
    if value >= bound:
        return _checked(graph, bound, (step,))
    search = CertificateSearch(graph, at, bound - 1, clock.share(1 - effort.kept), effort)
    try:
        # Preparing a try takes part of a second for a large graph: after the limit none begins.
        in_time = iter(lambda: not little and search.clock.expired(), True)
        for _, steps in zip(in_time, search.tries(), strict=False):
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
    # The simple step is at hand in any case.
    less, steps = _show_less(replace(search, clock=clock), value) or (value, (step,))
    simple = _checked(graph, less, steps)
    return replace(simple, missing=f"no proof of {bound:,} bytes: {reason}")


def _show_less(search: CertificateSearch, known: int) -> tuple[int, Sequence[Step]] | None:
    """Return the best bound above a known one that cheap steps prove, with the steps, or None."""
    found, bound = None, search.budget + 1
    for _ in range(search.effort.halvings):
        # Neighboring bounds: nothing lies between.
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
    """Search for steps that refute a budget; steps on regions or blocks precede the others."""

    blocks: tuple[BlocksStep, ...] = ()
    regions: tuple[RegionStep, ...] = ()

    def tries(self) -> Iterator[Sequence[Step] | None]:
        """Yield the result of each kind of certificate, the cheapest first: steps, or None."""
        effort, search = self.effort, self
        few = min(effort.few_states, effort.most_states)
        precedences = yield from self.cheap_tries()
        chained = self.with_regions()
        if chained.regions:
            yield from chained.cheap_tries()
        together = self.with_blocks()
        if together.blocks:
            yield together.states(few)
            search = together.in_order()
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
        """List few states, then try ops, sets and precedences; return the precedences found."""
        yield self.states(min(self.effort.few_states, self.effort.most_states))
        precedences, steps = refute(self)
        yield None if steps is None else (*self.regions, *self.blocks, *steps)
        return precedences

    def with_regions(self) -> CertificateSearch:
        """Return this search with chains for regions; the chain edges follow from the steps."""
        graph = self.graph
        # In place, the sum of live bytes that regions rest on does not hold.
        if len(graph.ops) > self.effort.region_ops or graph.arrays.inplace_op.size:
            return self
        folded, regions = find_regions(graph, self.context())
        if not regions:
            return self
        order = np.array(folded.expand(folded.shrink(self.order.tolist())), np.int64)
        # The chain edges are what the checker adds after accepting the step.
        chains = ([v for part in step.parts for v in part] for step in regions)
        graph = with_precedences(graph, (pair for chain in chains for pair in pairwise(chain)))
        return replace(self, graph=graph, order=order, regions=regions)

    def with_blocks(self) -> CertificateSearch:
        """Return this search with the identical blocks of the graph that the checker accepts.

        The checker may reject blocks that are identical for a search, which for example subtracts
        certain savings from the rise of an op.
        """
        network, blocks = Network(self.graph), []
        for family in self.context().families(wanted=True):
            first, *others = (tuple(row) for row in family.rows.tolist())
            same = [first]
            for row in others:
                # Compared with the first block only: swaps with it make all others.
                with suppress(PlanError):
                    check_blocks(network, (first, row), None)
                    same.append(row)
            if len(same) > 1:
                blocks.append(BlocksStep(tuple(same), None))
        return replace(self, blocks=tuple(blocks))

    def in_order(self) -> CertificateSearch:
        """Return this search with a canonical order of the blocks, as steps and edges."""
        graph, families = self.graph, [BlockFamily(np.array(step.rows)) for step in self.blocks]
        ordered = order_copies(self.context(), families, self.during)
        blocks, pairs = [], list[tuple[int, int]]()
        for step, family in zip(self.blocks, ordered.families, strict=True):
            assert family.column is not None
            blocks.append(replace(step, column=family.column))
            pairs += pairwise(family.rows[:, family.column].tolist())
        order = np.array(ordered.lead(self.order.tolist()), np.int64)
        graph = with_precedences(graph, pairs)
        return replace(self, graph=graph, order=order, blocks=tuple(blocks))

    def states(self, most: int, precedences: Sequence[OrderStep] = ()) -> list[Step] | None:
        """Return the list of states from the end that has fewer; None if both have too many.

        A short list is tried from both ends first; the backward list is usually shorter. With
        precedences, which may distinguish the blocks, symmetric states are not merged.
        """
        network = Network(self.graph)
        for step in precedences:
            network.add(step.first, step.second)
        for region in self.regions:
            network.join(region.parts)
        # Precedences may hold for one block and not for another.
        families = [] if precedences else [(step.rows, step.column) for step in self.blocks]
        # A short list from either end is found before a long one from the better end.
        tries = [(few, backward) for few in (most // 50, most) for backward in (True, False)]
        for few, backward in tries:
            found = list_states(
                network, self.budget, few, self.clock, backward=backward, families=families
            )
            if found is not None:
                return [*self.regions, *self.blocks, *precedences, found]
        return None

    def tree(self) -> ConflictTree | None:
        """Return the tree of supposed precedences; None if the limits exclude it."""
        if not self.effort.most_cases or len(self.graph.ops) > self.effort.case_ops:
            return None
        try:
            return ConflictTree(self)
        except UnshownError:
            return None

    def cases(self, tree: ConflictTree | None, most: int) -> list[Step] | None:
        """Search a tree up to `most` conflicts; return its steps if it refutes the budget."""
        try:
            why = None if tree is None else tree.run(min(most, self.effort.most_cases))
            if why is None:
                return None
            steps = list_steps(self.graph, self.budget, why, self.effort.most_steps)
            return [*self.regions, *self.blocks, *steps]
        except UnshownError:
            return None


def _checked(graph: Graph, bound: int, steps: Sequence[Step]) -> Written:
    """Return the certificate with the kind of proof that the checker reports."""
    certificate = Certificate(graph.name, bound, tuple(steps))
    rung = check_certificate(graph, certificate)
    return Written(certificate, rung, variant=graph.variant)


def certify_module(
    module: Module,
    orders: Mapping[str, Sequence[int]],
    bounds: Mapping[str, int],
    *,
    limits: Limits | Clock,
) -> dict[str, Written]:
    """Return certificates of the bounds on the peaks of all computations of a module, by name.

    A call counts with the bound that the certificate of its callee proves. If that is smaller than
    the callee's bound, the certificates of its callers use the smaller one.

    `orders`, `bounds`: by computation: an order, if one is known; the bound on its peak, including
    its calls. `limits`: limits on all certificates together.
    """
    clock = Clock.of(limits)
    shown: dict[str, int] = {}
    made: dict[str, Written] = {}
    for number, name in enumerate(module.computations):
        # Blocks of callees have the bounds that were proved, not those asked for.
        graph = module.with_blocks(name, shown)
        part = clock.share(1 / (len(module.computations) - number))
        order = orders.get(name) or topological_order(graph.predecessors)
        made[name] = certify_peak(graph, order, bounds[name], limits=part)
        shown[name] = made[name].certificate.bound
    return made
