"""The engine: bounds, contractions, then rounds of search with growing effort.

The order of things is that of their price. A closure bound often meets the warm start; contraction
makes the problem smaller; a short search of states settles most graphs. For the rest a walk over
orders lowers the peak, and budgets between bound and peak are refuted one after another, or an
order within one is found: by the precedences that the budget implies, a tree of assumed ones, and a
search of states. Two workers divide the last part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

import numpy as np

from optsched.model.graph import Graph
from optsched.ordering.bound.closure import closure_bound, raise_closure
from optsched.ordering.bound.precedences import BudgetPrecedences, related
from optsched.ordering.bound.sets import best_set
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.effort import OrderingEffort
from optsched.ordering.improve.anneal import Annealer
from optsched.ordering.improve.neighbourhood import WindowSearch
from optsched.ordering.incumbent import OrderIncumbent
from optsched.ordering.problem import build_problem
from optsched.ordering.progress import NOTHING_BEHIND, OrderProgress
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
    earlier
        What an earlier search of the graph has behind it.
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
        earlier: OrderProgress = NOTHING_BEHIND,
    ) -> None:
        problem = build_problem(graph.arrays)
        self.context = SearchContext(problem, rules, effort, clock)
        self.context.statistics.ops = len(graph.ops)
        self.other: OrderingRounds | None = None
        super().__init__(graph, self.context, warm_start, bound, on_event)
        self.rules, self.effort, self.clock = rules, effort, clock
        self.earlier = earlier
        self.earlier_blame = np.array(earlier.blame or [0] * len(graph.ops), np.int64)
        self.states, self.step = effort.first_states, earlier.stride
        self.steps = 0
        self.closure_complete = False
        self.tried: set[int] = set()
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
        """Go through the schedule until the peak is proved or states run out."""
        for number, step in enumerate(self.schedule()):
            if number >= self.earlier.steps:
                step()
            self.steps = number + 1
            if self.proved:
                return StopReason.PROVED
        return StopReason.EXHAUSTED

    def schedule(self) -> Iterator[Callable[[], object]]:
        """Yield bounds and searches in turn, and set up in between what later ones need.

        An earlier search may have the first of them behind it. What is set up is so in any case.
        """
        effort = self.effort
        yield self.closure_bound
        self.whole.check_time()
        self.contract()
        yield self.closure_bound_again
        large = self.context.ops > effort.local_ops
        if large:
            yield partial(self.search, effort.local_states)
            self.prepare_improving()
            yield self.improve_first
            yield self.local_precedences
        yield partial(self.search, self.states)
        yield self.set_bound
        if self.context.ops > effort.patient_ops:
            yield partial(self.search, effort.patient_states)
        if not large:
            self.prepare_improving()
            yield self.improve_first
        self.prepare_budgets()
        yield self.refute
        yield partial(self.search, self.states * effort.growth)
        yield self.anneal_on
        yield self.search_windows
        self.start_worker()
        yield self.halve_gap
        yield self.search_blocks
        self.step = self.step or max(1, (self.peak - self.bound) // effort.first_step)
        while self.states < effort.most_states:
            self.meet()
            yield self.anneal_on
            yield self.search_windows
            if self.feasibility is None:
                self.states *= effort.growth
                yield partial(self.search, self.states)
            else:
                yield self.climb
                yield self.decide_top_alone
                self.states *= effort.budget_growth
                yield self.search_blocks

    def progress(self) -> OrderProgress:
        """What a later search of the graph needs to go on from here."""
        steps = max(self.steps, self.earlier.steps)
        if self.feasibility is None or self.thread is not None:
            # No budget was tried, or a worker that would not end may still be at the trees.
            return replace(self.earlier, steps=steps)
        workers = [x.feasibility for x in (self.other, self) if x is not None and x.feasibility]
        trees = {budget: tree for x in workers for budget, tree in x.earlier.items()}
        for tree in (tree for x in workers for tree in x.trees.values() if not tree.settled):
            trees.pop(tree.budget, None)
            trees[tree.budget] = tree.leave()
        found = OrderProgress(
            steps,
            self.step,
            tuple(self.reduced.spread(self.feasibility.blame).tolist()),
            () if self.lined is None else self.lined.lines,
            tuple(tree for at, tree in trees.items() if self.bound <= at < self.peak),
        )
        return found.sealed(self.feasibility.context.problem)

    def closure_bound(self) -> None:
        """Raise the bound by flows.

        Over fewer ops flows are quicker: of many the rest waits for contraction.
        """
        effort = self.effort
        few = max(effort.first_flows, effort.flow_looks // max(1, self.whole.ops))
        found = closure_bound(self.graph, [self.order], clock=self.clock, most=few, effort=effort)
        self.whole.statistics.flows += found.flows
        self.raise_bound(found.value, Proof.BOUND, "closure bound")
        self.closure_complete = found.complete

    def contract(self) -> None:
        """Go on with the contracted problem."""
        self.reduced = reduce(self.whole)
        priority = self.reduced.gather(self.whole.during(self.order))
        self.context = replace(self.whole, problem=self.reduced.problem, priority=priority)
        self.context.statistics.merged = self.whole.ops - self.context.ops
        self.accept_reduced(self.shrunk(), "contraction")

    def closure_bound_again(self) -> None:
        """Look for the closure bound of the contracted problem, if the first look was too short."""
        if self.closure_complete:
            return
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

    def set_bound(self) -> None:
        """Raise the bound by sets of ops, of which one runs last and one first."""
        context = self.context
        if self.rules.sets and context.ops <= self.effort.budget_ops:
            found = best_set(context, related(context.problem), self.bound, self.peak)
            if found is not None:
                self.force(found.value, "set bound")

    def local_precedences(self) -> None:
        """Try what is quick for many ops: orders, and what a few ops near the peak imply."""
        self.search_windows()
        if self.rules.nearby and not self.proved:
            precedences = BudgetPrecedences(self.line_up())
            expected = self.context.during(self.shrunk())
            if precedences.refute(self.peak - 1, expected, near=True):
                self.force(self.peak, "precedences near the peak")

    def prepare_budgets(self) -> None:
        """Set up what an easy problem does not need: precedences that budgets imply."""
        context = self.line_up()
        if self.rules.implied and context.ops <= self.effort.budget_ops:
            trees = self.earlier.trees_of(context.problem)
            during = self.context.during(self.shrunk())
            blame = self.reduced.gather(self.earlier_blame)
            self.feasibility = FeasibilitySearch(context, during, blame, trees)

    def line_up(self) -> SearchContext:
        """The problem with identical blocks in line, if there are any."""
        families = self.context.families(wanted=True)
        if families and self.lined is None:
            during = self.context.during(self.shrunk())
            self.lined = line_up(self.context, families, during, self.earlier.lines)
        return self.context if self.lined is None else self.lined.context

    def prepare_improving(self) -> None:
        """Set up annealing and windows."""
        seed = self.clock.limits.seed
        if self.rules.anneal:
            self.annealer = Annealer(self.context, self.shrunk(), seed, self.earlier.steps)
        if self.rules.windows:
            self.windows = WindowSearch(self.context, self.shrunk(), seed, self.earlier.steps)

    def improve_first(self) -> None:
        """Anneal before budgets are tried: the lower the peak, the more a budget below implies."""
        self.anneal(self.effort.first_states)

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

    def decide_top_alone(self) -> None:
        """Decide the budget just below the peak if the other worker does not, nor did the climb."""
        if self.thread is None and self.peak - 1 not in self.tried:
            self.decide_top(self.states)

    def decide_top(self, states: int) -> None:
        """Decide the budget just below the peak as long as that gives better orders."""
        known = self.peak + 1
        while self.bound < self.peak < known:
            self.meet()
            known = self.peak
            far = self.effort.far_gap * (self.peak - self.bound) > self.peak
            self.decide(known - 1, states // self.effort.far_part if far else states)

    def climb(self) -> None:
        """Refute budgets from the bound upwards, in steps as long as the effort allows."""
        assert self.feasibility is not None
        self.tried.clear()
        smallest = max(1, self.peak // self.effort.smallest_step)
        while not self.proved:
            self.meet()
            bound, budget = self.bound, min(self.bound + self.step, self.peak) - 1
            budget = self.feasibility.begun(budget, bound)
            self.tried.add(budget)
            self.decide(budget, self.states)
            if self.bound > budget:
                self.step *= 2
            elif self.bound == bound and self.step <= smallest:
                break
            else:
                self.step = max(smallest, self.step // 2)

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

    def anneal_on(self) -> None:
        """Walk over orders for as long as a round is."""
        self.anneal(self.states * self.effort.growth)

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
        if self.windows is None or self.proved:
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
            other.annealer = Annealer(other.context, order, seed, self.earlier.steps)
        if self.windows is not None:
            other.windows = WindowSearch(other.context, order, seed, self.earlier.steps)
        if self.feasibility is not None:
            count, ended = other.context.statistics, other.context.ended
            mine, blame = self.feasibility, self.reduced.gather(self.earlier_blame)
            context = replace(mine.context, statistics=count, ended=ended)
            other.feasibility = FeasibilitySearch(context, mine.during, blame, mine.earlier)
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
            self.anneal_on()
            self.search_windows()
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
        try:
            self.thread.join()
        finally:
            self.meet()
        self.thread = None
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
