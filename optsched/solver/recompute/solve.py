"""Plan recomputation: the loop over master, order search, repair and proof.

One :class:`Planner` serves all budgets of a graph. A schedule that fits a peak fits every larger
one, and a bound holds for every smaller one, so each budget starts from what the others found, and
a larger budget never gets a plan of larger cost. Each budget gets rows of its own: with those that
others need, the same proofs take longer. For one budget:

1. Look for an op beside which too much is live for every set of repeats: no plan exists then.
   Else repeat all nodes that cost nothing; if that schedule can be repaired, no other costs less.
2. Add the rows of the runs that exceed the peak in the best order so far.
3. Ask the master for the cheapest repeats, and search an order with these repeats.
4. If no order fits, go to 2; if all rows are there, repair the schedule (see `repair`), drop the
   repeats that it does not need, and replace repeats by cheaper ones.
5. Prove a bound; the cost of the plan is the target.

An interrupt or the end of the time at any step leaves the best plan and bound so far.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count

from optsched.check.runs import CheckedRuns, check_runs
from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts
from optsched.runtime.limits import StopReason
from optsched.solver.recompute.blocker import name_blocker
from optsched.solver.recompute.bound import IMPOSSIBLE
from optsched.solver.recompute.effort import EFFORT, RecomputeEffort
from optsched.solver.recompute.evict import FIRST_TURNS, Evictions
from optsched.solver.recompute.master import Chosen, Master
from optsched.solver.recompute.problem import RecomputeProblem, make_problem
from optsched.solver.recompute.prove import Proof, prove, used_nodes
from optsched.solver.recompute.repair import Repair
from optsched.solver.recompute.result import RecomputeResult, proved_bound
from optsched.solver.recompute.rows import CutRows
from optsched.solver.recompute.runs import Nodes, Schedule, Unroller, repeats, with_repeats

ORDER_SECONDS = 0.3
"""Limit of an order search for a plan that is known, and of all such ones before the master."""


@dataclass(slots=True)
class Planner:
    """Planner of one graph, for any number of budgets."""

    graph: Graph
    """Training graph with costs."""
    loss: Sequence[str] = ()
    """Names of the ops that make the loss; found by default."""
    known: Sequence[Sequence[int]] = ()
    """Sequences of op ids to start from, such as those of a framework."""
    effort: RecomputeEffort = EFFORT
    """Amount of work for each part."""
    early: bool = True
    """True if nodes may run again before the loss where other plans leave a gap."""
    problem: RecomputeProblem = field(init=False)
    unroller: Unroller = field(init=False)
    base: Schedule = field(init=False)
    pool: dict[Nodes, Schedule] = field(default_factory=dict)
    proofs: dict[int, Proof] = field(default_factory=dict)
    checks: dict[Nodes, tuple[tuple[int, ...], CheckedRuns]] = field(default_factory=dict)
    turns: Iterator[int] = field(default_factory=count)
    """Seeds of random factors: each search of plans by eviction tries others."""

    def __post_init__(self) -> None:
        self.problem = make_problem(self.graph, self.loss)
        self.unroller = Unroller(self.problem)
        self.base = self._keep(self.unroller.measure(tuple(range(len(self.problem.ops)))))
        # Sequences name ops, and views are left out, since they are put before their readers
        # again.
        node = {v: i for i, v in enumerate(self.problem.ops)}
        for sequence in self.known:
            nodes = tuple(node[v] for v in sequence if v in node)
            # A framework may repeat what a plan must not, such as random draws.
            with suppress(PlanError):
                self.unroller.graph(nodes)
                self._keep(self.unroller.measure(nodes))

    def find_base(self, clock: Clock) -> Schedule:
        """Search the order of least peak without repeats."""
        # A budget of 0 is never met, so the search lowers the peak as far as the time allows.
        found = self.unroller.search(self.base.nodes, 0, clock)
        if found.peak < self.base.peak:
            self.base = self._keep(found)
        return self.base

    def plan(self, peak: int, clock: Clock) -> RecomputeResult:
        """Return the cheapest known plan within a peak, with its proof."""
        start, reason = time.process_time(), StopReason.EXHAUSTED
        self.unroller.clock = clock
        try:
            with held_interrupts():
                self._plan(peak, clock)
                # Of equal cost, fewer bytes and fewer repeats.
                self._replace(peak, clock)
        except KeyboardInterrupt:
            reason = StopReason.INTERRUPTED
        else:
            reason = clock.limit_reason() if clock.expired() else reason
        return self.result(peak, reason, time.process_time() - start)

    def blocker(self, peak: int, clock: Clock) -> str:
        """Return what makes a peak impossible, if the rows of one op show it; empty otherwise."""
        self.unroller.clock = clock
        if self.base.peak <= peak or not self._rule_out(peak, clock):
            return ""
        return name_blocker(self.problem, self.base, used_nodes(self.proof(peak)), peak)

    def result(self, peak: int, reason: StopReason, seconds: float) -> RecomputeResult:
        """Return the result for a peak."""
        best, proof = self.best(peak), self.proof(peak)
        bound = proved_bound(proof)
        # Runs of ops, with views, are what the checker and the caller understand.
        sequence, checked = (None, None) if best is None else self._checked(best.nodes)
        if checked is not None and checked.peak > peak:
            raise RuntimeError(f"a plan of peak {checked.peak} was kept for a budget of {peak}")
        # A plan below the bound would mean that the proof is wrong: stop rather than report it.
        if checked is not None and (bound is None or checked.extra < bound):
            raise RuntimeError(f"a plan of cost {checked.extra} is below the bound {bound}")
        if bound is None or (checked is not None and checked.extra <= bound):
            reason = StopReason.PROVED
        return RecomputeResult(
            graph=self.problem.graph,
            loss=tuple(self.problem.graph.ops[v].name for v in self.problem.loss),
            budget=peak,
            sequence=sequence,
            peak=None if checked is None else checked.peak,
            extra=None if checked is None else checked.extra,
            bound=bound,
            proof=proof,
            total=self.problem.total,
            stop_reason=reason,
            seconds=seconds,
            blocker=name_blocker(self.problem, self.base, used_nodes(proof), peak)
            if bound is None
            else "",
        )

    def best(self, peak: int) -> Schedule | None:
        """Return the cheapest known schedule within a peak."""
        # A plan of a smaller budget serves for this one as well.
        fitting = [x for x in self.pool.values() if x.peak <= peak]
        return min(fitting, key=self.unroller.price, default=None)

    def next_peak(self, peak: int) -> int | None:
        """Return the least peak of the known schedules above a peak."""
        return min((x.peak for x in self.pool.values() if x.peak > peak), default=None)

    def proof(self, peak: int) -> Proof:
        """Return the best proof for a peak; a proof for a larger one counts as well."""
        # What is impossible or expensive within a larger peak is so within a smaller one.
        found = [proof for known, proof in self.proofs.items() if known >= peak]
        return max(found, key=lambda proof: proof.bound, default=Proof())

    def _keep(self, found: Schedule) -> Schedule:
        if found.nodes not in self.pool and self.problem.keeps_old(found.nodes):
            # Nodes and storages alone do not tell what an older copy needs.
            _, checked = self._checked(found.nodes)
            found = replace(found, peak=max(found.peak, checked.peak))
        return self.pool.setdefault(found.nodes, found)

    def _checked(self, nodes: Nodes) -> tuple[tuple[int, ...], CheckedRuns]:
        """Return the sequence of ops of some nodes, and what the checker measures of it."""
        if nodes not in self.checks:
            sequence = self.problem.sequence(nodes)
            self.checks[nodes] = sequence, check_runs(self.problem.graph, sequence)
        return self.checks[nodes]

    def _plan(self, peak: int, clock: Clock) -> None:
        if self.base.peak > peak:
            if self.proof(peak).bound >= IMPOSSIBLE or self._rule_out(peak, clock):
                return
            self.find_base(clock.limited(self.effort.order_seconds))
        # No repeats are needed; or reading the graph took all the time.
        if self.base.peak <= peak or clock.expired():
            return
        self._find_first(peak, clock)
        if self._is_done(peak):
            return
        master = self._master(peak)
        # Where no set is enough in most of the time, plans need the rest.
        start, target, exact = self._search_sets(master, clock.share(0.6))
        fits = start.peak <= peak
        if not fits:
            self._evict(peak, clock.limited(self._part(clock, 8)), [start])
            # A repair often ends in tenths of a second, and all that follows may take all time.
            self._repair(peak, start, clock.limited(self._part(clock, 4)))
        best = self.best(peak)
        # A plan at nearly this cost is hardly improved, and if so by the proof, which meets cheaper
        # sets.
        is_near = best is not None and best.cost <= target + target // 100
        self._prove(master, target, clock if is_near else clock.share(0.5))
        if self._is_done(peak) or self.proof(peak).bound >= IMPOSSIBLE or (fits and exact):
            return
        # Repeats before the loss multiply the sequences to try, so they come last.
        for early in (False, True) if self.early else (False,):
            if clock.expired():
                return
            # The proof meets sets of its own, so starts leave it a part of the time.
            part = clock.share(0.6)
            starts = (self.base, start) if early else self._starts(master, start, part)
            for each in starts:
                if part.expired() or self._is_done(peak):
                    break
                self._repair(peak, each, clock.limited(self._part(clock, 3)), early=early)
                self._reorder(peak, clock.limited(self._part(clock, 8)))
            self._improve(peak, clock.limited(self._part(clock, 3)), early)
            if self._is_done(peak):
                return
        best = self.best(peak)
        # One linear program of a large graph takes a second, and without time it proves nothing.
        if best is not None and not clock.expired():
            self._prove(master, best.cost, clock)

    def _rule_out(self, peak: int, clock: Clock) -> bool:
        """Return True if the rows of one op already show that no repeats are enough."""
        if not self.problem.ops or clock.expired():
            return False
        # The op of most bytes leaves least room, and the run at the peak has most beside it.
        widest = max(range(len(self.problem.ops)), key=self.problem.own_bytes)
        worst = max(range(len(self.base.nodes)), key=self.base.running.__getitem__)
        master = self._master(peak, {widest, self.base.nodes[worst]})
        found = None if clock.expired() else master.relax(self._part(clock, 4), clock)
        if found is None or found.bound < IMPOSSIBLE:
            return False
        self.proofs[peak] = Proof(found.bound, found.leaf, master.rows)
        return True

    def _find_first(self, peak: int, clock: Clock) -> None:
        """Find plans without a bound, in a part of the time."""
        known = self.best(peak)
        if known is not None:
            # A framework's schedule may have repeats that the peak does not need.
            self._keep(self.unroller.shortest(known.nodes, peak))
        self._evict(peak, clock.limited(self._part(clock, 8)), (self.base, *self.pool.values()))
        self._reorder(peak, clock.limited(min(ORDER_SECONDS, self._part(clock, 8))))
        if not self._is_done(peak):
            self._repeat_free(peak, clock)

    def _evict(self, peak: int, clock: Clock, found: Iterable[Schedule], seed: int = 0) -> None:
        """Find plans by eviction from the orders of the first runs of some schedules."""
        orders = dict.fromkeys(tuple(dict.fromkeys(x.nodes)) for x in found)
        tries = [
            Evictions(self.unroller, order, peak, seed)
            for order in [*orders][: self.effort.orders]
            if not clock.expired()
        ]
        for turn in range(self.effort.evictions):
            if turn == FIRST_TURNS and tries:
                # All orders at first, then the one of the best plan.
                tries = [min(tries, key=lambda each: (not each.rank, each.rank))]
            for each in tries:
                if not clock.expired():
                    each.next()
        for each in tries:
            # What is above the peak is a start for repairs.
            if each.best is not None:
                self._keep(each.best)

    def _reorder(self, peak: int, clock: Clock) -> None:
        """Search orders of the best plan's runs that need less, and evict again from these."""
        idle = 0
        best = self._nearest(peak)
        while idle < self.effort.idle and not clock.expired() and not self._is_done(peak):
            turn = next(self.turns)
            part = self.effort.lower[turn % len(self.effort.lower)]
            limit = clock.limited(min(ORDER_SECONDS, self._part(clock, 3)))
            found = self.unroller.search(best.nodes, int(part * peak), limit)
            if found.peak <= peak:
                found = self._keep(self.unroller.shortest(found.nodes, peak))
            self._evict(peak, clock.limited(self._part(clock, 4)), [found], turn)
            self._replace(peak, clock)
            before, best = best, self._nearest(peak)
            idle = idle + 1 if best is before else 0

    def _replace(self, peak: int, clock: Clock) -> None:
        """Replace repeats of the best plan by cheaper ones until none can be."""
        is_better = not clock.expired()
        while is_better and (best := self.best(peak)) is not None:
            is_better = False
            barrier, price = self.unroller.barrier(best.nodes), self.unroller.flat.price
            found = [i for i in repeats(best.nodes) if i > barrier]
            for i in sorted(found, key=lambda i: -price[best.nodes[i]]):
                if clock.expired():
                    break
                better = self.unroller.replaced(best, i, peak)
                if better is None or self.unroller.price(better) >= self.unroller.price(best):
                    continue
                if self._keep(better).peak <= peak:
                    is_better = True
                    break

    def _nearest(self, peak: int) -> Schedule:
        """Return the best plan within a peak, or else the schedule of least peak."""
        found = self.best(peak)
        return found or min(self.pool.values(), key=lambda x: (x.peak, x.cost))

    def _improve(self, peak: int, clock: Clock, early: bool) -> None:
        """Replace repeats of the best plans by cheaper ones."""
        fitting = (x for x in self.pool.values() if x.peak <= peak)
        if clock.expired():
            return
        repair = self._repairer(peak, clock, early)
        # The cheapest plan often is one that no replacement improves, and another one is not.
        for each in sorted(fitting, key=self.unroller.price)[: self.effort.improved]:
            if not self._is_done(peak):
                self._keep(repair.improve(each, self.effort.improvements))

    def _repairer(self, peak: int, clock: Clock, early: bool) -> Repair:
        unroller = self.unroller.with_early_repeats() if early else self.unroller
        return Repair(unroller, peak, clock)

    def _repeat_free(self, peak: int, clock: Clock) -> None:
        """Try a plan of cost 0: repeat all nodes that are free, and repair that schedule.

        The master cannot tell sets of cost 0 apart, and its sets have few repeats, so this schedule
        is the better start where fused ops are free.
        """
        free = frozenset(v for v in self.problem.again if not self.problem.cost[v])
        if free:
            limit = clock.limited(self._part(clock, 3))
            self._repair(peak, self._order(free, peak, limit), limit, most=1)

    def _master(self, peak: int, moments: Iterable[int] = ()) -> Master:
        """Return the programs of a peak with the rows of some nodes, as many as time allows."""
        # Small storages are left out of the rows, as they make them large and the bounds hardly
        # better.
        rows = CutRows(self.problem, peak, self.base.peak // self.effort.small)
        for v in sorted(moments):
            rows.add(v, self.unroller.clock)
        return Master(rows)

    def _part(self, clock: Clock, parts: int) -> float:
        left = clock.seconds_left()
        return 20.0 if left is None else left / parts

    def _is_done(self, peak: int) -> bool:
        best = self.best(peak)
        return best is not None and best.cost <= self.proof(peak).bound

    def _search_sets(self, master: Master, clock: Clock) -> tuple[Schedule, int, bool]:
        """Ask the master and search orders.

        Return the last schedule, the cost of its set, and True if no set satisfies the rows at
        smaller cost, but for the prices of ties: sets of nearly equal cost count as equal, and only
        a proof tells them apart. The cost is :data:`IMPOSSIBLE` if no set satisfies them.
        """
        found, target, exact = self.base, 0, False
        for _ in range(self.effort.turns):
            if not self._add_rows(master.rows, found) or clock.expired():
                break
            nodes, exact = self._choose(master, clock)
            if nodes is None:
                return found, IMPOSSIBLE if exact else target, exact
            found = self._order(nodes, master.rows.peak, clock)
            target = found.cost
            # The set is enough: the schedule fits the peak.
            if found.peak <= master.rows.peak:
                break
        return found, target, exact

    def _choose(self, master: Master, clock: Clock) -> Chosen:
        if clock.expired():
            return Chosen(None, exact=False)
        return master.choose(min(self.effort.choose_seconds, self._part(clock, 2)), clock)

    def _order(self, again: frozenset[int], peak: int, clock: Clock) -> Schedule:
        nodes = with_repeats(self.problem, self.base.nodes, again)
        limit = clock.limited(self.effort.order_seconds)
        return self._keep(self.unroller.search(nodes, peak, limit))

    def _add_rows(self, rows: CutRows, found: Schedule) -> bool:
        """Add rows of the first runs that exceed the peak, the largest first, then of twins."""
        # Rows are about first runs, so a run that repeats gives none.
        first = {v: i for i, v in reversed([*enumerate(found.nodes)])}
        over = [i for i in first.values() if found.running[i] > rows.peak]
        firsts = [found.nodes[i] for i in sorted(over, key=lambda i: (-found.running[i], i))]
        new = [v for v in firsts if v not in rows.nodes]
        # Where all are there, another order may exceed the peak at a twin of one of them.
        new = new or [w for v in firsts for w in self.problem.twins(v) if w not in rows.nodes]
        for v in [*dict.fromkeys(new)][: self.effort.nodes_per_turn]:
            # Of all the time, since rows that are left unfinished are not made again.
            rows.add(v, self.unroller.clock)
        return bool(new)

    def _prove(self, master: Master, target: int, clock: Clock) -> None:
        """Prove a bound; sets that the proof finds on its way are tried as plans."""
        if clock.expired():
            return
        peak = master.rows.peak

        def offer(nodes: frozenset[int], rows: CutRows) -> int | None:
            found = self._order(nodes, peak, clock)
            # The order fits, so this set is a plan, and its cost the new target.
            if found.peak <= peak:
                return found.cost
            return target if self._add_rows(rows, found) else None

        proof = prove(master, target, clock, self.effort.programs, offer)
        # An equal bound of the newer proof is kept, since its tree belongs to this peak.
        if proof.bound >= self.proof(peak).bound:
            self.proofs[peak] = proof

    def _starts(self, master: Master, start: Schedule, clock: Clock) -> Iterator[Schedule]:
        """Yield schedules to repair: a given one, those that nearly fit, and others."""
        peak, seen = master.rows.peak, {self.base.nodes}
        # Plans that nearly fit are good starts: few repeats are missing.
        near = [x for x in self.pool.values() if x.peak <= 1.1 * peak and x.cost]
        known = [start, *sorted(near, key=lambda x: x.cost)[:3]]
        for found in chain(known, self._of_smaller_peaks(master, clock)):
            if found.nodes not in seen:
                seen.add(found.nodes)
                yield found
        yield self.base

    def _of_smaller_peaks(self, master: Master, clock: Clock) -> Iterator[Schedule]:
        """Yield schedules of sets that are chosen for smaller peaks."""
        peak = master.rows.peak
        for part in self.effort.shrink:
            if clock.expired():
                break
            # A smaller peak asks for more repeats, which leaves the repair less to do.
            smaller = self._master(int(part * peak), master.rows.active)
            again = self._choose(smaller, clock).nodes
            if again is not None:
                yield self._order(again, peak, clock)

    def _repair(
        self,
        peak: int,
        start: Schedule,
        clock: Clock,
        most: int | None = None,
        *,
        early: bool = False,
    ) -> None:
        if clock.expired():
            return
        best = self.best(peak)
        repair = self._repairer(peak, clock, early)
        if most is None:
            # Repairs add repeats; a start much above the best plan hardly ends below it.
            most = IMPOSSIBLE if best is None else best.cost + best.cost // 3
        found = repair.repair(start, most, self.effort.repairs)
        if found is not None:
            self._keep(self.unroller.shortest(found.nodes, peak))
