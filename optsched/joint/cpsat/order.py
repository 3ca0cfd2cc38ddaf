"""Order of minimum peak by CP-SAT: reductions, segments, one model per segment, replay.

By default the model is made of the contracted problem of the exact search, in which identical
blocks run in a canonical order and precedences that a budget implies are edges. An independent
model is made of the graph itself, without any result of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import gcd

from optsched.check.plan import check_order
from optsched.errors import UsageError
from optsched.joint.claims import misread, refutation, report
from optsched.joint.cpsat.instance import MAX_UNITS, graph_instance
from optsched.joint.cpsat.pairwise import ALL_FAMILIES, OrderFamilies, OrderPoint, PairwiseOrder
from optsched.joint.cpsat.solver import EFFORT, CpSatEffort, CpSatRun, SolverThread
from optsched.joint.order_program import (
    OrderProgram,
    Segment,
    instance_program,
    problem_program,
    segments,
)
from optsched.model.graph import Graph
from optsched.ordering.bound.precedences import BudgetPrecedences
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.problem import build_problem
from optsched.ordering.reduce.regions import Reduced, reduce
from optsched.ordering.reduce.symmetry import line_up
from optsched.runtime.clock import Clock

BUILD_SECONDS = 1e-4
"""Estimated seconds to build the model, per pair of ops that can run in either order; 2e-5 to 8e-5
were measured.
"""

REDUCTION_SHARE = 0.2
"""Share of the time for reductions, and again for what a budget implies."""

ROUND_SHARES = (0.2, 0.5, 1.0)
"""Share of the remaining time for each round of budgets."""
SEGMENT_SHARE = 0.7
"""Share of the remaining time for a segment that is not the last."""

Note = Callable[[int | None, int], None]
"""Called with the best peak and the claimed bound in bytes."""


@dataclass(frozen=True, slots=True)
class OrderClaim:
    """An order, and CP-SAT's claim about all other orders."""

    order: tuple[int, ...] | None
    """Op ids by step; never worse than the order to start from."""
    peak: int | None
    """Its peak in bytes, replayed in integers."""
    bound: int
    """Claimed minimum peak in bytes; at least the bound passed in."""
    finished: bool = False
    interrupted: bool = False
    refuted: str = ""
    """Line that says which claim was refuted, or an empty string."""


class WholeGraph:
    """The graph itself: the independent model. `unit` are the bytes per unit of the program."""

    def __init__(self, graph: Graph) -> None:
        instance = graph_instance(graph)
        self.program, self.unit = instance_program(instance), instance.unit

    def expand(self, order: Sequence[int]) -> list[int]:
        """Return the order as it is."""
        return list(order)

    shrink = expand


class ContractedGraph:
    """The contracted problem of the exact search, with the same minimum peak.

    Identical blocks of ops pass one of their ops in line.
    """

    unit = 1

    def __init__(self, graph: Graph, start: Sequence[int], clock: Clock) -> None:
        context = SearchContext(build_problem(graph.arrays), clock=clock)
        self.reduced: Reduced = reduce(context)
        context = replace(context, problem=self.reduced.problem, priority=None)
        order = self.reduced.shrink(start)
        self.lined = line_up(context, context.families(wanted=True), context.follow(order)[1])
        self.program = problem_program(self.lined.context.problem)

    def expand(self, order: Sequence[int]) -> list[int]:
        """Return the order of the graph."""
        return self.reduced.expand(order)

    def shrink(self, order: Sequence[int]) -> list[int]:
        """Return an order of the contracted problem."""
        return self.lined.lead(self.reduced.shrink(order))

    def within(self, budget: int, order: Sequence[int], clock: Clock) -> OrderProgram | None:
        """Return the program with the precedences that a budget implies; None if it refutes it."""
        context = replace(self.lined.context, clock=clock)
        implied = BudgetPrecedences(context)
        with suppress(OutOfTimeError):
            if implied.refute(budget, context.during(order)):
                return None
        return problem_program(implied.problem)


def order_source(
    graph: Graph, start: Sequence[int], clock: Clock, *, independent: bool
) -> WholeGraph | ContractedGraph:
    """Return the program to solve; the whole graph where time ends while it is contracted."""
    if not independent:
        with suppress(OutOfTimeError):
            return ContractedGraph(graph, start, clock)
    return WholeGraph(graph)


