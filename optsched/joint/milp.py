"""The order problem as a mixed-integer program in PuLP: a second opinion next to CP-SAT.

A binary variable states, for each two ops that can run in either order, which one is first
(:mod:`optsched.joint.order_program`)::

    before[u, v]       op u runs before op v; a constant where the graph decides it
    released[b, v]     all users of shared buffer b run before v (no binary needed: it is pushed up)
    load(v) <= peak    for every op v

Cycles of three ops are forbidden only once a solution contains them: without them, the program is a
relaxation, whose bounds hold as well. Its linear relaxation is at least the closure bound.

HiGHS computes in floating point, and calls a wrong point optimal if coefficients are as large as
sizes in bytes. Therefore no coefficient exceeds :data:`MAX_UNITS`:

1. *Rounded*: sizes are divided so that they add up to at most that many units, and rounded so that
   every load shrinks. This is a relaxation; its bound in bytes holds.
2. *In digits*: is there an order below the best one? Each load is written in digits, with an
   integer carry from one digit to the next, so that the row of each digit is small and exact.

Every order is replayed in integers. The program does not share code with the CP-SAT model. HiGHS
runs in this process (highspy up to 1.13.1 can be loaded together with OR-Tools, later versions
cannot). Its bounds are claims.

Example: `a` and `b` are free to run in either order, so `before[a, b]` is binary, and `before[b,
a]` is `1 - before[a, b]`. With a third op `c`, a solution with a before b, b before c and c before
a has a cycle; the constraint `before[a, b] + before[b, c] + before[c, a] <= 2` excludes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, inf, isfinite
from typing import Any

from optsched.check.plan import check_order
from optsched.errors import UsageError
from optsched.joint.claims import misread, refutation, report
from optsched.joint.order_program import OrderProgram
from optsched.joint.order_source import order_source
from optsched.joint.units import in_units, shrunk
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

MAX_UNITS = 100_000
"""Maximum coefficient of a load: the requested tolerance of a binary times this stays far below one
unit.
"""
MAX_RANGE = 1e6
"""Maximum ratio of the largest to the smallest coefficient of a program that is solved."""
MARGIN = 1e-6
"""Margin subtracted from a bound, as a share of it and at least this number of units. The requested
feasibility tolerances are a thousand times smaller.
"""
BUILD_SECONDS = 2e-4
"""Estimated seconds to build a program, per pair of ops that can run in either order."""
NODE_WORK = 1_000
"""Units of `Limits.work` per node of HiGHS."""

Term = tuple[int, Any]
"""Factor and variable; the variable is None for a constant."""


@dataclass(frozen=True, slots=True)
class MilpOutcome:
    """The best order found, and the solver's claim about all other orders."""

    order: tuple[int, ...] | None
    """Op ids by step, or None."""
    value: int | None
    """Peak of the order in bytes, recomputed in integers."""
    bound: int
    """Claimed minimum peak; at least the bound passed in."""
    finished: bool
    """True if the claim is complete: no order is claimed to be better."""
    refuted: str = ""
    """Line that says which claim was refuted and dropped, or an empty string."""

    @property
    def optimal(self) -> bool:
        """Return True if the order is claimed to be optimal: its peak equals the bound."""
        return self.value is not None and self.value <= self.bound


def solve_order_milp(
    graph: Graph,
    *,
    limits: Limits | Clock | None = None,
    peak_bound: int = 0,
    start: Sequence[int] | None = None,
    independent: bool = False,
) -> MilpOutcome:
    """Search for an order of minimum peak.

    Parameters
    ----------
    graph
        The graph, on one stream. Graphs of about 100 ops are within reach.
    limits
        Limits on time, or on work; a node of HiGHS takes :data:`NODE_WORK` units.
    peak_bound
        Proved lower bound in bytes.
    start
        Known order, if any; the answer is never worse.
    independent
        Leave out the exact reductions of our own search.

    Raises
    ------
    UsageError
        If the graph is on several streams, or coefficients are outside the range in which floating
        point is reliable.
    """
    graph.refuse_streams("the MILP")
    clock = Clock.of(limits or Limits())
    if clock.expired():
        value = None if start is None else check_order(graph, start)
        return MilpOutcome(None if start is None else tuple(start), value, peak_bound, False)
    return _MilpSearch(graph, clock, peak_bound, start, independent).run()


