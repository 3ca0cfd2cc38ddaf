"""Candidate orders for a graph, and the choice among them by simulation.

Candidates are the orders that Inductor considered, the optimum of the graph of ops and buffers, the
optimum of Inductor's own estimate, and the order that was found for an equal graph earlier.
Each is simulated with and without buffer reuse (:mod:`optsched.plugins.inductor.wrapper.simulate`);
the one with the smallest simulated peak is chosen, and among equals one that moves few nodes. All
peaks that are small enough count as equal.

Example: Inductor's order is simulated with 10 MB. The optimum of the graph needs 8 MB on paper, and
is simulated with 9 MB because dead buffers wait for the next extern kernel. It is chosen, as 9 is
less than 10.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heuristics.packings.greedy import greedy_by_size
from optsched.errors import PlanError
from optsched.formats.inductor import read_inductor
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.order_rules import moved_ops
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.model.question import Question
from optsched.model.saving import Saving
from optsched.ordering.improve.few_moves import move_back
from optsched.ordering.moves import fewest_moves
from optsched.plugins.gain import DEFAULT_GAIN, MinGain, worth_it
from optsched.plugins.inductor.earlier import Earlier
from optsched.plugins.inductor.orders.choice import Choice, Scale, weigh
from optsched.plugins.inductor.orders.runtime_graph import RuntimeGraph, build_runtime_graph
from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts, is_valid_order
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, Objective
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.store import PlanStore, provenance
from optsched.store.savings import own_plan

OPTIMUM, ESTIMATE, STORED = "optimum", "optimum of the estimate", "store"
EARLIER = "order found earlier"
"""Names of our orders."""

MOVES_SHARE = 0.1
"""Share of the time for an order of the same peak that moves fewer nodes."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The framework's own choice and the best one, which may be equal."""

    own: Choice
    best: Choice
    """`own` and `best`: the framework's choice, and the best order that obeys every guard."""
    own_is_valid: bool
    """True if the framework's order obeys every guard; if not, it computes a wrong result."""
    bound: int | None
    proof: str
    """`bound` and `proof`: lower bound on the peak of the runtime's graph, and its kind of proof;
    None without a result of the solver."""
    solver_seconds: float
    """Time spent in the solver."""

    min_gain: MinGain = DEFAULT_GAIN
    """Least saving for which the framework's own order is replaced."""
    unknown_bytes: int = 0
    """Bytes of inputs that the caller may or may not hold, which is known only at the call."""
    start: int = 0
    """Bytes of inputs that the graph frees, live before the call."""
    least: int | None = None
    """Smallest peak of all choices, at the upper ends of symbolic sizes; below that of `best` only
    where more is small enough; None: that of `best`."""

    @property
    def gains(self) -> bool:
        """Return True if the best order replaces the framework's own."""
        if not self.own_is_valid:
            return True
        return _saves(self.own, self.best, self.min_gain)


def _saves(own: Choice, best: Choice, min_gain: MinGain) -> bool:
    """Return True if a choice that needs no more saves enough, by hints or at the worst."""
    return worth_it(own.peak, best.peak, min_gain) or worth_it(own.worst, best.worst, min_gain)