def solve_order_cpsat(
    graph: Graph,
    start: Sequence[int],
    *,
    clock: Clock,
    bound: int = 0,
    independent: bool = False,
    effort: CpSatEffort = EFFORT,
    families: OrderFamilies = ALL_FAMILIES,
    note: Note = lambda peak, bound: None,
) -> OrderClaim:
    """Search for an order of minimum peak.

    Parameters
    ----------
    graph
        The graph, on one stream.
    start
        Known order; its peak is an upper limit.
    clock
        Limits on time or work, and the number of workers.
    bound
        Proved lower bound in bytes.
    independent
        Leave out the reductions of the exact search.
    effort
        Parameters of CP-SAT.
    families
        Families of constraints to use.
    note
        Called with the best peak and the claimed bound in bytes as they improve.

    Raises
    ------
    UsageError
        If sizes are outside the range in which CP-SAT is exact.
    """
    if not graph.ops:
        peak = check_order(graph, ())
        return OrderClaim((), peak, max(bound, peak), finished=True)
    source = order_source(graph, start, clock.share(REDUCTION_SHARE), independent=independent)
    search = _OrderSearch(graph, source, start, bound, clock, effort, families, note)
    return search.run()


class _OrderSearch:
    """Solves the segments of a program, those with the largest loads first."""

    def __init__(
        self,
        graph: Graph,
        source: WholeGraph | ContractedGraph,
        start: Sequence[int],
        bound: int,
        clock: Clock,
        effort: CpSatEffort,
        families: OrderFamilies,
        note: Note,
    ) -> None:
        self.graph, self.source, self.clock, self.effort = graph, source, clock, effort
        self.families, self.note = families, note
        self.order, self.peak = [int(v) for v in start], check_order(graph, start)
        self.bound = self.proved = bound
        self.finished, self.interrupted, self.refuted = True, False, ""

    def run(self) -> OrderClaim:
        """Search in rounds: a better order found in one is the budget of the next.

        Only the contracted problem gains from a lower budget.
        """
        whole = isinstance(self.source, WholeGraph) or not self.families.implied
        for share in (1.0,) if whole else ROUND_SHARES:
            self.finished = True
            self._run_round(self.clock.share(share))
            if self.finished or self.interrupted or self.refuted:
                break
        return self._judged()

    def _run_round(self, clock: Clock) -> None:
        """Solve segment by segment until the largest load of all is claimed to be minimum."""
        led, program = self.source.shrink(self.order), self._within_budget(clock)
        if program is None:
            self.bound = max(self.bound, self.peak)
            return
        parts = segments(program)
        orders = [_within(part, led) for part in parts]
        peaks = [p.program.peak(o) * self.source.unit for p, o in zip(parts, orders, strict=True)]
        turn = sorted(range(len(parts)), key=lambda i: -peaks[i])
        for number, i in enumerate(turn):
            if self._stops(peaks[i], clock):
                break
            share = clock.share(1.0 if number == len(turn) - 1 else SEGMENT_SHARE)
            found = self._solve(parts[i], orders[i], share)
            if found is not None:
                orders[i] = list(found)
                peaks[i] = parts[i].program.peak(found) * self.source.unit
                self._offer([parts[k].ops[v] for k, row in enumerate(orders) for v in row])

    def _within_budget(self, clock: Clock) -> OrderProgram | None:
        """Return the program of the orders below the best peak; None if there is none."""
        if not self.families.implied or isinstance(self.source, WholeGraph):
            return self.source.program
        led = self.source.shrink(self.order)
        return self.source.within(self.peak - 1, led, clock.share(REDUCTION_SHARE))

    def _stops(self, peak: int, clock: Clock) -> bool:
        if self.interrupted or self.refuted or peak <= self.bound:
            return True
        if clock.expired():
            self.finished = False
            return True
        return False

    def _solve(self, part: Segment, start: list[int], clock: Clock) -> tuple[int, ...] | None:
        """Return a better order of a segment, or None; raise the bound to the segment's.

        Only orders below the best known peak are searched.
        """
        groups = identical_ops(part.program) if self.families.copies else []
        program, scale = in_units(with_copies_in_line(part.program, groups), self.source.unit)
        if program.most > MAX_UNITS:
            raise UsageError(
                f"live bytes of up to {scale.bytes(program.most)} in units of {scale.unit} bytes "
                "are outside the range in which CP-SAT is exact"
            )
        low, high = max(0, scale.up(self.bound)), scale.up(self.peak) - 1
        if low > high:
            # No op has less than the bytes live before it.
            self.bound = max(self.bound, self.peak)
            return None
        if not _has_time_to_build(program, clock):
            self.finished = False
            return None
        variables = PairwiseOrder(program, self.families)
        variables.model.minimize(variables.add_peak(low, high))
        variables.add_hint(OrderPoint.of(topological(program, in_line(start, groups))))

        def progress(run: CpSatRun[OrderPoint]) -> None:
            if run.bound is not None:
                self.note(None, max(self.bound, scale.bytes(run.bound)))

        thread = SolverThread(variables, lambda p: program.peak(p.order), clock, self.effort)
        run = thread.run(progress)
        self.interrupted |= run.interrupted
        self.finished &= run.finished
        if run.infeasible:
            self.bound = max(self.bound, self.peak)
        elif run.bound is not None and run.bound > high + 1:
            # The objective is at most `high`, so that nothing can be known above it.
            claimed = max(self.peak + 1, scale.bytes(run.bound))
            self.refuted = refutation("cpsat", claimed, self.peak)
        elif run.bound is not None:
            self.bound = max(self.bound, min(self.peak, scale.bytes(run.bound)))
        if run.best is None:
            return None
        if run.reported is not None:
            claimed, found = scale.bytes(run.reported), scale.bytes(program.peak(run.best.order))
            self.refuted = self.refuted or misread("cpsat", claimed, found)
        return run.best.order

    def _offer(self, order: Sequence[int]) -> None:
        full = self.source.expand(order)
        peak = check_order(self.graph, full)
        if peak < self.peak:
            self.order, self.peak = full, peak
            self.note(peak, self.bound)

    def _judged(self) -> OrderClaim:
        """Compare the claims with the replayed order, and drop them if it refutes them."""
        line = self.refuted or refutation("cpsat", self.bound, self.peak)
        if line:
            self.bound, self.finished = self.proved, False
        return OrderClaim(
            tuple(self.order), self.peak, self.bound, self.finished, self.interrupted, report(line)
        )


