"""Schedule of the exact ordering engine: bounds, contractions, then rounds of growing effort.

Cheap parts run first. A closure bound often equals the peak of the warm start; contraction makes
the problem smaller; a short search of states proves most graphs. For the others, annealing lowers
the peak, and *budgets* (numbers of bytes between bound and peak) are decided one after another. To
decide a budget is to find an order within it, or to prove that there is none: by the precedences
that the budget implies, a tree of assumed precedences, and a search of states.

Two workers divide that last part: the first decides budgets from the bound upwards, the second
looks for better orders, decides the budget just below the peak, and takes parts of the first
worker's tree.

Example: bound 80, peak 100. The first budget is 84 (a quarter of the gap). If it is refuted the
bound is 85 and the next step twice as long; an order of 83 bytes would make the peak 83 instead.
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
from optsched.ordering.bound.table import ORDER_BOUNDS
from optsched.ordering.context import SearchContext
from optsched.ordering.effort import OrderingEffort
from optsched.ordering.improve.anneal import Annealer
from optsched.ordering.improve.neighborhood import WindowSearch
from optsched.ordering.incumbent import OrderIncumbent
from optsched.ordering.problem import build_problem
from optsched.ordering.progress import NOTHING_DONE, OrderProgress
from optsched.ordering.reduce.regions import reduce
from optsched.ordering.reduce.symmetry import OrderedCopies, order_copies
from optsched.ordering.rules import OrderingRules, Statistics
from optsched.ordering.search.feasibility import Feasibility, FeasibilitySearch, search_all
from optsched.ordering.worker_thread import WorkerThread
from optsched.runtime.clock import Clock
from optsched.runtime.limits import OnEvent, Proof, StopReason


class OrderingRounds(OrderIncumbent):
    """One run of the exact ordering engine on a graph.

    `graph`, `warm_start`, `bound`, `on_event`: as for :class:`OrderIncumbent`. `clock`: limit on
    time or work. `rules`, `effort`: rules that the search may use, and limits on the work of each.
    `earlier`: state of an earlier search of the graph, to resume from.
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
        earlier: OrderProgress = NOTHING_DONE,
    ) -> None:
        problem = build_problem(graph.arrays)
        self.context = SearchContext(problem, rules, effort, clock)
        self.context.statistics.ops = len(graph.ops)
        # The second worker, once it is started.
        self.other: OrderingRounds | None = None
        super().__init__(graph, self.context, warm_start, bound, on_event)
        self.rules, self.effort, self.clock = rules, effort, clock
        self.earlier = earlier
        self.earlier_failures = np.array(earlier.failure_counts or [0] * len(graph.ops), np.int64)
        self.states, self.step = effort.first_states, earlier.stride
        self.steps = 0
        self.closure_complete = False
        self.tried: set[int] = set()
        self.latest: tuple[Sequence[int], list[int]] = ((), [])
        self.thread: WorkerThread | None = None
        self.windows: WindowSearch | None = None
        self.annealer: Annealer | None = None
        self.feasibility: FeasibilitySearch | None = None
        self.copies: OrderedCopies | None = None

    def report(self, source: str) -> None:
        """Report the present peak and bound; stop the other worker if the peak is proved."""
        other = self.other
        # The other worker's search would answer a question that is closed.
        if other and max(self.bound, other.bound) >= min(self.peak, other.peak):
            other.context.ended.set()
        super().report(source)

    def accept_reduced(self, order: Sequence[int], source: str) -> None:
        """Accept an order of the contracted problem if it is better."""
        self.accept(self.reduced.expand(order), source)

    def shrunk(self) -> list[int]:
        """Return the best order as one of the contracted problem."""
        # Kept until the order changes: with regions the translation takes a while.
        if self.latest[0] is not self.order:
            self.latest = self.order, self.reduced.shrink(self.order)
        return list(self.latest[1])

    def solve(self) -> StopReason:
        """Run the schedule until the peak is proved or the limit on states is reached."""
        for number, step in enumerate(self.schedule()):
            # Steps that an earlier run has finished are counted but not run.
            if number >= self.earlier.steps:
                step()
            self.steps = number + 1
            if self.proved:
                return StopReason.PROVED
        return StopReason.EXHAUSTED

    def schedule(self) -> Iterator[Callable[[], object]]:
        """Yield the bounds and searches one after another.

        :meth:`solve` skips the first of them if an earlier search has done them. The code between
        the yields, which prepares later ones, runs in any case.
        """
        effort = self.effort
        yield self.closure_bound
        self.full.check_time()
        self.contract()
        yield self.closure_bound_again
        large = self.context.ops > effort.local_ops
        # In large graphs a search of all states is hopeless at first: a short one, then better
        # orders.
        if large:
            yield partial(self.search, effort.local_states)
            self.prepare_improving()
            yield self.improve_first
            yield self.local_precedences
        yield partial(self.search, self.states)
        yield self.order_bounds
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
        # Only now, as most graphs are proved before a second worker pays off.
        self.start_worker()
        yield self.halve_gap
        yield self.search_blocks
        # A resumed run continues with the step that the earlier one had reached.
        self.step = self.step or max(1, (self.peak - self.bound) // effort.first_step)
        while self.states < effort.most_states:
            self.synchronize()
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
        """Return the state from which a later search of the graph can resume."""
        steps = max(self.steps, self.earlier.steps)
        if self.feasibility is None or self.thread is not None:
            # Either no budget was tried, or the second worker is still running and may be
            # changing the trees.
            return replace(self.earlier, steps=steps)
        workers = [x.feasibility for x in (self.other, self) if x is not None and x.feasibility]
        # Trees of an earlier search that were not resumed are kept; those of this search replace
        # them, the latest last.
        trees = {budget: tree for x in workers for budget, tree in x.earlier.items()}
        for tree in (tree for x in workers for tree in x.trees.values() if not tree.settled):
            trees.pop(tree.budget, None)
            trees[tree.budget] = tree.leave()
        found = OrderProgress(
            steps,
            self.step,
            tuple(self.reduced.spread(self.feasibility.failures).tolist()),
            () if self.copies is None else self.copies.columns,
            # Budgets below the bound are refuted, those from the peak on are met: only the others
            # matter.
            tuple(tree for at, tree in trees.items() if self.bound <= at < self.peak),
        )
        return found.sealed(self.feasibility.context.problem)

    def closure_bound(self) -> None:
        """Raise the bound by flows, one per op, up to a limit.

        A flow over fewer ops takes less time, so in large graphs most flows wait for contraction.
        """
        effort = self.effort
        few = max(effort.first_flows, effort.flow_work // max(1, self.full.ops))
        found = closure_bound(self.graph, [self.order], clock=self.clock, most=few, effort=effort)
        self.full.statistics.flows += found.flows
        self.raise_bound(found.value, Proof.BOUND, "closure bound")
        self.closure_complete = found.complete

    def contract(self) -> None:
        """Replace the problem by the contracted one."""
        self.reduced = reduce(self.full)
        priority = self.reduced.gather(self.full.during(self.order))
        self.context = replace(self.full, problem=self.reduced.problem, priority=priority)
        self.context.statistics.merged = self.full.ops - self.context.ops
        self.accept_reduced(self.shrunk(), "contraction")

    def closure_bound_again(self) -> None:
        """Complete the closure bound on the contracted problem, if it is not complete yet."""
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
        """Accept a bound that follows from flows alone.

        If regions have become chains it counts as a bound by search: searches found the chains.
        """
        # A chain rests on a search, so its problem's bounds rest on a search too.
        regions = self.full.statistics.regions
        self.raise_bound(bound, Proof.SEARCH if regions else Proof.BOUND, source)

    def order_bounds(self) -> None:
        """Raise the bound by all bounds of the table, such as the last op of a set."""
        context = self.context
        if self.rules.sets and context.ops <= self.effort.budget_ops:
            above = related(context.problem)
            for row in ORDER_BOUNDS:
                found = row.find(context, above, self.bound, self.peak)
                if found is not None:
                    self.force(found.value, found.source)

    def local_precedences(self) -> None:
        """Try two methods that are fast in large graphs: windows, and precedences at the peak."""
        self.search_windows()
        if self.rules.nearby and not self.proved:
            precedences = BudgetPrecedences(self.order_copies())
            expected = self.context.during(self.shrunk())
            if precedences.refute(self.peak - 1, expected, near=True):
                self.force(self.peak, "precedences near the peak")

    def prepare_budgets(self) -> None:
        """Prepare the decision of budgets; easy problems are proved before this is needed."""
        context = self.order_copies()
        if self.rules.implied and context.ops <= self.effort.budget_ops:
            trees = self.earlier.trees_of(context.problem)
            during = self.context.during(self.shrunk())
            failures = self.reduced.gather(self.earlier_failures)
            self.feasibility = FeasibilitySearch(context, during, failures, trees)

    def order_copies(self) -> SearchContext:
        """The problem with identical blocks in line, if there are any."""
        families = self.context.families(wanted=True)
        if families and self.copies is None:
            during = self.context.during(self.shrunk())
            self.copies = order_copies(self.context, families, during, self.earlier.columns)
        return self.context if self.copies is None else self.copies.context

    def prepare_improving(self) -> None:
        """Prepare annealing and windows."""
        seed = self.clock.limits.seed
        if self.rules.anneal:
            self.annealer = Annealer(self.context, self.shrunk(), seed, self.earlier.steps)
        if self.rules.windows:
            self.windows = WindowSearch(self.context, self.shrunk(), seed, self.earlier.steps)

    def improve_first(self) -> None:
        """Anneal before budgets are tried: a budget below a lower peak implies more."""
        self.anneal(self.effort.first_states)

    def search(self, states: int) -> None:
        """Search for an order below the peak; identical blocks run in a canonical order.

        If the blocks are large, search first without that order: only then do all states that
        differ by a swap of blocks count as one.
        """
        if self.copies is None or self.copies.large:
            self.search_in(self.context, states, self.shrunk())
        if self.copies is not None:
            self.search_in(self.copies.context, states, self.copies.lead(self.shrunk()))

    def search_blocks(self) -> None:
        """Search states if blocks are large, for at least as long as a tree is looked at."""
        if self.copies is not None and self.copies.large:
            self.search(min(self.states * self.effort.growth**2, self.effort.most_states))

    def search_in(self, context: SearchContext, states: int, order: list[int]) -> None:
        """Search a problem with the same optimum; `order` is one of its orders within the peak."""
        if not self.proved:
            answer = search_all(context, self.bound, self.peak, states, self.searched, order)
            context.collect()
            self.accept_answer(answer, self.peak - 1)

    def decide_top_alone(self) -> None:
        """Decide the budget just below the peak, unless a worker or the climb has done so."""
        if self.thread is None and self.peak - 1 not in self.tried:
            self.decide_top(self.states)

    def decide_top(self, states: int) -> None:
        """Decide the budget just below the peak, again and again while that gives better orders."""
        known = self.peak + 1
        while self.bound < self.peak < known:
            self.synchronize()
            known = self.peak
            # Far below the peak the answer is rarely "no order", so a wide gap gets less effort
            # here.
            far = self.effort.far_gap * (self.peak - self.bound) > self.peak
            self.decide(known - 1, states // self.effort.far_part if far else states)

    def climb(self) -> None:
        """Decide budgets from the bound upwards.

        The step doubles after a budget that is refuted, and halves after one that is not decided.
        """
        assert self.feasibility is not None
        self.tried.clear()
        # Steps below this part of the peak would need too many budgets to close the gap.
        smallest = max(1, self.peak // self.effort.smallest_step)
        while not self.proved:
            self.synchronize()
            bound, budget = self.bound, min(self.bound + self.step, self.peak) - 1
            # A tree that an earlier round left open is cheaper to finish than a new one.
            budget = self.feasibility.begun(budget, bound)
            self.tried.add(budget)
            self.decide(budget, self.states)
            if self.bound > budget:
                self.step *= 2
            elif self.bound == bound and self.step <= smallest:
                # Not decided even with the smallest step: more effort is needed.
                break
            else:
                self.step = max(smallest, self.step // 2)

    def decide(self, budget: int, states: int) -> None:
        """Look for an order within a budget below the peak."""
        assert self.feasibility is not None
        answer = self.feasibility.decide(budget, self.bound, states, self.searched)
        self.accept_answer(answer, budget)

    def accept_answer(self, answer: Feasibility, budget: int) -> None:
        """Accept the answer about a budget: a bound, an order, or neither."""
        if answer.refuted:
            self.searched(budget + 1)
        elif answer.order is not None:
            self.accept_reduced(answer.order, "search")

    def searched(self, bound: int) -> None:
        """Accept a bound that a search has proved."""
        self.raise_bound(bound, Proof.SEARCH, "search")

    def anneal_on(self) -> None:
        """Anneal for about as long as a round takes."""
        self.anneal(self.states * self.effort.growth)

    def catch_up(self, search: Annealer | WindowSearch) -> None:
        """Restart annealing or windows from the best order if it is better than theirs."""
        if search.peak > self.peak and self.context.follow(self.shrunk())[0] < search.peak:
            search.start_from(self.shrunk())

    def anneal(self, states: int) -> None:
        """Anneal for about as long as storing `states` states would take."""
        if self.annealer is None or self.proved:
            return
        self.catch_up(self.annealer)
        try:
            self.annealer.improve(states * self.effort.moves_per_state, self.bound)
        finally:
            self.accept_reduced(self.annealer.order, "annealing")

    def search_windows(self) -> None:
        """Search windows of the best order while they improve it."""
        if self.windows is None or self.proved:
            return
        self.catch_up(self.windows)
        # Windows only look for better orders, so they get a small part of what a proof gets.
        states = min(self.states // 8, self.effort.window_states)
        while self.windows.improve(states, self.effort.window_tries, self.bound):
            self.accept_reduced(self.windows.order, "window")

    def refute(self) -> None:
        """Prove the peak if the precedences that a smaller peak implies contradict each other."""
        if self.feasibility and not self.proved and self.feasibility.refutes(self.peak - 1):
            self.force(self.peak, "implied precedences")

    def halve_gap(self) -> None:
        """Raise the bound by bisection, over budgets that implied precedences refute."""
        self.refute()
        if self.feasibility is None or self.proved:
            return
        # The budget `low` is refuted; `high` is not refuted by precedences alone.
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
        """Start the second worker if the limits allow two; it takes over the search for orders."""
        if self.clock.limits.workers < 2 or self.proved:
            return
        order, seed = self.shrunk(), self.clock.limits.seed + 1
        # Arrays of the problem are shared; what a worker changes is replaced below, one by one.
        other = copy(self)
        other.on_event, other.other = None, self
        other.context = replace(self.context, statistics=Statistics(), ended=threading.Event())
        if self.annealer is not None:
            other.annealer = Annealer(other.context, order, seed, self.earlier.steps)
        if self.windows is not None:
            other.windows = WindowSearch(other.context, order, seed, self.earlier.steps)
        if self.feasibility is not None:
            count, ended = other.context.statistics, other.context.ended
            mine, failures = self.feasibility, self.reduced.gather(self.earlier_failures)
            context = replace(mine.context, statistics=count, ended=ended)
            other.feasibility = FeasibilitySearch(context, mine.during, failures, mine.earlier)
        # From here on only the second worker looks for better orders.
        self.annealer = self.windows = None
        self.other = other
        self.thread = WorkerThread(other.search_beside, other.context.ended)

    def synchronize(self) -> None:
        """Accept the order and bound of the other worker."""
        if self.other is not None:
            self.merge_from(self.other)

    def search_beside(self) -> None:
        """Run the second worker: look for better orders, and take parts of the first one's tree."""
        assert self.other is not None
        while not self.proved and self.states < self.effort.most_states:
            self.synchronize()
            self.anneal_on()
            self.search_windows()
            if self.feasibility is None:
                self.states *= self.effort.growth
                continue
            self.decide_top(self.states)
            # The first worker sets the pace: its effort grows from round to round.
            self.states = self.other.states
            while self.states == self.other.states and not self.proved:
                self.context.check_time()
                if self.other.feasibility is not None:
                    found = self.feasibility.take_work(self.other.feasibility, self.states)
                    self.accept_answer(found[1], found[0])
                self.synchronize()

    def join_worker(self) -> None:
        """Stop the second worker, and accept its order, bound and counters."""
        if self.thread is None or self.other is None:
            return
        try:
            self.thread.join()
        finally:
            self.synchronize()
        self.thread = None
        self.other.context.collect()
        self.context.statistics.add(self.other.context.statistics)