def decide(
    facts: WrapperFacts,
    document: Mapping[str, Any],
    *,
    reuse: bool,
    seconds: float,
    name: str,
    store: PlanStore | None = None,
    earlier: Earlier[tuple[Order, bool]] | None = None,
    min_gain: MinGain = DEFAULT_GAIN,
    enough: int = 0,
) -> Decision:
    """Choose the order of a graph.

    Parameters
    ----------
    facts
        Facts about the graph.
    document
        Inductor's own estimate, with the orders that it considered, from
        :func:`~optsched.plugins.inductor.reading.snapshot.take_snapshot`.
    reuse
        True if the wrapper reuses buffers by default.
    seconds
        Time for all of it. On graphs of a few thousand nodes nearly all of it is the solver's.
    name
        Name of the graph.
    store
        Store in which plans are looked up before the solver runs, and kept afterwards.
    earlier
        Orders of other calls and their reuse, by runtime's graph without inputs; this call's is
        added.
    min_gain
        Least saving for which the framework's own order is replaced.
    enough
        A peak that is small enough: no order is replaced for fewer bytes.
    """
    recorded = {k: tuple(v) for k, v in document["extra"]["orders"].items()}
    framework = recorded[document["extra"]["chosen"]]
    scale = Scale(facts, framework, seconds)
    own = scale.weigh("inductor", framework, reuse)
    # The solver runs on a graph of ops and buffers; the wrapper's own rules are for the
    # simulation.
    solver = _Solver(facts, document, build_runtime_graph(facts, name), scale)
    ours = solver.orders(own.peak, store)
    # Without inputs: a simulated step may own more of them than the compiled one.
    ops = "" if earlier is None else _digest(build_runtime_graph(facts.with_inputs(()), name))
    known = None if earlier is None else earlier.get(ops)
    taken = None if known is None else (solver.runtime.node_order(known[0]), known[1])
    if taken is not None:
        ours[EARLIER] = taken[0]
        # It fits, so it is simulated as it was found, also if the time is over.
        scale.weigh(EARLIER, *taken)
    settings = (True, False) if reuse else (False,)
    # Other random numbers are as good, so they make no order of the framework's invalid.
    choices = [own] if is_valid_order(facts, framework, draws=False) else []
    valid = bool(choices)
    found = _weigh_all(scale, recorded, ours, settings)
    # Not only the expected case counts, see needs_no_more.
    choices += [choice for choice in found if not valid or choice.needs_no_more(own)]
    if not choices:
        raise PlanError("no candidate order keeps the accesses that mutations need apart")

    def rank(choice: Choice) -> tuple[int, ...]:
        # Among equal peaks, prefer Inductor's own order, the earlier one, Inductor's setting of
        # reuse, and the order closest to its own.
        peaks = max(choice.peak, enough), max(choice.worst, enough)
        is_new = (choice.order, choice.reuse) != taken
        return *peaks, choice is not own, is_new, choice.reuse is not reuse, choice.moved

    best = min(choices, key=rank)
    is_new = best.name != STORED and (best.order, best.reuse) != taken
    # Measured before moves are taken back, as that keeps the peak.
    replaces = not valid or _saves(own, best, min_gain)
    # The others were improved when they were found.
    if replaces and is_new and best.moved and not scale.is_late():
        left = min(MOVES_SHARE * seconds, scale.clock.left() or 0.0)
        best = with_fewest_moves(facts, solver.runtime, best, framework, left)
    if earlier is not None and best is not own:
        earlier.keep(ops, (solver.runtime.op_order(best.order), best.reuse))
    if store is not None and best.name != ESTIMATE:
        solver.keep(store, best, own)
    proved, spent = (solver.bound, solver.proof), solver.seconds_spent
    totals = _input_bytes(facts)
    return Decision(
        own,
        best,
        valid,
        *proved,
        spent,
        min_gain,
        unknown_bytes=max(totals) - min(totals),
        start=totals[0],
        least=min(best.highest, *(choice.highest for choice in choices)),
    )


def _digest(runtime: RuntimeGraph) -> str:
    return runtime.graph.digest.hex()


def _input_bytes(facts: WrapperFacts) -> list[int]:
    """Return the bytes of the inputs that the graph owns: as expected, then at the extremes."""
    owned = [{i.storage: i.size for i in given} for given in (facts.inputs, *facts.extreme_inputs)]
    return [sum(sizes.values()) for sizes in owned]


def _weigh_all(
    scale: Scale,
    recorded: Mapping[str, Order],
    ours: Mapping[str, Order],
    settings: Sequence[bool],
) -> Iterator[Choice]:
    seen: set[Order] = set()
    for name, order in {**recorded, **ours}.items():
        # An order that breaks a mutation computes wrong numbers, so it is not a candidate at any
        # peak.
        if order in seen or not is_valid_order(scale.facts, order):
            continue
        seen.add(order)
        for reuse in settings:
            # After the limit our orders are simulated, and only as the wrapper is by default.
            is_needed = name in ours and reuse is settings[0]
            if is_needed or (order, reuse) in scale.known or not scale.is_late():
                yield scale.weigh(name, order, reuse)


def with_fewest_moves(
    facts: WrapperFacts, runtime: RuntimeGraph, best: Choice, framework: Order, seconds: float
) -> Choice:
    """Return an order with the same peak or a lower one that moves as few nodes as can be found.

    The search is among orders of at most the same peak in the runtime's graph. The wrapper may free
    buffers later than that graph does, so each order found is simulated.
    """
    clock = Clock(Limits(seconds=seconds))
    graph = runtime.graph
    baseline, order = runtime.op_order(framework), runtime.op_order(best.order)
    if not _runs(graph, order):
        return best
    peak = peak_memory(graph, order)
    # The greedy search comes first: it gives the exact one an upper limit on the moves.
    back = [order, *move_back(graph, baseline, order, peak, clock.share(0.5))]
    fewest = fewest_moves(graph, baseline, peak, clock=clock, known=back[-1]).order
    # Candidates from the fewest moves up; the first that the simulation accepts is the answer.
    for found in ([] if fewest is None else [fewest]) + back[::-1]:
        nodes = runtime.node_order(found)
        if moved_ops(nodes, framework) >= best.moved or clock.expired():
            break
        choice = weigh(facts, best.name, nodes, reuse=best.reuse, framework=framework)
        if choice.needs_no_more(best) and is_valid_order(facts, nodes):
            return choice
    return best


