"""The orders that are weighed against each other, and the choice among them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optsched.errors import PlanError
from optsched.formats.inductor import read_inductor
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.plugins.inductor.runtime_graph import RuntimeGraph, build_runtime_graph, join_units
from optsched.plugins.inductor.simulate import Order, simulate
from optsched.plugins.inductor.wrapper import WrapperFacts, is_valid_order
from optsched.runtime.limits import Limits, Objective
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.store import PlanStore

OPTIMUM, ESTIMATE, STORED = "optimum", "optimum of the estimate", "store"
"""Names of orders that are not Inductor's."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An order, what else it needs, and what it is worth.

    Parameters
    ----------
    name
        Where the order came from.
    order
        Positions of nodes.
    reuse
        Whether the wrapper is to hand freed buffers on.
    peak
        Bytes, as simulated.
    moved
        How many nodes stand elsewhere than in the framework's order.
    """

    name: str
    order: Order
    reuse: bool
    peak: int
    moved: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """The framework's own choice and the best one, which may be the same.

    Parameters
    ----------
    own, best
        What the framework would run, and the best order that keeps every guard.
    own_is_valid
        Whether the framework's order keeps every guard; if not, it computes something else.
    bound, proof
        Of the runtime's graph; None without a solver's result.
    solver_seconds
        Spent in the solver.
    """

    own: Choice
    best: Choice
    own_is_valid: bool
    bound: int | None
    proof: str
    solver_seconds: float

    @property
    def gains(self) -> bool:
        """Whether the best order is to run, and not the framework's own."""
        return not self.own_is_valid or self.best.peak < self.own.peak


def decide(
    facts: WrapperFacts,
    document: Mapping[str, Any],
    *,
    reuse: bool,
    seconds: float,
    name: str,
    store: PlanStore | None = None,
) -> Decision:
    """Choose the order of a graph.

    Parameters
    ----------
    facts
        Of the graph.
    document
        Inductor's own estimate as :func:`~optsched.plugins.inductor.snapshot.take_snapshot` gives
        it, with the orders that Inductor weighs.
    reuse
        Whether the wrapper hands buffers on unless told otherwise.
    seconds
        For the solver.
    name
        Of the graph.
    store
        Where plans are looked up before the solver is asked, and kept afterwards.
    """
    recorded = {k: tuple(v) for k, v in document["extra"]["orders"].items()}
    framework = recorded[document["extra"]["chosen"]]
    own = Choice("inductor", framework, reuse, simulate(facts, framework, reuse=reuse).peak)
    solver = _Solver(facts, document, name, seconds)
    orders = {**recorded, **solver.orders(own.peak, store)}
    settings = (True, False) if reuse else (False,)
    choices = [own] if is_valid_order(facts, framework) else []
    valid = bool(choices)
    choices += _simulate_all(facts, orders, settings, framework)
    if not choices:
        raise PlanError("no order keeps what the mutations need")
    best = min(choices, key=lambda c: (c.peak, c.reuse is not reuse, c.moved))
    if store is not None and best.name != ESTIMATE:
        solver.keep(store)
    return Decision(own, best, valid, solver.bound, solver.proof, solver.seconds_spent)


def _simulate_all(
    facts: WrapperFacts,
    orders: Mapping[str, Order],
    settings: Sequence[bool],
    framework: Order,
) -> Iterator[Choice]:
    seen: set[Order] = set()
    for name, order in orders.items():
        if order in seen or not is_valid_order(facts, order):
            continue
        seen.add(order)
        moved = sum(u != v for u, v in zip(order, framework, strict=True))
        for reuse in settings:
            yield Choice(name, order, reuse, simulate(facts, order, reuse=reuse).peak, moved)


class _Solver:
    """The solver's two orders: least peak of the runtime's graph, and of Inductor's estimate."""

    def __init__(
        self, facts: WrapperFacts, document: Mapping[str, Any], name: str, seconds: float
    ) -> None:
        self.facts = facts
        self.document = document
        self.name = name
        self.seconds = seconds
        self.bound: int | None = None
        self.proof = ""
        self.seconds_spent = 0.0
        self.solved: tuple[Graph, Plan] | None = None

    def orders(self, to_beat: int, store: PlanStore | None) -> dict[str, Order]:
        """Return them, or the stored one; what can not be better than the others is left out."""
        runtime = build_runtime_graph(self.facts, self.name)
        stored = None if store is None else store.get(runtime.graph)
        if stored is not None:
            self.bound, self.proof = stored.bound, stored.proof
            return {STORED: runtime.node_order(stored.plan.order)}
        found = self._least_runtime(runtime)
        reached = [simulate(self.facts, order, reuse=False).peak for order in found.values()]
        if min([to_beat, *reached]) > (self.bound or 0):
            found.update(self._least_estimate(runtime))
        return found

    def keep(self, store: PlanStore) -> None:
        """Put the least peak of the runtime's graph into a store, if the solver was asked."""
        if self.solved is not None:
            graph, plan = self.solved
            store.put(graph, plan, bound=self.bound or 0, proof=self.proof)

    def _least_runtime(self, runtime: RuntimeGraph) -> dict[str, Order]:
        result = self._solve(runtime.graph)
        self.bound, self.proof = result.peak_bound, str(result.peak_proof or "")
        if result.plan is None:
            return {}
        self.solved = runtime.graph, result.plan
        return {OPTIMUM: runtime.node_order(result.plan.order)}

    def _least_estimate(self, runtime: RuntimeGraph) -> dict[str, Order]:
        """Solve what Inductor thinks it runs: where frees wait, it may well be right."""
        before = [sorted(node.predecessors) for node in self.facts.nodes]
        extra = {**self.document["extra"], "pred_nodes": before}
        graph = read_inductor({**self.document, "extra": extra}, name=self.name)
        result = self._solve(graph)
        if result.plan is None:
            return {}
        return {ESTIMATE: join_units(result.plan.order, runtime.units)}

    def _solve(self, graph: Graph) -> Result:
        left = max(0.0, self.seconds - self.seconds_spent)
        start = time.perf_counter()
        try:
            return solve(graph, objective=Objective.PEAK, limits=Limits(seconds=left / 2))
        finally:
            self.seconds_spent += time.perf_counter() - start
