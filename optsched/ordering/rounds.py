"""The engine: bounds, contractions, then rounds of search with growing effort."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.ordering.bound.closure import closure_bound, raise_closure
from optsched.ordering.bound.precedences import BudgetPrecedences
from optsched.ordering.context import SearchContext
from optsched.ordering.improve.anneal import Annealer
from optsched.ordering.improve.neighbourhood import Windows
from optsched.ordering.incumbent import Known
from optsched.ordering.problem import build_problem
from optsched.ordering.reduce.regions import reduce
from optsched.ordering.reduce.symmetry import Lined, line_up
from optsched.ordering.rules import Rules, Statistics
from optsched.ordering.search.feasibility import Answer, Decider, search_all
from optsched.ordering.search.worker import Sibling
from optsched.runtime.limits import Limits, OnEvent, Proof, StopReason

TOO_MANY = 12_000
"""Above this many ops no budgets are decided: strengthening the problem takes too long."""

FIRST_EFFORT, EFFORT_GROWTH = 2_048, 4
"""States that each direction may store in the first round; how much more in each later one."""

WINDOW_STATES, WINDOW_TRIES = 8_192, 16
"""States per direction in a window; windows in a row that may fail."""

TREE_GROWTH = 2
"""The same where budgets are decided, as trees are taken up again and not begun anew."""

FAR, FAR_PART = 16, 4
"""Where the gap is more than such a part of the peak, the budget just below the peak gets so many
times less effort than others: refuting it is far off, though it may lead to a better order."""

FIRST_STEP, LEAST_STEP = 4, 128
"""By which part of the gap budgets are raised at first; which part of the peak is too small."""

MOVES_A_STATE = 16
"""So many moves of a walk take about as long as a state."""

HALVINGS = 8
"""Budgets that are refuted or not between the bound and the peak, in a round."""

NEARBY_OPS = 1_000
"""With more ops, precedences near the peak are looked for before those of all ops."""

PATIENT_OPS, PATIENT_STATES = 3_000, 12_288
"""With more ops, relations of all take longer than so many states: search among these first."""

MOST_STATES = 8_000_000
"""States that one direction may hold: about 1 GB."""


FEW_FLOWS = 96
"""Flows for the closure bound that are made in any case before contraction,"""

MOST_LOOKS = 1 << 23
"""and more as long as they look at no more ops than this together."""


class Run(Known):
    """Rounds of search with growing effort.

    Parameters
    ----------
    graph, warm_start, bound, on_event
        As :class:`Known` takes them.
    limits, rules
        How long to search; what the search may use.
    """

    def __init__(
        self,
        graph: Graph,
        limits: Limits,
        warm_start: Sequence[int] | None,
        bound: int,
        rules: Rules,
        on_event: OnEvent | None,
    ) -> None:
        started = time.monotonic()
        deadline = None if limits.seconds is None else started + limits.seconds
        self.context = SearchContext(
            build_problem(graph.arrays), graph.arrays.initial, rules, deadline
        )
        self.context.statistics.ops = len(graph.ops)
        super().__init__(graph, self.context, warm_start, bound, on_event, started)
        self.rules, self.deadline = rules, deadline
        self.seed, self.workers = limits.seed, limits.workers
        self.effort, self.step = FIRST_EFFORT, 1
        self.latest: tuple[Sequence[int], list[int]] = ((), [])
        self.other: Run | None = None
        self.sibling: Sibling | None = None
        self.windows: Windows | None = None
        self.annealer: Annealer | None = None
        self.decider: Decider | None = None
        self.lined: Lined | None = None

    def report(self, source: str) -> None:
        """Tell what is known now; let the other worker end if that is all there is to know."""
        other = self.other
        if other and max(self.bound, other.bound) >= min(self.peak, other.peak):
            other.context.ended.set()
        super().report(source)

    def take_order(self, order: Sequence[int], source: str) -> None:
        """Take an order of the contracted problem if it is better."""
        self.take_whole(self.small.expand(order), source)

    def shrunk(self) -> list[int]:
        """The best order, of the contracted problem; regions make that take a while."""
        if self.latest[0] is not self.order:
            self.latest = self.order, self.small.shrink(self.order)
        return list(self.latest[1])

    def solve(self) -> StopReason:
        """Go through bounds, contractions and rounds until the peak is proved or states run out."""
        # Flows over fewer ops are quicker: of many the rest waits for contraction.
        few = max(FEW_FLOWS, MOST_LOOKS // max(1, self.whole.ops))
        found = closure_bound(self.graph, [self.order], deadline=self.deadline, most=few)
        self.whole.statistics.flows += found.flows
        self.raise_bound(found.value, Proof.BOUND, "closure bound")
        if self.bound >= self.peak:
            return StopReason.PROVED
        self.whole.check_time()
        self.small = reduce(self.whole)
        during = np.empty(self.whole.ops, np.int64)
        during[self.order] = self.whole.follow(self.order)[1]
        priority = self.small.gather(during)
        self.context = replace(self.whole, problem=self.small.problem, priority=priority)
        self.context.statistics.merged = self.whole.ops - self.context.ops
        self.take_order(self.shrunk(), "contraction")
        if not found.complete:
            self.look_again()
        if self.context.ops > NEARBY_OPS:
            self.search(FIRST_EFFORT // 32)
            self.approach()
        self.search(FIRST_EFFORT)
        if self.context.ops > PATIENT_OPS:
            self.search(PATIENT_STATES)
        self.prepare()
        self.search(self.effort * EFFORT_GROWTH)
        self.anneal(self.effort * EFFORT_GROWTH)
        self.improve(self.effort // 8)
        self.hire()
        self.narrow()
        self.search_blocks()
        self.step = max(1, (self.peak - self.bound) // FIRST_STEP)
        while self.bound < self.peak and self.effort < MOST_STATES:
            self.meet()
            self.anneal(self.effort * EFFORT_GROWTH)
            self.improve(self.effort // 8)
            if self.decider is None:
                self.effort *= EFFORT_GROWTH
                self.search(self.effort)
            else:
                self.settle()
                self.effort *= TREE_GROWTH
                self.search_blocks()
        return StopReason.PROVED if self.bound >= self.peak else StopReason.EXHAUSTED

    def look_again(self) -> None:
        """Look for the closure bound of the contracted problem."""
        context, order = self.context, self.shrunk()
        cap = np.empty(context.ops, np.int64)
        cap[order] = context.follow(order)[1]
        found = raise_closure(
            context.problem, context.base, cap, self.bound, deadline=self.deadline
        )
        self.context.statistics.flows += found.flows
        self.force(found.value, "closure bound")
        self.context.check_time()

    def force(self, bound: int, source: str) -> None:
        """Take a bound that ops, sets or precedences force; chains of regions rest on searches."""
        regions = self.whole.statistics.regions
        self.raise_bound(bound, Proof.SEARCH if regions else Proof.BOUND, source)

    def hire(self) -> None:
        """Let a second worker look for orders from here on, if there may be one."""
        if self.workers < 2 or self.bound >= self.peak:
            return
        order = self.shrunk()
        other = copy(self)
        other.on_event, other.other = None, self
        other.context = replace(self.context, statistics=Statistics(), ended=threading.Event())
        if self.annealer is not None:
            other.annealer = Annealer(other.context, order, self.seed + 1)
        if self.windows is not None:
            other.windows = Windows(other.context, order, self.seed + 1)
        if self.decider is not None:
            count, ended = other.context.statistics, other.context.ended
            context = replace(self.decider.context, statistics=count, ended=ended)
            other.decider = Decider(context, self.decider.during)
        self.annealer = self.windows = None
        self.other = other
        self.sibling = Sibling(other.seek, other.context.ended)

    def seek(self) -> None:
        """What a second worker does: look for orders, and help to refute budgets."""
        assert self.other is not None
        while self.bound < self.peak and self.effort < MOST_STATES:
            self.meet()
            self.anneal(self.effort * EFFORT_GROWTH)
            self.improve(self.effort // 8)
            if self.decider is None:
                self.effort *= EFFORT_GROWTH
                continue
            self.decide_top(self.effort)
            self.effort = self.other.effort
            while self.effort == self.other.effort and self.bound < self.peak:
                self.context.check_time()
                self.help(self.effort)
                self.meet()

    def help(self, states: int) -> None:
        """Have a part in what the other worker is at."""
        assert self.decider is not None
        assert self.other is not None
        if self.bound < self.peak and self.other.decider is not None:
            budget, answer = self.decider.help(self.other.decider, states)
            self.take_answer(answer, budget, "search")

    def dismiss(self) -> None:
        """Let the second worker end, and keep what it found."""
        if self.sibling is None or self.other is None:
            return
        try:
            self.sibling.dismiss()
        finally:
            self.sibling = None
            self.meet()
        self.other.context.collect()
        self.context.statistics.add(self.other.context.statistics)

    def approach(self) -> None:
        """What is quick for many ops: walks and windows, and what the peak's neighbourhood says."""
        self.equip()
        self.improve(FIRST_EFFORT // 8)
        if not self.rules.nearby or self.bound >= self.peak:
            return
        precedences = BudgetPrecedences(self.line_up())
        if precedences.refute(self.peak - 1, self.during(), near=True):
            self.force(self.peak, "precedences near the peak")

    def prepare(self) -> None:
        """Set up what an easy problem needs not: walks, windows, relations."""
        self.equip()
        if self.bound >= self.peak:
            return
        context = self.line_up()
        if context.ops > TOO_MANY:
            return
        if self.rules.implied:
            self.decider = Decider(context, self.during())
            self.refute()

    def line_up(self) -> SearchContext:
        """The problem with identical blocks in line, if there are any."""
        families = self.context.families(wanted=True)
        if families and self.lined is None:
            self.lined = line_up(self.context, families, self.during())
        return self.context if self.lined is None else self.lined.context

    def equip(self) -> None:
        """Set up walks and windows, once."""
        if self.bound >= self.peak:
            return
        if self.rules.anneal and self.annealer is None:
            self.annealer = Annealer(self.context, self.shrunk(), self.seed)
            # Before budgets are tried: the lower the peak, the more a budget below it implies.
            self.anneal(FIRST_EFFORT)
        if self.rules.windows and self.windows is None:
            self.windows = Windows(self.context, self.shrunk(), self.seed)

    def during(self) -> IntArray:
        """Live bytes while each op runs in the best order."""
        during = np.empty(self.context.ops, np.int64)
        order = self.shrunk()
        during[order] = self.context.follow(order)[1]
        return during

    def search(self, states: int) -> None:
        """Search for an order below the peak, in line where there are blocks.

        Where they are large, also without: that alone lets all states count as one that are alike.
        """
        if self.lined is None or self.lined.large:
            self.search_in(self.context, states, list)
        if self.lined is not None:
            self.search_in(self.lined.context, states, self.lined.lead)

    def search_blocks(self) -> None:
        """Search states where blocks are large, as long as a tree is looked at, or longer."""
        if self.lined is not None and self.lined.large:
            self.search(min(self.effort * EFFORT_GROWTH**2, MOST_STATES))

    def search_in(
        self, context: SearchContext, states: int, lead: Callable[[Sequence[int]], list[int]]
    ) -> None:
        """Search a problem of the same ops and least peak; `lead` makes an order one of its own."""
        if self.bound < self.peak:
            order = lead(self.shrunk())
            answer = search_all(context, self.bound, self.peak, states, self.searched, order)
            context.collect()
            self.take_answer(answer, self.peak - 1, "search")

    def settle(self) -> None:
        """Decide budgets between the bound and the peak."""
        tried = self.climb(self.effort)
        if self.sibling is None and self.peak - 1 not in tried:
            self.decide_top(self.effort)

    def decide_top(self, states: int) -> None:
        """Decide the budget just below the peak as long as that gives better orders."""
        known = self.peak + 1
        while self.bound < self.peak < known:
            self.meet()
            known = self.peak
            far = FAR * (self.peak - self.bound) > self.peak
            self.decide(known - 1, states // FAR_PART if far else states)

    def climb(self, states: int) -> set[int]:
        """Refute budgets from the bound upwards, in steps as long as the effort allows.

        Returns the budgets that this effort was spent on.
        """
        assert self.decider is not None
        tried: set[int] = set()
        least = max(1, self.peak // LEAST_STEP)
        while self.bound < self.peak:
            self.meet()
            budget = min(self.bound + self.step, self.peak) - 1
            bound, budget = self.bound, self.decider.begun(budget, self.bound)
            tried.add(budget)
            self.decide(budget, states)
            if self.bound > budget:
                self.step *= 2
            elif self.bound == bound and self.step <= least:
                break
            else:
                self.step = max(least, self.step // 2)
        return tried

    def decide(self, budget: int, states: int) -> None:
        """Look for an order within a budget below the peak."""
        assert self.decider is not None
        answer = self.decider.decide(budget, self.bound, states, self.searched)
        self.take_answer(answer, budget, "search")

    def take_answer(self, answer: Answer, budget: int, source: str) -> None:
        """Take what was found out about a budget."""
        if answer.refuted:
            self.raise_bound(budget + 1, Proof.SEARCH, source)
        elif answer.order is not None:
            self.take_order(answer.order, source)

    def searched(self, bound: int) -> None:
        """Take a bound that a search of states has proved."""
        self.raise_bound(bound, Proof.SEARCH, "search")

    def anneal(self, states: int) -> None:
        """Walk over orders for about as long as so many states would take."""
        if self.annealer is None or self.bound >= self.peak:
            return
        if self.annealer.peak > self.peak:
            self.annealer.take(self.shrunk())
        try:
            self.annealer.improve(states * MOVES_A_STATE, self.bound)
        finally:
            self.take_order(self.annealer.order, "annealing")

    def improve(self, states: int) -> None:
        """Search windows of the best order as long as that helps."""
        if self.windows is not None and self.windows.peak > self.peak:
            self.windows.take(self.shrunk())
        while self.windows is not None and self.windows.improve(
            min(states, WINDOW_STATES), WINDOW_TRIES, self.bound
        ):
            self.take_order(self.windows.order, "window")

    def refute(self) -> None:
        """Prove the peak if the precedences that a smaller one implies contradict each other."""
        if self.decider and self.bound < self.peak and self.decider.refutes(self.peak - 1):
            self.force(self.peak, "implied precedences")

    def narrow(self) -> None:
        """Raise the bound by budgets that implied precedences refute, halving the gap."""
        self.refute()
        if self.decider is None or self.bound >= self.peak:
            return
        low, high = self.bound - 1, self.peak - 1
        for _ in range(HALVINGS):
            middle = (low + high) // 2
            if not low < middle < high:
                break
            if self.decider.refutes(middle):
                low = middle
                self.force(middle + 1, "implied precedences")
            else:
                high = middle