def _runs(graph: Graph, order: Order) -> bool:
    """Return True if the order is valid in the graph, which fixes the order of a buffer's parts."""
    step = {op: i for i, op in enumerate(order)}
    return all(step[u] < step[v] for v in step for u in graph.predecessors[v])


class _Solver:
    """The solver's two orders: of least peak in the runtime's graph, and in Inductor's estimate."""

    def __init__(
        self,
        facts: WrapperFacts,
        document: Mapping[str, Any],
        runtime: RuntimeGraph,
        scale: Scale,
    ) -> None:
        self.facts = facts
        self.document = document
        self.runtime = runtime
        self.scale = scale
        self.bound: int | None = None
        self.proof = ""
        self.seconds_spent = 0.0
        self.solved: Plan | None = None

    def orders(self, to_beat: int, store: PlanStore | None) -> dict[str, Order]:
        """Return the two orders, or the stored one; skip the second if it cannot be better."""
        # A store makes a second compilation quick: nothing is solved.
        stored = None if store is None else store.get(self._question)
        if stored is not None and stored.plan is not None:
            self.bound, self.proof = stored.bound, str(stored.proof or "")
            return {STORED: self.runtime.node_order(stored.plan.order)}
        # Reading a very large graph may have taken all the time.
        found = {} if self.scale.is_late() else self._least_runtime()
        if self.scale.is_late():
            return found
        reached = [self.scale.weigh(name, order, False).peak for name, order in found.items()]
        # At the bound no other order can be better, so the second search is not needed.
        if min([to_beat, *reached]) > (self.bound or 0) and not self.scale.is_late():
            found.update(self._least_estimate())
        return found

    def keep(self, store: PlanStore, best: Choice, own: Choice) -> None:
        """Add the plan of least peak of the runtime's graph to a store, if the solver ran.

        Its origin tells the bytes of Inductor's own order.
        """
        plan, graph = self.solved, self.runtime.graph
        if plan is None:
            return
        order = self.runtime.op_order(best.order)
        # The estimate's optimum was found in another graph, so it is not stored as a plan of this
        # one.
        # The order with fewer moves is stored, so that a later look-up moves as few nodes.
        if best.name in (OPTIMUM, EARLIER) and order != plan.order:
            problem, _ = packing_problem(graph, order)
            plan = make_plan(graph, order, greedy_by_size(problem))
        before = peak_memory(graph, self.runtime.op_order(own.order))
        saving = Saving(
            Objective.PEAK, "peak", before, None, None, "Inductor's own order", own.name
        )
        origin = {**provenance(), **own_plan(saving)}
        store.put(self._question, plan, bound=self.bound or 0, proof=self.proof, origin=origin)

    @property
    def _question(self) -> Question:
        """The question for a plan of least peak: the framework packs the slab itself."""
        return Question(self.runtime.graph, objective=Objective.PEAK)

    def _least_runtime(self) -> dict[str, Order]:
        result = self._solve(self.runtime.graph)
        self.bound, self.proof = result.peak_bound, str(result.peak_proof or "")
        self.solved = result.plan
        return {} if result.plan is None else {OPTIMUM: self.runtime.node_order(result.plan.order)}

    def _least_estimate(self) -> dict[str, Order]:
        """Solve Inductor's estimate, which may be right where the wrapper frees buffers late."""
        before = [sorted(node.predecessors) for node in self.facts.nodes]
        # Without the edges that Inductor has lost, its estimate would accept orders that compute
        # wrong numbers.
        extra = {**self.document["extra"], "pred_nodes": before}
        graph = read_inductor({**self.document, "extra": extra}, name=self.runtime.graph.name)
        result = self._solve(graph)
        if result.plan is None:
            return {}
        return {ESTIMATE: self.runtime.node_order(self.runtime.op_order(result.plan.order))}

    def _solve(self, graph: Graph) -> Result:
        start = time.perf_counter()
        try:
            # Half of the rest: the second search needs a share as well.
            limits = Limits(seconds=(self.scale.clock.left() or 0.0) / 2)
            result = solve(graph, objective=Objective.PEAK, limits=limits)
        finally:
            self.seconds_spent += time.perf_counter() - start
        # Ctrl-C ends the compilation, as it does without the plugin.
        result.stop_reason.raise_if_interrupted()
        return result
