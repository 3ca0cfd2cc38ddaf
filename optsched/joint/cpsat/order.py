"""Order of minimum peak by CP-SAT: reductions, segments, one model per segment, replay.

By default the model is made of the contracted problem of the exact search, in which identical
blocks run in a canonical order and precedences that a budget implies are edges. An independent
model is made of the graph itself, without any result of the search.

Example: every order passes the state after op 5 of 9. The ops before it and after it are two
segments; the one of larger load is solved first, and the other one only if it can have the peak.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optsched.check.plan import check_order
from optsched.errors import UsageError
from optsched.joint.claims import OrderClaim, misread, refutation, report
from optsched.joint.copies import identical_ops, in_order, topological, with_copies_in_order
from optsched.joint.cpsat.pairwise import OrderPoint, PairwiseOrder
from optsched.joint.cpsat.solver import EFFORT, CpSatEffort, CpSatRun, SolverThread
from optsched.joint.families import ALL_FAMILIES, OrderFamilies
from optsched.joint.instance import MAX_UNITS
from optsched.joint.order_program import OrderProgram, Segment, segments
from optsched.joint.order_source import ContractedGraph, WholeGraph, order_source
from optsched.joint.units import in_units
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock

BUILD_SECONDS = 1e-4
"""Estimated seconds to build the model, per pair of ops that can run in either order; 2e-5 to 8e-5
were measured.
"""

BUILD_WORK = 10
"""Estimated work to build the model, in units of `Limits.work`, per such pair."""

REDUCTION_SHARE = 0.2
"""Share of the time for reductions, and again for what a budget implies."""

ROUND_SHARES = (0.2, 0.5, 1.0)
"""Share of the remaining time for each round of budgets."""
SEGMENT_SHARE = 0.7
"""Share of the remaining time for a segment that is not the last."""
FEW_OPS = 5_000
"""Ops that are cut into segments also after the limit: segments of few orders need no search."""

Note = Callable[[int | None, int], None]
"""Called with the best peak and the claimed bound in bytes."""


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

    Raise `UsageError` if sizes are outside the range in which CP-SAT is exact.

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
    """
    if not graph.ops:
        peak = check_order(graph, ())
        return OrderClaim((), peak, max(bound, peak), finished=True)
    source = order_source(
        graph,
        start,
        bound,
        clock.share(REDUCTION_SHARE),
        independent=independent,
        families=families,
    )
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
        self.bound = self.proved = max(bound, source.bound)
        self.finished, self.interrupted, self.refuted = True, False, ""

    def run(self) -> OrderClaim:
        """Search in rounds: a better order found in one is the budget of the next.

        Only the contracted problem gains from a lower budget.
        """
        whole = isinstance(self.source, WholeGraph)
        for share in (1.0,) if whole else ROUND_SHARES:
            # Set to False again by any segment that a limit stops.
            self.finished = True
            self._run_round(self.clock.share(share))
            if self.finished or self.interrupted or self.refuted:
                break
        return self._judged()

    def _run_round(self, clock: Clock) -> None:
        """Solve segment by segment until the largest load of all is claimed to be minimum."""
        # Cutting a large program takes as long as making it did.
        if len(self.order) > FEW_OPS and clock.expired():
            self.finished = False
            return
        led, program = self.source.shrink(self.order), self._within_budget(clock)
        # A budget below the best peak is refuted: the best peak is the minimum.
        if program is None:
            self.bound = max(self.bound, self.peak)
            return
        parts = segments(program)
        orders = _within(parts, led)
        peaks = [p.program.peak(o) * self.source.unit for p, o in zip(parts, orders, strict=True)]
        # Passing the states that split the program may be better already.
        self._offer_parts(parts, orders)
        # The segment with the largest load decides the peak, so it comes first.
        turn = sorted(range(len(parts)), key=lambda i: -peaks[i])
        for number, i in enumerate(turn):
            if self._stops(peaks[i], clock):
                break
            share = clock.share(1.0 if number == len(turn) - 1 else SEGMENT_SHARE)
            found = self._solve(parts[i], orders[i], share)
            if found is not None:
                orders[i] = list(found)
                peaks[i] = parts[i].program.peak(found) * self.source.unit
                self._offer_parts(parts, orders)

    def _within_budget(self, clock: Clock) -> OrderProgram | None:
        """Return the program of the orders below the best peak; None if there is none."""
        if isinstance(self.source, WholeGraph):
            return self.source.program
        self.source.look_along([self.order])
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
        program, scale = in_units(with_copies_in_order(part.program, groups), self.source.unit)
        # Beyond this range the solver's arithmetic in floats could be wrong without a sign of it.
        if program.most > MAX_UNITS:
            raise UsageError(
                f"{self.graph.name}: live bytes of up to {scale.bytes(program.most)} in units of "
                f"{scale.unit} bytes are outside the range in which engine cpsat is exact; "
                "use engine auto"
            )
        low, high = max(0, scale.up(self.bound)), scale.up(self.peak) - 1
        if low > high:
            # No op has less than the bytes live before it.
            self.bound = max(self.bound, self.peak)
            return None
        if not has_time_to_build(len(program.free_pairs()), clock):
            self.finished = False
            return None
        # Built only now, as building has no clock of its own.
        variables = PairwiseOrder(program, self.families)
        variables.model.minimize(variables.add_peak(low, high))
        variables.add_hint(OrderPoint.of(topological(program, in_order(start, groups))))

        def progress(run: CpSatRun[OrderPoint]) -> None:
            if run.bound is not None:
                self.note(None, max(self.bound, scale.bytes(run.bound)))

        thread = SolverThread(variables, lambda p: program.peak(p.order), clock, self.effort)
        run = thread.run(progress)
        self.interrupted |= run.interrupted
        self.finished &= run.finished
        # No order of this segment is below the best peak, so no order of the graph is.
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
            # The value that the solver reports and the replay of its order must agree.
            claimed, found = scale.bytes(run.reported), scale.bytes(program.peak(run.best.order))
            self.refuted = self.refuted or misread("cpsat", claimed, found)
        return run.best.order

    def _offer_parts(self, parts: Sequence[Segment], orders: Sequence[Sequence[int]]) -> None:
        rows = zip(parts, orders, strict=True)
        self._offer([part.ops[v] for part, order in rows for v in order])

    def _offer(self, order: Sequence[int]) -> None:
        full = self.source.expand(order)
        peak = check_order(self.graph, full)
        if peak < self.peak:
            self.order, self.peak = full, peak
            self.note(peak, self.bound)

    def _judged(self) -> OrderClaim:
        """Compare the claims with the replayed order, and drop them if it refutes them."""
        line = self.refuted or refutation("cpsat", self.bound, self.peak)
        # A claim below which an order was replayed is wrong, and with it everything else from this
        # run.
        if line:
            self.bound, self.finished = self.proved, False
        return OrderClaim(
            tuple(self.order), self.peak, self.bound, self.finished, report(line), self.interrupted
        )


def has_time_to_build(pairs: int, clock: Clock) -> bool:
    """Return True if building a model of pairs, which has no clock, leaves half of the time."""
    left = clock.left()
    if left is None:
        return True
    return 2 * (BUILD_SECONDS if clock.limits.work is None else BUILD_WORK) * pairs <= left


def _within(parts: Sequence[Segment], order: Sequence[int]) -> list[list[int]]:
    """Return the order of the ops of each part, as an order of all ops has them."""
    place = {v: (i, at) for i, part in enumerate(parts) for at, v in enumerate(part.ops)}
    found: list[list[int]] = [[] for _ in parts]
    for v in order:
        i, at = place[v]
        found[i].append(at)
    return found