class _MilpSearch:
    """Rounds of programs: first with rounded sizes, then in digits below the best order."""

    def __init__(
        self,
        graph: Graph,
        clock: Clock,
        bound: int,
        start: Sequence[int] | None,
        independent: bool,
    ) -> None:
        self.graph, self.clock = graph, clock
        self.order = None if start is None else [int(v) for v in start]
        self.value = None if start is None else check_order(graph, start)
        led = list(range(len(graph.ops))) if self.order is None else self.order
        # Reductions start from a known order; without one the graph itself is used.
        independent |= self.order is None
        self.source = order_source(graph, led, bound, clock.share(0.2), independent=independent)
        self.proved = self.bound = max(bound, self.source.bound)
        self.program, self.scale = in_units(self.source.program, self.source.unit)
        self.cycles: dict[tuple[int, int, int], None] = {}
        self.refuted = ""

    def run(self) -> MilpOutcome:
        """Solve, and drop all claims if one of them is refuted."""
        self._minimize()
        while not self._is_closed() and not self.refuted and self._has_time():
            if not self._decide_below():
                break
        line = self.refuted or refutation("milp", self.bound, self.value)
        if line:
            self.bound = self.proved
        order = None if self.order is None else tuple(self.order)
        return MilpOutcome(order, self.value, self.bound, self._is_closed(), report(line))

    def _has_time(self) -> bool:
        """Return True if building a program, which has no clock, leaves half of the seconds."""
        left = self.clock.left()
        seconds = BUILD_SECONDS * len(self.program.free_pairs())
        if left is None or self.clock.limits.work is not None:
            return not self.clock.expired()
        return not self.clock.expired() and 2 * seconds <= left

    def _is_closed(self) -> bool:
        return self.value is not None and self.value <= self.bound

    def _minimize(self) -> None:
        """Minimize the peak in rounded sizes until only rounding separates it from the bound."""
        # Rounding makes sums small enough for floats; a larger divisor makes the bound weaker.
        divisor = max(1, -(-self.program.most // MAX_UNITS))
        rounded, terms = shrunk(self.program, divisor), 0
        terms = 2 + len(self.program) + len(self.program.shared) + len(self.program.savings)
        while self._has_time():
            model = _Model(rounded, self.cycles)
            # Each term of a load is rounded by less than a unit, so this lower limit is safe.
            low = max(0, self.scale.up(self.bound) // divisor - terms)
            model.minimize_peak(low, rounded.most)
            run = model.solve(self.clock)
            if isfinite(run.bound):
                units = _safe_units(run.bound) * divisor
                self.bound = max(self.bound, self.scale.bytes(units))
            if run.order is None:
                return
            self._offer(run.order)
            # Without rounding and without cycles the objective must be the peak of the order.
            if divisor == 1 and run.finished and not run.cycles:
                claimed = self.scale.bytes(round(run.objective))
                self.refuted = misread("milp", claimed, self._replay(run.order))
            near = (
                divisor > 1 and (self.value or 0) <= self.bound + terms * divisor * self.scale.unit
            )
            # Rounding alone separates bound and peak: exact digits take over here.
            if self._is_closed() or near or not run.cycles or not run.finished:
                return
            self.cycles.update(dict.fromkeys(run.cycles))

    def _decide_below(self) -> bool:
        """Ask for an order below the best one; return False if that remains open."""
        if self.value is None:
            return False
        high = self.scale.up(self.value) - 1
        while self._has_time():
            model = _Model(self.program, self.cycles)
            model.limit_peak(high)
            run = model.solve(self.clock)
            # No order is below the best one, by exact rows: the best one is the minimum.
            if run.infeasible:
                self.bound = max(self.bound, self.scale.bytes(high + 1))
                return True
            if run.order is None:
                return False
            self._offer(run.order)
            # A better order was found, so the question is asked again below it.
            if self.scale.up(self.value) - 1 < high:
                return True
            if not run.cycles:
                claimed = self.scale.bytes(high)
                self.refuted = misread("milp", claimed, self._replay(run.order))
                return False
            self.cycles.update(dict.fromkeys(run.cycles))
        return False

    def _replay(self, order: Sequence[int]) -> int:
        return check_order(self.graph, self.source.expand(order))

    def _offer(self, order: Sequence[int]) -> None:
        full = self.source.expand(order)
        peak = check_order(self.graph, full)
        if self.value is None or peak < self.value:
            self.order, self.value = full, peak


@dataclass(frozen=True, slots=True)
class _Run:
    """Results of one call of the solver."""

    bound: float
    objective: float
    finished: bool
    infeasible: bool
    order: tuple[int, ...] | None = None
    cycles: tuple[tuple[int, int, int], ...] = ()
    """Return cycles of three ops in the solution, where each runs before the next."""


class _Model:
    """The program of one round."""

    def __init__(self, program: OrderProgram, cycles: Iterable[tuple[int, int, int]]) -> None:
        import pulp

        self.program, self.pulp = program, pulp
        self.problem = pulp.LpProblem("order", pulp.LpMinimize)
        self.smallest, self.largest, self.impossible = 1, 1, False
        self.first = {
            pair: pulp.LpVariable(f"before_{pair[0]}_{pair[1]}", cat="Binary")
            for pair in program.free_pairs()
        }
        self._add_closure()
        for u, v, w in cycles:
            self._at_most([self.before(u, v), self.before(v, w), self.before(w, u)], 2)
        self.released: dict[tuple[tuple[int, ...], int], Any] = {}
        self.saved = [self._saving(k) for k in range(len(program.savings))]
        self._match_savings()
        self.loads = [self._load(v) for v in range(len(program))]

    def before(self, u: int, v: int) -> list[Term]:
        """Return terms whose sum is 1 if op `u` runs before op `v`."""
        known = self.program.relation(u, v)
        if known is not None:
            return [(known, None)]
        return [(1, self.first[u, v])] if u < v else [(1, None), (-1, self.first[v, u])]

    def minimize_peak(self, low: int, high: int) -> None:
        """Let the objective be the peak."""
        peak = self.pulp.LpVariable("peak", low, max(low, high))
        self.problem += peak
        for load in self.loads:
            self._at_most([load, [(-1, peak)]], 0)

    def limit_peak(self, high: int) -> None:
        """Require loads of at most `high`, digit by digit."""
        self.problem += 0
        for v, load in enumerate(self.loads):
            total = _collected(load)
            # A row whose positive terms cannot exceed the limit needs no constraint.
            if sum(max(0, factor) for factor in total.values()) > high:
                self._limit_in_digits(v, total, high)

    def _limit_in_digits(self, v: int, load: dict[Any, int], high: int) -> None:
        """Require `load <= high` with factors below :data:`MAX_UNITS`.

        The sum of a digit exceeds its limit by at most the carry times the base; the carry counts
        in the next digit. The row of the last digit has no carry.
        """
        left = {x: factor for x, factor in load.items() if x is not None}
        high -= load.get(None, 0)
        carry: list[Term] = []
        while max([abs(high), *(abs(factor) for factor in left.values())]) >= MAX_UNITS:
            row = [(factor % MAX_UNITS, x) for x, factor in left.items()]
            # A digit is at most the base, so that the carry is at most the number of terms.
            made = self.pulp.LpVariable(
                f"carry_{v}_{len(self.problem.constraints)}", -1, len(row) + 2, cat="Integer"
            )
            self._at_most([row, carry, [(-MAX_UNITS, made)]], high % MAX_UNITS)
            left = {x: factor // MAX_UNITS for x, factor in left.items()}
            high //= MAX_UNITS
            carry = [(1, made)]
        self._at_most([[(factor, x) for x, factor in left.items()], carry], high)

    def solve(self, clock: Clock) -> _Run:
        """Run HiGHS, and read the order from its solution."""
        # Far apart coefficients make tolerances larger than the smallest of them.
        if self.largest > MAX_RANGE * self.smallest:
            raise UsageError(
                f"the MILP has coefficients from {self.smallest} to {self.largest}, a range in "
                "which floating point is not reliable"
            )
        if self.impossible:
            return _Run(-inf, inf, finished=True, infeasible=True)
        return self._read(*_call_highs(self.problem, self.pulp, clock))

    def _read(self, bound: float, objective: float, finished: bool, infeasible: bool) -> _Run:
        if infeasible or self.problem.sol_status == self.pulp.LpSolutionNoSolutionFound:
            return _Run(bound, objective, finished, infeasible)
        # A variable without any constraint is not part of the program, and has no value.
        chosen = {pair: (x.value() or 0) > 0.5 for pair, x in self.first.items()}
        ahead = [mask.bit_count() for mask in self.program.ancestors]
        for (u, v), first in chosen.items():
            ahead[v if first else u] += 1
        order = tuple(sorted(range(len(ahead)), key=lambda v: ahead[v]))
        return _Run(bound, objective, finished, infeasible, order, self._cycles(chosen))

    def _cycles(self, chosen: dict[tuple[int, int], bool]) -> tuple[tuple[int, int, int], ...]:
        """Return the cycles of three ops of a solution."""
        beside: list[set[int]] = [set() for _ in range(len(self.program))]
        for u, v in chosen:
            beside[u].add(v)
            beside[v].add(u)

        def runs(u: int, v: int) -> bool:
            known = self.program.relation(u, v)
            if known is not None:
                return bool(known)
            return chosen[u, v] if u < v else not chosen[v, u]

        found = set()
        for u, row in enumerate(beside):
            # Each cycle of three is found from each of its ops; a set keeps it once.
            for v, w in combinations(sorted(row), 2):
                if runs(u, v) and runs(v, w) and runs(w, u):
                    found.add(_turned(u, v, w))
                elif runs(u, w) and runs(w, v) and runs(v, u):
                    found.add(_turned(u, w, v))
        return tuple(sorted(found))

    def _load(self, v: int) -> list[Term]:
        program = self.program
        terms: list[Term] = [(program.base + program.rise[v], None)]
        for u, factor in enumerate(program.delta):
            terms += [(factor * sign, x) for sign, x in self.before(u, v)] if factor else []
        for size, users in program.shared:
            terms += [(-size * sign, x) for sign, x in self._released(users, v)]
        for saving, flag in zip(program.savings, self.saved, strict=True):
            if saving.op == v and flag is not None:
                terms.append((-saving.size, flag))
        return terms

    def _released(self, users: Sequence[int], v: int) -> list[Term]:
        """Return terms whose sum is at most 1 if all users run before an op, and 0 otherwise."""
        relations = {u: self.program.relation(u, v) for u in users}
        free = tuple(sorted(u for u, known in relations.items() if known is None))
        if 0 in relations.values():
            return []
        if len(free) < 2:
            return self.before(free[0], v) if free else [(1, None)]
        if (free, v) not in self.released:
            made = self.pulp.LpVariable(f"released_{v}_{len(self.released)}", 0, 1)
            self.released[free, v] = made
            for u in free:
                self._at_most([[(1, made)], _minus(self.before(u, v))], 0)
        return [(1, self.released[free, v])]

    def _saving(self, k: int) -> Any:
        """Return the variable of a saving, or None if it is never available."""
        saving = self.program.savings[k]
        if any(self.program.relation(u, saving.op) == 0 for u in saving.needs):
            return None
        flag = self.pulp.LpVariable(f"saved_{k}", cat="Binary")
        for u in saving.needs:
            self._at_most([[(1, flag)], _minus(self.before(u, saving.op))], 0)
        return flag

    def _match_savings(self) -> None:
        """Use at most one saving of each group."""
        groups: dict[tuple[int, int], list[Term]] = {}
        for saving, flag in zip(self.program.savings, self.saved, strict=True):
            for group in saving.groups if flag is not None else ():
                groups.setdefault((saving.op, group), []).append((1, flag))
        for terms in groups.values():
            if len(terms) > 1:
                self._at_most([terms], 1)

    def _add_closure(self) -> None:
        """Require that predecessors of what runs before an op run before it, too."""
        for u, v in self.first:
            for first, second in ((u, v), (v, u)):
                for w in self.program.preds[first]:
                    if self.program.relation(w, second) is None:
                        earlier = _minus(self.before(w, second))
                        self._at_most([self.before(first, second), earlier], 0)

    def _at_most(self, sums: Iterable[Sequence[Term]], limit: int) -> None:
        """Add the constraint that sums of terms are at most a limit."""
        total = _collected(term for terms in sums for term in terms)
        limit -= total.pop(None, 0)
        total = {x: factor for x, factor in total.items() if factor}
        if not total:
            # PuLP leaves out constraints without variables.
            self.impossible |= limit < 0
            return
        # Recorded to judge whether floats can be trusted with this program.
        factors = [abs(factor) for factor in total.values()]
        self.smallest = min(self.smallest, *factors)
        self.largest = max(self.largest, *factors)
        self.problem += self.pulp.LpAffineExpression(total) <= limit


def _turned(u: int, v: int, w: int) -> tuple[int, int, int]:
    """Return a cycle with its smallest op first."""
    return min((u, v, w), (v, w, u), (w, u, v))


def _minus(terms: Iterable[Term]) -> list[Term]:
    return [(-factor, x) for factor, x in terms]


def _collected(terms: Iterable[Term]) -> dict[Any, int]:
    """Add up the factors of each variable: of several terms of one, PuLP keeps the last."""
    total: dict[Any, int] = {}
    for factor, x in terms:
        total[x] = total.get(x, 0) + factor
    return total


def _safe_units(bound: float) -> int:
    """Round a floating-point lower bound up to integral units, minus a safety margin."""
    return max(0, ceil(bound - max(MARGIN, MARGIN * abs(bound))))


def _call_highs(problem: Any, pulp: Any, clock: Clock) -> tuple[float, float, bool, bool]:
    """Solve within the limits of a clock; return bound, objective, finished, infeasible."""
    left, nodes = clock.left(), None
    if clock.limits.work is not None:
        left, nodes = None, None if left is None else max(1, int(left) // NODE_WORK)
    bound, finished = run_highs(problem, pulp, left, clock.limits.workers, nodes)
    solver = problem.solverModel
    clock.spend(NODE_WORK * max(1, int(solver.getInfo().mip_node_count)))
    infeasible = problem.sol_status == pulp.LpSolutionInfeasible
    return bound, float(solver.getInfo().objective_function_value), finished, infeasible


def run_highs(
    problem: Any, pulp: Any, seconds: float | None, workers: int, nodes: int | None = None
) -> tuple[float, bool]:
    """Solve a program in this process; return its bound in units and whether it finished."""
    problem.solve(
        pulp.HiGHS(
            msg=False,
            gapRel=0.0,
            gapAbs=0.0,
            timeLimit=seconds,
            parallel="off" if workers == 1 else "on",
            mip_feasibility_tolerance=1e-9,
            primal_feasibility_tolerance=1e-9,
            **({} if nodes is None else {"mip_max_nodes": nodes}),
        )
    )
    finished = problem.sol_status == pulp.LpSolutionOptimal
    info = problem.solverModel.getInfo()
    # A program without binaries is solved as a linear program, which has no MIP bound.
    return float(info.objective_function_value if finished else info.mip_dual_bound), finished
