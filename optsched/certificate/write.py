"""From a bound that is known to hold to a certificate of it, the cheapest kind first."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from optsched.certificate.bounds import closure_step, refute
from optsched.certificate.facts import TooLongError, UnshownError, list_steps
from optsched.certificate.regions import TOO_MANY, find_regions
from optsched.certificate.states import list_states
from optsched.certificate.tree import Tree
from optsched.check.blocks import check_blocks
from optsched.check.certificate import check_certificate
from optsched.check.network import Network
from optsched.check.steps import BlocksStep, Certificate, OrderStep, RegionStep, Step
from optsched.errors import PlanError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.ordering.context import Family, OutOfTimeError, SearchContext
from optsched.ordering.problem import build_problem
from optsched.ordering.reduce.symmetry import line_up
from optsched.ordering.tree.search import MOST_OPS

FEW_STATES = 2_000
"""So many states are listed before precedences are looked for that would make them fewer."""

MOST_STATES = 200_000
"""Above this a list of states is too large to write."""

FEW_CASES = 200
"""So many contradictions are looked at in a tree before many states are listed."""

SOME_CASES = 800
"""The same where blocks are identical: with these in line a case says much."""

MOST_CASES = 5_000
"""Contradictions after which a tree of supposed precedences is given up."""

KEPT = 0.2
"""Part of the time that is kept for less than what was asked for."""

MOST_HALVINGS = 12
"""Bounds that are tried there at most."""

MOST_STEPS = 100_000
"""A proof of more steps is too long to write: they would take some 40 MB."""


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


def certify_peak(
    graph: Graph,
    order: Sequence[int] | IntArray,
    bound: int,
    *,
    most_states: int = MOST_STATES,
    most_cases: int = MOST_CASES,
    seconds: float | None = None,
) -> Written:
    """Return a certificate that no order has a peak below `bound`, or of less where that fails.

    What is shown then is the best bound that ops, sets, precedences and few states give away, found
    by halving what is open above the closure bound; the last part of the time is kept for it.

    Parameters
    ----------
    graph
        The graph.
    order
        A good order.
    bound
        Bytes; what a search proved.
    most_states
        States to list at most.
    most_cases
        Contradictions to look for at most where precedences are supposed.
    seconds
        Time to spend on more than the closure bound.
    """
    now = time.monotonic()
    deadline = None if seconds is None else now + seconds * (1 - KEPT)
    at = np.asarray(order, np.int64)
    value, step = closure_step(graph, [at], None)
    if value >= bound:
        return _checked(graph, bound, (step,))
    search = _Search(graph, at, bound - 1, deadline)
    reason = f"there are more than {most_states:,} states to list"
    if len(graph.ops) <= MOST_OPS:
        reason += f", and more than {most_cases:,} cases"
    try:
        for steps in search.tries(most_states, most_cases):
            if steps is not None:
                return _checked(graph, bound, steps)
    except TooLongError:
        reason = f"it has more than {MOST_STEPS:,} steps"
    except OutOfTimeError:
        reason = "time is up"
    if deadline is not None and time.monotonic() > deadline:
        reason = "time is up"
    last = None if seconds is None else now + seconds
    few = min(FEW_STATES, most_states)
    found = _show_less(replace(search, deadline=last), value, bound, few)
    less, steps = found or (value, (step,))
    simple = _checked(graph, less, steps)
    return Written(simple.certificate, simple.rung, f"no proof of {bound:,} bytes: {reason}")


def _show_less(
    search: _Search, known: int, bound: int, most_states: int
) -> tuple[int, Sequence[Step]] | None:
    """Return the best bound between two that cheap steps show, and these; None if there is none."""
    found = None
    for _ in range(MOST_HALVINGS):
        late = search.deadline is not None and time.monotonic() > search.deadline
        if late or bound - known < 2:
            break
        middle = (known + bound) // 2
        steps = None
        with suppress(OutOfTimeError):
            tries = replace(search, budget=middle - 1).cheap_tries(most_states)
            steps = next((steps for steps in tries if steps is not None), None)
        if steps is None:
            bound = middle
        else:
            known, found = middle, (middle, steps)
    return found


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for steps that refute a budget; those on regions or blocks are the first."""

    graph: Graph
    order: IntArray
    budget: int
    deadline: float | None
    blocks: tuple[BlocksStep, ...] = ()
    regions: tuple[RegionStep, ...] = ()

    def tries(self, most_states: int, most_cases: int) -> Iterator[Sequence[Step] | None]:
        """Try one way after the other, the cheapest first."""
        few, search = min(FEW_STATES, most_states), self
        precedences = yield from self.cheap_tries(few)
        chained = self.with_regions()
        if chained.regions:
            yield from chained.cheap_tries(few)
        together = self.with_blocks()
        if together.blocks:
            yield together.states(few)
            search = together.in_line()
            precedences = yield from search.cheap_tries(few)
        tree = search.tree(most_cases)
        yield search.cases(tree, min(SOME_CASES if search.blocks else FEW_CASES, most_cases))
        if together.blocks:
            yield together.states(most_states)
        if chained.regions:
            yield chained.states(most_states)
        yield search.states(most_states, precedences)
        yield search.cases(tree, most_cases)

    def cheap_tries(
        self, most_states: int
    ) -> Generator[Sequence[Step] | None, None, Sequence[OrderStep]]:
        """List few states, then look at ops and sets; return the precedences these led to."""
        yield self.states(most_states)
        precedences, steps = refute(self.graph, self.order, self.budget, self.deadline)
        yield None if steps is None else (*self.regions, *self.blocks, *steps)
        return precedences

    def with_regions(self) -> _Search:
        """The same with regions as chains; all that adds to the graph follows from them."""
        graph = self.graph
        if len(graph.ops) > TOO_MANY or graph.arrays.inplace_op.size:
            return self
        folded, regions = find_regions(graph, self.problem())
        if not regions:
            return self
        order = np.array(folded.expand(folded.shrink(self.order.tolist())), np.int64)
        chains = ([v for part in step.parts for v in part] for step in regions)
        return replace(self, graph=_in_order(graph, chains), order=order, regions=regions)

    def with_blocks(self) -> _Search:
        """The same with the identical blocks of the graph.

        To a search less may be different than to the checker: what an op saves in any case, say.
        """
        network, blocks = Network(self.graph), []
        for family in self.problem().families(wanted=True):
            first, *others = (tuple(row) for row in family.rows.tolist())
            same = [first]
            for row in others:
                with suppress(PlanError):
                    check_blocks(network, (first, row), None)
                    same.append(row)
            if len(same) > 1:
                blocks.append(BlocksStep(tuple(same), None))
        return replace(self, blocks=tuple(blocks))

    def in_line(self) -> _Search:
        """The same with the blocks in line; what that adds to the graph follows from the blocks."""
        graph, families = self.graph, [Family(np.array(step.rows)) for step in self.blocks]
        during = np.empty(len(self.order), np.int64)
        during[self.order] = timeline(graph, self.order).running
        lined = line_up(self.problem(), families, during)
        blocks, lines = [], []
        for step, family in zip(self.blocks, lined.families, strict=True):
            assert family.line is not None
            blocks.append(replace(step, line=family.line))
            lines.append(family.rows[:, family.line].tolist())
        order = np.array(lined.lead(self.order.tolist()), np.int64)
        return replace(self, graph=_in_order(graph, lines), order=order, blocks=tuple(blocks))

    def problem(self) -> SearchContext:
        """The graph as a search has it."""
        net = build_problem(self.graph.arrays)
        return SearchContext(net, self.graph.arrays.initial, deadline=self.deadline)

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
                network, self.budget, few, self.deadline, backward=backward, families=families
            )
            if found is not None:
                return [*self.regions, *self.blocks, *precedences, found]
        return None

    def tree(self, most: int) -> Tree | None:
        """The tree of supposed precedences, if there is to be one."""
        if not most or len(self.graph.ops) > MOST_OPS:
            return None
        try:
            return Tree(self.graph, self.order, self.budget, self.deadline)
        except UnshownError:
            return None

    def cases(self, tree: Tree | None, most: int) -> list[Step] | None:
        """Go on with a tree; its steps if it refutes the budget."""
        try:
            why = None if tree is None else tree.run(most)
            if why is None:
                return None
            steps = list_steps(self.graph, self.budget, why, MOST_STEPS)
            return [*self.regions, *self.blocks, *steps]
        except UnshownError:
            return None


def _in_order(graph: Graph, lines: Iterable[Sequence[int]]) -> Graph:
    """The graph with control dependencies along some lines of ops."""
    control = [set(op.control) for op in graph.ops]
    for line in lines:
        for u, v in pairwise(line):
            control[v].add(u)
    ops = (
        replace(op, control=tuple(sorted(row))) for op, row in zip(graph.ops, control, strict=True)
    )
    return replace(graph, ops=tuple(ops))


def _checked(graph: Graph, bound: int, steps: Sequence[Step]) -> Written:
    """Return the certificate with the rung that the checker gives it."""
    certificate = Certificate(graph.name, bound, tuple(steps))
    return Written(certificate, check_certificate(graph, certificate))
