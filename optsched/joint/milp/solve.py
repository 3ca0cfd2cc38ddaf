"""The order of minimum peak by mixed-integer programs, in two steps.

HiGHS computes in floating point, and calls a wrong point optimal if coefficients are as large as
sizes in bytes. Therefore no coefficient exceeds :data:`optsched.joint.milp.program.MAX_UNITS`:

1. *Rounded*: sizes are divided so that they add up to at most that many units, and rounded so that
   every load shrinks. This is a relaxation; its bound in bytes holds.
2. *In digits*: is there an order below the best one? Each load is written in digits, with an
   integer carry from one digit to the next, so that the row of each digit is small and exact.

Every order is replayed in integers. The program does not share code with the CP-SAT model. Its
bounds are claims.

Example: sizes add up to 10**12 units. In the first step they are divided by 10**7, and the bound is
a few times 10**7 units too low at most. In the second step each load has three digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, isfinite

from optsched.check.plan import check_order
from optsched.joint.claims import OrderClaim, misread, refutation, report
from optsched.joint.milp.highs import HighsRun, HighsThread
from optsched.joint.milp.program import MAX_UNITS, MilpPoint, MilpProgram
from optsched.joint.order_source import order_source
from optsched.joint.units import in_units, shrunk
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Event, Limits, OnEvent

MARGIN = 1e-6
"""Margin subtracted from a bound, as a share of it and at least this number of units. The requested
feasibility tolerances are a thousand times smaller.
"""
BUILD_SECONDS = 2e-4
"""Estimated seconds to build a program, per pair of ops that can run in either order."""


def solve_order_milp(
    graph: Graph,
    *,
    limits: Limits | Clock | None = None,
    peak_bound: int = 0,
    start: Sequence[int] | None = None,
    independent: bool = False,
    on_event: OnEvent | None = None,
) -> OrderClaim:
    """Search for an order of minimum peak.

    Raise `UsageError` if the graph is on several streams, or coefficients are outside the range in
    which floating point is reliable.

    Parameters
    ----------
    graph
        The graph, on one stream. Graphs of about 100 ops are within reach.
    limits
        Limits on time, or on work; a check of limits by HiGHS takes
        :data:`optsched.joint.milp.highs.CHECK_WORK` units.
    peak_bound
        Proved lower bound in bytes.
    start
        Known order, if any; the answer is never worse.
    independent
        Leave out the exact reductions of our own search.
    on_event
        Called in this thread with every better order and bound.
    """
    graph.refuse_streams("the MILP")
    clock = Clock.of(limits or Limits())
    if clock.expired():
        value = None if start is None else check_order(graph, start)
        return OrderClaim(None if start is None else tuple(start), value, peak_bound, False)
    return _MilpSearch(graph, clock, peak_bound, start, independent, on_event).run()


class _MilpSearch:
    """Rounds of programs: first with rounded sizes, then in digits below the best order."""

    def __init__(
        self,
        graph: Graph,
        clock: Clock,
        bound: int,
        start: Sequence[int] | None,
        independent: bool,
        on_event: OnEvent | None,
    ) -> None:
        self.graph, self.clock, self.on_event = graph, clock, on_event
        self.order = None if start is None else [int(v) for v in start]
        self.value = None if start is None else check_order(graph, start)
        led = list(range(len(graph.ops))) if self.order is None else self.order
        # Reductions start from a known order; without one the graph itself is used.
        independent |= self.order is None
        self.source = order_source(graph, led, bound, clock.share(0.2), independent=independent)
        self.proved = self.bound = max(bound, self.source.bound)
        self.program, self.scale = in_units(self.source.program, self.source.unit)
        self.cycles: dict[tuple[int, int, int], None] = {}
        self.refuted, self.interrupted = "", False

    def run(self) -> OrderClaim:
        """Solve, and drop all claims if one of them is refuted."""
        self._minimize()
        while not self._is_closed() and self._goes_on():
            if not self._decide_below():
                break
        # A solver that is wrong once is not believed in anything.
        line = self.refuted or refutation("milp", self.bound, self.value)
        if line:
            self.bound = self.proved
        order = None if self.order is None else tuple(self.order)
        return OrderClaim(
            order, self.value, self.bound, self._is_closed(), report(line), self.interrupted
        )

    def _goes_on(self) -> bool:
        """Return True if building a program, which has no clock, leaves half of the time."""
        if self.refuted or self.interrupted or self.clock.expired():
            return False
        left, pairs = self.clock.left(), len(self.program.free_pairs())
        if left is None:
            return True
        return pairs <= left if self.clock.limits.work else 2 * BUILD_SECONDS * pairs <= left

    def _is_closed(self) -> bool:
        return self.value is not None and self.value <= self.bound

    def _minimize(self) -> None:
        """Minimize the peak in rounded sizes until only rounding separates it from the bound."""
        # Rounding makes sums small enough for floats; a larger divisor makes the bound weaker.
        divisor = max(1, -(-self.program.most // MAX_UNITS))
        rounded = shrunk(self.program, divisor)
        # Each term of a load is rounded by less than a unit.
        terms = 2 + len(self.program) + len(self.program.shared) + len(self.program.savings)
        while self._goes_on():
            model = MilpProgram(rounded, self.cycles)
            low = max(0, self.scale.up(self.bound) // divisor - terms)
            model.minimize_peak(low, rounded.most)
            run = self._solve(model, lambda run: self._raise(run.bound, divisor))
            if run.point is None:
                return
            # Without rounding and without cycles the objective must be the peak of the order.
            if divisor == 1 and run.finished and not run.point.cycles:
                self._refute(self.scale.bytes(round(run.objective)), run.point)
            spare = terms * divisor * self.scale.unit if divisor > 1 else 0
            if (self.value or 0) <= self.bound + spare or not self._repairs(run):
                return

    def _decide_below(self) -> bool:
        """Ask for an order below the best one; return False if that remains open."""
        if self.value is None:
            return False
        high = self.scale.up(self.value) - 1
        while self._goes_on():
            model = MilpProgram(self.program, self.cycles)
            model.limit_peak(high)
            run = self._solve(model, lambda _: None)
            # By exact rows, no order is below the best one: the best one is the minimum.
            if run.infeasible:
                self._raise_to(self.scale.bytes(high + 1))
                return True
            # A better order was found: the caller asks again, below that one.
            if run.point is None or self.scale.up(self.value) - 1 < high:
                return run.point is not None
            if not run.point.cycles:
                self._refute(self.scale.bytes(high), run.point)
            if not self._repairs(run):
                return False
        return False

    def _solve(self, model: MilpProgram, on_bound: Callable[[HighsRun], None]) -> HighsRun:
        """Run HiGHS, and keep the orders and bounds that it finds on the way."""

        def progress(run: HighsRun) -> None:
            on_bound(run)
            if run.point is not None:
                self._offer(run.point)

        self.clock.spend(len(model.first))
        run = HighsThread(model, self.clock).run(progress)
        progress(run)
        self.interrupted |= run.interrupted
        return run

    def _repairs(self, run: HighsRun) -> bool:
        """Forbid the cycles of a finished run from now on; return False if there are none."""
        cycles = run.point.cycles if run.point is not None and run.finished else ()
        self.cycles.update(dict.fromkeys(cycles))
        return bool(cycles)

    def _raise(self, units: float, divisor: int) -> None:
        if isfinite(units):
            self._raise_to(self.scale.bytes(_safe_units(units) * divisor))

    def _raise_to(self, bound: int) -> None:
        if bound > self.bound:
            self.bound = bound
            self._tell()

    def _offer(self, point: MilpPoint) -> None:
        full = self.source.expand(point.order)
        peak = check_order(self.graph, full)
        if self.value is None or peak < self.value:
            self.order, self.value = full, peak
            self._tell()

    def _tell(self) -> None:
        """Report the best order and the bound, unless one refutes the other."""
        if self.on_event is not None and (self.value is None or self.bound <= self.value):
            self.on_event(Event(self.clock.seconds(), self.value, self.bound, "milp"))

    def _refute(self, claimed: int, point: MilpPoint) -> None:
        """Note that an order has a larger peak than claimed, if it has."""
        found = check_order(self.graph, self.source.expand(point.order))
        self.refuted = misread("milp", claimed, found)


def _safe_units(bound: float) -> int:
    """Round a floating-point lower bound up to integral units, minus a safety margin."""
    # Peaks are whole units: 11.3 means 12, and 12.0000001 may mean 12.
    return max(0, ceil(bound - max(MARGIN, MARGIN * abs(bound))))