def _has_time_to_build(program: OrderProgram, clock: Clock) -> bool:
    """Return True if building the model, which has no clock, leaves half of the seconds."""
    left = clock.left()
    if left is None or clock.limits.work is not None:
        return True
    return 2 * BUILD_SECONDS * len(program.free_pairs()) <= left


def _within(part: Segment, order: Sequence[int]) -> list[int]:
    number = {v: i for i, v in enumerate(part.ops)}
    return [number[v] for v in order if v in number]


@dataclass(frozen=True, slots=True)
class Scale:
    """A value `x` of a program stands for `offset + unit * x` bytes."""

    offset: int
    unit: int

    def bytes(self, value: int) -> int:
        """Return the bytes that a value stands for."""
        return self.offset + self.unit * value

    def up(self, number: int) -> int:
        """Return the smallest value that stands for at least this number of bytes."""
        return -((self.offset - number) // self.unit)


def in_units(program: OrderProgram, unit: int) -> tuple[OrderProgram, Scale]:
    """Return the program relative to its base, in the largest units that lose nothing.

    `unit` are the bytes per unit of the given program.
    """
    sizes = [size for size, _ in program.shared] + [saving.size for saving in program.savings]
    scale = gcd(*program.rise, *program.delta, *sizes) or 1
    made = OrderProgram(
        0,
        program.preds,
        tuple(x // scale for x in program.rise),
        tuple(x // scale for x in program.delta),
        tuple((size // scale, users) for size, users in program.shared),
        tuple(replace(saving, size=saving.size // scale) for saving in program.savings),
    )
    return made, Scale(program.base * unit, scale * unit)


def topological(program: OrderProgram, order: Sequence[int]) -> list[int]:
    """Return an order of the program that takes, of the ops that can run, the first of another."""
    step = {v: at for at, v in enumerate(order)}
    missing = [len(set(row)) for row in program.preds]
    ready = [step[v] for v, count in enumerate(missing) if not count]
    heapify(ready)
    found = []
    while ready:
        found.append(order[heappop(ready)])
        for w in set(program.succs[found[-1]]):
            missing[w] -= 1
            if not missing[w]:
                heappush(ready, step[w])
    return found


def identical_ops(program: OrderProgram) -> list[list[int]]:
    """Return groups of ops; swapping any two of a group leaves the program unchanged."""
    uses: list[list[int]] = [[] for _ in program.preds]
    for b, (_, users) in enumerate(program.shared):
        for v in users:
            uses[v].append(b)
    special = {v for saving in program.savings for v in (saving.op, *saving.needs)}
    groups: dict[object, list[int]] = {}
    for v, before in enumerate(program.preds):
        if v not in special:
            numbers = program.rise[v], program.delta[v]
            key = (before, tuple(sorted(program.succs[v])), numbers, tuple(uses[v]))
            groups.setdefault(key, []).append(v)
    return [group for group in groups.values() if len(group) > 1]


def with_copies_in_line(program: OrderProgram, groups: Sequence[Sequence[int]]) -> OrderProgram:
    """Return the program with edges that let identical ops run in the order of their numbers."""
    rows = [list(row) for row in program.preds]
    for group in groups:
        for u, v in pairwise(group):
            rows[v].append(u)
    return replace(program, preds=tuple(map(tuple, rows)))


def in_line(order: Sequence[int], groups: Sequence[Sequence[int]]) -> list[int]:
    """Return an order with identical ops exchanged so that they run in the order of their numbers.

    Its peak is the same.
    """
    found = list(order)
    step = {v: at for at, v in enumerate(found)}
    for group in groups:
        for at, v in zip(sorted(step[v] for v in group), sorted(group), strict=True):
            found[at] = v
    return found
