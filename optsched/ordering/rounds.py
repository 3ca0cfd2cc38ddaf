"""The engine: bounds, contractions, then rounds of search with growing effort.

The order of things is that of their price. A closure bound often meets the warm start; contraction
makes the problem smaller; a short search of states settles most graphs. For the rest a walk over
orders lowers the peak, and budgets between bound and peak are refuted one after another, or an
order within one is found: by the precedences that the budget implies, a tree of assumed ones, and a
search of states. Two workers divide the last part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from optsched.model.graph import Graph
from optsched.ordering.bound.closure import closure_bound, raise_closure
from optsched.ordering.bound.precedences import BudgetPrecedences
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.effort import OrderingEffort
from optsched.ordering.improve.anneal import Annealer
from optsched.ordering.improve.neighbourhood import WindowSearch
from optsched.ordering.incumbent import OrderIncumbent
from optsched.ordering.problem import build_problem
from optsched.ordering.reduce.regions import reduce
from optsched.ordering.reduce.symmetry import LinedUp, line_up
from optsched.ordering.rules import OrderingRules, Statistics
from optsched.ordering.search.feasibility import Feasibility, FeasibilitySearch, search_all
from optsched.runtime.clock import Clock
from optsched.runtime.limits import OnEvent, Proof, StopReason


class OrderingRounds(OrderIncumbent):
    """Rounds of search with growing effort.

    Parameters
    ----------
    graph, warm_start, bound, on_event
        As :class:`OrderIncumbent` takes them.
    clock
        How long to search.
    rules, effort
        What the search may use, and how much of it.
    blame
        How often contradictions came up at each op in an earlier search of the graph; or empty.
    """

    def __init__(
        self,
        graph: Graph,
        clock: Clock,
        warm_start: Sequence[int] | None,
        bound: int,
        rules: OrderingRules,
        effort: OrderingEffort,
        on_event: OnEvent | None,
        blame: Sequence[int] = (),
    ) -> None:
        problem = build_problem(graph.arrays)
        self.context = SearchContext(problem, rules, effort, clock)
        self.context.statistics.ops = len(graph.ops)
        self.other: OrderingRounds | None = None
        super().__init__(graph, self.context, warm_start, bound, on_event)
        self.rules, self.effort, self.clock = rules, effort, clock
        self.earlier_blame = np.array(blame or [0] * len(graph.ops), np.int64)
        self.states, self.step = effort.first_states, 1
        self.latest: tuple[Sequence[int], list[int]] = ((), [])
        self.thread: WorkerThread | None = None
        self.windows: WindowSearch | None = None
        self.annealer: Annealer | None = None
        self.feasibility: FeasibilitySearch | None = None
        self.lined: LinedUp | None = None

    def report(self, source: str) -> None:
        """Tell what is known now; let the other worker end if that is all there is to know."""
        other = self.other
        if other and max(self.bound, other.bound) >= min(self.peak, other.peak):
            other.context.ended.set()
        super().report(source)

    def accept_reduced(self, order: Sequence[int], source: str) -> None:
        """Accept an order of the contracted problem if it is better."""
        self.accept(self.reduced.expand(order), source)

    def shrunk(self) -> list[int]:
        """The best order, of the contracted problem; regions make that take a while."""
        if self.latest[0] is not self.order:
            self.latest = self.order, self.reduced.shrink(self.order)
        return list(self.latest[1])

    def solve(self) -> StopReason:
        """Go through bounds, contractions and rounds until the peak is proved or states run out."""
        effort = self.effort
        complete = self.closure_bound()
        if self.proved:
            return StopReason.PROVED
        self.whole.check_time()
        self.contract()
        if not complete:
            self.closure_bound_again()
        if self.context.ops > effort.local_ops:
            self.search(effort.local_states)
            self.local_precedences()
        self.search(self.states)
        if self.context.ops > effort.patient_ops:
            self.search(effort.patient_states)
        self.prepare()
        self.search(self.states * effort.growth)
        self.improve()
        self.start_worker()
        self.halve_gap()
        self.search_blocks()
        self.states = max(self.states, min(effort.reached_states, effort.most_states))
        self.step = max(1, (self.peak - self.bound) // effort.first_step)
        while not self.proved and self.states < effort.most_states:
            self.meet()
            self.improve()
            if self.feasibility is None:
                self.states *= effort.growth
                self.search(self.states)
            else:
                self.settle()
                self.states *= effort.budget_growth
                self.search_blocks()
        return StopReason.PROVED if self.proved else StopReason.EXHAUSTED

    def closure_bound(self) -> bool:
        """Raise the bound by flows; whether all that may raise it were made.

        Over fewer ops flows are quicker: of many the rest waits for contraction.
        """
        effort = self.effort
        few = max(effort.first_flows, effort.flow_looks // max(1, self.whole.ops))
        found = closure_bound(self.graph, [self.order], clock=self.clock, most=few, effort=effort)
        self.whole.statistics.flows += found.flows
        self.raise_bound(found.value, Proof.BOUND, "closure bound")
        return found.complete

    def contract(self) -> None:
        """Go on with the contracted problem."""
        self.reduced = reduce(self.whole)
        priority = self.reduced.gather(self.whole.during(self.order))
        self.context = replace(self.whole, problem=self.reduced.problem, priority=priority)
        self.context.statistics.merged = self.whole.ops - self.context.ops
        self.accept_reduced(self.shrunk(), "contraction")

    def closure_bound_again(self) -> None:
        """Look for the closure bound of the contracted problem."""
        context = self.context
        cap = context.during(self.shrunk())
        found = raise_closure(
            context.problem, cap, self.bound, clock=self.clock, effort=self.effort
        )
        context.statistics.flows += found.flows
        self.force(found.value, "closure bound")
        context.check_time()

    def force(self, bound: int, source: str) -> None:
        """Accept a bound that flows show; that regions may be chains was shown by searches."""
        regions = self.whole.statistics.regions
        self.raise_bound(bound, Proof.SEARCH if regions else Proof.BOUND, source)

    def local_precedences(self) -> None:
        """Try what is quick for many ops: orders, and what a few ops near the peak imply."""
        self.start_improving()
        self.search_windows()
        if self.rules.nearby and not self.proved:
            precedences = BudgetPrecedences(self.line_up())
            expected = self.context.during(self.shrunk())
            if precedences.refute(self.peak - 1, expected, near=True):
                self.force(self.peak, "precedences near the peak")

    def prepare(self) -> None:
        """Set up what an easy problem does not need: annealing, windows, precedences."""
        self.start_improving()
        if self.proved:
            return
        context = self.line_up()
        if self.rules.implied and context.ops <= self.effort.budget_ops:
            blame = self.reduced.gather(self.earlier_blame)
            during = self.context.during(self.shrunk())
            self.feasibility = FeasibilitySearch(context, during, blame)
            self.refute()

    def blame(self) -> tuple[int, ...]:
        """How often contradictions came up at each op; empty if no budget was decided."""
        if self.feasibility is None:
            return ()
        return tuple(self.reduced.spread(self.feasibility.blame).tolist())

    def line_up(self) -> SearchContext:
        """The problem with identical blocks in line, if there are any."""
        families = self.context.families(wanted=True)
        if families and self.lined is None:
            during = self.context.during(self.shrunk())
            self.lined = line_up(self.context, families, during)
        return self.context if self.lined is None else self.lined.context

    def start_improving(self) -> None:
        """Set up annealing and windows, once."""
        if self.proved:
            return
        seed = self.clock.limits.seed
        if self.rules.anneal and self.annealer is None:
            self.annealer = Annealer(self.context, self.shrunk(), seed)
            # Before budgets are tried: the lower the peak, the more a budget below it implies.
            self.anneal(self.effort.first_states)
        if self.rules.windows and self.windows is None:
            self.windows = WindowSearch(self.context, self.shrunk(), seed)

    def search(self, states: int) -> None:
        """Search for an order below the peak, in line where there are blocks.

        Where they are large, also without: that alone lets all states count as one that are alike.
        """
        if self.lined is None or self.lined.large:
            self.search_in(self.context, states, self.shrunk())
        if self.lined is not None:
            self.search_in(self.lined.context, states, self.lined.lead(self.shrunk()))

    def search_blocks(self) -> None:
        """Search states where blocks are large, as long as a tree is looked at, or longer."""
        if self.lined is not None and self.lined.large:
            self.search(min(self.states * self.effort.growth**2, self.effort.most_states))

    def search_in(self, context: SearchContext, states: int, order: list[int]) -> None:
        """Search a problem of the same optimum, of which an order of at most the peak is known."""
        if not self.proved:
            answer = search_all(context, self.bound, self.peak, states, self.searched, order)
            context.collect()
            self.accept_answer(answer, self.peak - 1)

    def settle(self) -> None:
        """Decide budgets between the bound and the peak."""
        tried = self.climb(self.states)
        if self.thread is None and self.peak - 1 not in tried:
            self.decide_top(self.states)

    def decide_top(self, states: int) -> None:
        """Decide the budget just below the peak as long as that gives better orders."""
        known = self.peak + 1
        while self.bound < self.peak < known:
            self.meet()
            known = self.peak
            far = self.effort.far_gap * (self.peak - self.bound) > self.peak
            self.decide(known - 1, states // self.effort.far_part if far else states)

    def climb(self, states: int) -> set[int]:
        """Refute budgets from the bound upwards, in steps as long as the effort allows.

        Returns the budgets that this effort was spent on.
        """
        assert self.feasibility is not None
        tried: set[int] = set()
        smallest = max(1, self.peak // self.effort.smallest_step)
        while not self.proved:
            self.meet()
            bound, budget = self.bound, min(self.bound + self.step, self.peak) - 1
            budget = self.feasibility.begun(budget, bound)
            tried.add(budget)
            self.decide(budget, states)
            if self.bound > budget:
                self.step *= 2
            elif self.bound == bound and self.step <= smallest:
                break
            else:
                self.step = max(smallest, self.step // 2)
        return tried

    def decide(self, budget: int, states: int) -> None:
        """Look for an order within a budget below the peak."""
        assert self.feasibility is not None
        answer = self.feasibility.decide(budget, self.bound, states, self.searched)
        self.accept_answer(answer, budget)

    def accept_answer(self, answer: Feasibility, budget: int) -> None:
        """Accept what was found out about a budget."""
        if answer.refuted:
            self.searched(budget + 1)
        elif answer.order is not None:
            self.accept_reduced(answer.order, "search")

    def searched(self, bound: int) -> None:
        """Accept a bound that a search has proved."""
        self.raise_bound(bound, Proof.SEARCH, "search")

    def improve(self) -> None:
        """Look for better orders, by annealing and in windows of the best one."""
        self.anneal(self.states * self.effort.growth)
        self.search_windows()

    def catch_up(self, search: Annealer | WindowSearch) -> None:
        """Let a search for better orders go on from the best one, if its own is not as good."""
        if search.peak > self.peak and self.context.follow(self.shrunk())[0] < search.peak:
            search.start_from(self.shrunk())

    def anneal(self, states: int) -> None:
        """Walk over orders for about as long as storing `states` states would take."""
        if self.annealer is None or self.proved:
            return
        self.catch_up(self.annealer)
        try:
            self.annealer.improve(states * self.effort.moves_per_state, self.bound)
        finally:
            self.accept_reduced(self.annealer.order, "annealing")

    def search_windows(self) -> None:
        """Search windows of the best order as long as that helps."""
        if self.windows is None:
            return
        self.catch_up(self.windows)
        states = min(self.states // 8, self.effort.window_states)
        while self.windows.improve(states, self.effort.window_tries, self.bound):
            self.accept_reduced(self.windows.order, "window")

    def refute(self) -> None:
        """Prove the peak if the precedences that a smaller one implies contradict each other."""
        if self.feasibility and not self.proved and self.feasibility.refutes(self.peak - 1):
            self.force(self.peak, "implied precedences")

    def halve_gap(self) -> None:
        """Raise the bound by budgets that implied precedences refute, halving the gap."""
        self.refute()
        if self.feasibility is None or self.proved:
            return
        low, high = self.bound - 1, self.peak - 1
        for _ in range(self.effort.halvings):
            middle = (low + high) // 2
            if not low < middle < high:
                break
            if self.feasibility.refutes(middle):
                low = middle
                self.force(middle + 1, "implied precedences")
            else:
                high = middle

    def start_worker(self) -> None:
        """Let a second worker look for orders from here on, if there may be one."""
        if self.clock.limits.workers < 2 or self.proved:
            return
        order, seed = self.shrunk(), self.clock.limits.seed + 1
        other = copy(self)
        other.on_event, other.other = None, self
        other.context = replace(self.context, statistics=Statistics(), ended=threading.Event())
        if self.annealer is not None:
            other.annealer = Annealer(other.context, order, seed)
        if self.windows is not None:
            other.windows = WindowSearch(other.context, order, seed)
        if self.feasibility is not None:
            count, ended = other.context.statistics, other.context.ended
            context = replace(self.feasibility.context, statistics=count, ended=ended)
            during, blame = self.feasibility.during, self.reduced.gather(self.earlier_blame)
            other.feasibility = FeasibilitySearch(context, during, blame)
        self.annealer = self.windows = None
        self.other = other
        self.thread = WorkerThread(other.seek, other.context.ended)

    def meet(self) -> None:
        """Accept what the other worker has found."""
        if self.other is not None:
            self.merge_from(self.other)

    def seek(self) -> None:
        """What a second worker does: look for orders, and help to refute budgets."""
        assert self.other is not None
        while not self.proved and self.states < self.effort.most_states:
            self.meet()
            self.improve()
            if self.feasibility is None:
                self.states *= self.effort.growth
                continue
            self.decide_top(self.states)
            self.states = self.other.states
            while self.states == self.other.states and not self.proved:
                self.context.check_time()
                if self.other.feasibility is not None:
                    found = self.feasibility.help(self.other.feasibility, self.states)
                    self.accept_answer(found[1], found[0])
                self.meet()

    def join_worker(self) -> None:
        """Let the second worker end, and keep what it found."""
        if self.thread is None or self.other is None:
            return
        thread, self.thread = self.thread, None
        try:
            thread.join()
        finally:
            self.meet()
        self.other.context.collect()
        self.context.statistics.add(self.other.context.statistics)


class WorkerThread:
    """Work in a thread of its own, until it is done or told to end.

    A second worker looks for orders while the first refutes budgets. Both spend nearly all their
    time in compiled kernels, which run without the interpreter's lock. A thread shares the problem
    as it is, and ends with its process whatever becomes of that.

    Parameters
    ----------
    work
        What to do; :class:`OutOfTimeError` ends it.
    end
        Set to make the work raise that the next time it looks at the clock.
    """

    def __init__(self, work: Callable[[], object], end: threading.Event) -> None:
        self.work, self.end = work, end
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="second worker", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.work()
        except OutOfTimeError:
            pass
        except BaseException as failure:
            self.failure = failure

    def join(self) -> None:
        """End the work, wait for it, and raise what went wrong in it."""
        self.end.set()
        self.thread.join()
        if self.failure is not None:
            raise self.failure
