"""Results of solvers: plan, proved bounds, and the reason why the search stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.model.order_rules import NO_RULES, Baseline, OrderRules
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan, Planned
from optsched.model.question import Question, rules_record
from optsched.runtime.limits import Event, Objective, Proof, StopReason, optimality_gap
from optsched.runtime.shown import Shown
from optsched.solver.packing_result import PackingResult, Shortage
from optsched.solver.resume import Resume
from optsched.solver.status import Status, judge, short


@dataclass(frozen=True, slots=True)
class Result(Shown):
    """A solver's answer to a question; its status follows from its numbers.

    Parameters
    ----------
    plan
        The best plan found, accepted by the checker; None without one.
    peak, slab
        Bytes of that plan, of all pools together; None without one.
    peak_bound, slab_bound
        No plan that the question allows has a smaller peak or slab, in bytes.
    peak_proof, slab_proof
        Proof of the value if it meets its bound, else None.
    stop_reason
        Reason why the search ended.
    question
        The question; the bounds are facts about its plans. None if only numbers are kept, which
        are then about minimum slab.
    claimed_bound
        A bound on the objective that a solver claims without proof, above the proved one.
    runtime, compile_seconds
        Wall-clock seconds of the search, and those of them in which kernels were compiled, which no
        limit counts.
    trace
        Best value and bound whenever one of them improved.
    order_search
        Counters of the exact search of orders by rule; empty if none was needed.
    state
        Progress of the search, for :attr:`resume`; None if no later search could use it.
    moved_bound
        Ops of the baseline that every plan as good as this one moves; 0 unless `fewest_moves` was
        asked for.
    spilled_bytes, spilled_bound
        Bytes of the buffers in a later pool than their own, and a lower bound on these bytes in any
        plan, if pools were given; a group counts as one buffer, as large as its largest.
    packing
        The buffers as they are live in the plan's order, packed in the pools that were given; None
        if no order has room.
    shortage
        Reason why no order has room in the pools, or else in the only pool that buffers name; None
        if neither is proved. Its ids are those of buffers of the graph.

    Examples
    --------
    The output `y` and its input `x` are live together while `scale` runs, so every plan needs 12
    bytes.

    >>> from optsched import GraphBuilder, solve
    >>> build = GraphBuilder("pair")
    >>> build.op("load", writes={"x": 8})
    >>> build.op("scale", reads=["x"], writes={"y": 4})
    >>> build.output("y")
    >>> graph = build.build()
    >>> result = solve(graph)
    >>> result.status.value, result.slab, result.slab_bound, result.slab_proof.words
    ('optimal', 12, 12, 'joint bound')
    >>> result.plan.order
    (0, 1)
    """

    plan: Plan | None
    peak: int | None
    slab: int | None
    peak_bound: int
    slab_bound: int
    peak_proof: Proof | None
    slab_proof: Proof | None
    stop_reason: StopReason
    question: Question | None = field(default=None, repr=False, compare=False)
    claimed_bound: int | None = None
    runtime: float = field(default=0.0, repr=False)
    compile_seconds: float = field(default=0.0, repr=False)
    trace: tuple[Event, ...] = field(default=(), repr=False)
    order_search: Mapping[str, int] = field(default_factory=dict, repr=False)
    state: Resume | None = field(default=None, repr=False, compare=False)
    moved_bound: int = 0
    spilled_bytes: int = 0
    spilled_bound: int = 0
    packing: PackingResult | None = field(default=None, repr=False, compare=False)
    shortage: Shortage | None = field(default=None, repr=False, compare=False)

    @property
    def resume(self) -> Resume | None:
        """State from which a later search of the same graph starts; None if it would be of no use.

        It names its graph by a digest, which is computed here, as few callers ask for the state.
        """
        if self.state is None or self.state.graph or self.question is None:
            return self.state
        return replace(self.state, graph=self.question.planned.digest)

    @property
    def moved(self) -> int | None:
        """Ops of the baseline that the plan moves; None without a plan or a baseline."""
        if self.plan is None or self.question is None or self.question.near is None:
            return None
        return self.question.moved(self.plan.order)

    @property
    def objective(self) -> Objective:
        """Quantity that was minimized first."""
        return Objective.SLAB if self.question is None else self.question.objective

    @property
    def capacity(self) -> int | None:
        """Bytes that the slab had to fit in, if that was the question."""
        return None if self.question is None else self.question.capacity

    @property
    def value(self) -> int | None:
        """Bytes of the objective that the plan needs; None without a plan."""
        return self._objective_numbers()[0]

    @property
    def bound(self) -> int:
        """The proved lower bound on the objective in bytes."""
        return self._objective_numbers()[1]

    @property
    def proof(self) -> Proof | None:
        """Proof of the objective's value if it meets the bound, else None."""
        return self._objective_numbers()[2]

    @property
    def graph(self) -> Graph | None:
        """The planned graph, in its memory model and with order rules as control edges."""
        return None if self.question is None else self.question.planned

    @property
    def entry(self) -> Result:
        """The result itself, as the only graph of a module is its entry."""
        return self

    @property
    def order_rules(self) -> OrderRules:
        """Rules that the order keeps, as does every order that the bounds are about."""
        return NO_RULES if self.question is None else self.question.rules

    @property
    def baseline(self) -> Baseline | None:
        """Order that the plan stays near, if one was given."""
        return None if self.question is None else self.question.near

    @property
    def restriction(self) -> str:
        """The plans that the bounds are about, in words; empty if they are all of the graph's."""
        return "" if self.question is None else self.question.restriction

    @property
    def status(self) -> Status:
        """Optimal only if the objective is proved, and not only claimed.

        If fewest moves were asked for as well, these must be proved too. In pools the spilled bytes
        must be proved the fewest; if none are spilled, slabs must be within their capacities, or
        minimum without one.
        """
        value, bound, proof = self._objective_numbers()
        # Equal numbers are a proof only if the bound is proved.
        is_proved = value == bound and proof not in (None, Proof.CLAIMED)
        if self.in_pools:
            return self._status_in_pools(is_proved)
        refuted = self.capacity is not None and self.slab_bound > self.capacity
        # A plan that is best by the objective may still move more ops than needed.
        return judge(value, bound, refuted=refuted, proved=is_proved and self.fewest_moves)

    def _status_in_pools(self, is_proved: bool) -> Status:
        is_limited = self.packing is not None and self.packing.is_limited
        return judge(
            None if self.plan is None else self.spilled_bytes,
            self.spilled_bound,
            refuted=self.refuted is not None,
            proved=None if self.spilled_bytes or is_limited else is_proved,
        )

    @property
    def in_pools(self) -> bool:
        """True if pools were given, into which buffers may spill."""
        return self.question is not None and bool(self.question.pools)

    @property
    def refuted(self) -> Shortage | None:
        """Reason why no order has room in the pools, if that is proved."""
        return self.shortage if self.packing is None else None

    @property
    def problem(self) -> PackingProblem | None:
        """The buffers as they are live in the plan's order, if pools were given."""
        return None if self.packing is None else self.packing.problem

    @property
    def fewest_moves(self) -> bool:
        """True unless fewest moves were asked for and are not proved."""
        wanted = self.baseline is not None and self.baseline.fewest_moves
        return not wanted or self.moved == self.moved_bound

    def __repr__(self) -> str:
        peak = short("peak", self.peak, self.peak_bound, self.peak_proof)
        slab = short("slab", self.slab, self.slab_bound, self.slab_proof)
        among = f" among {self.restriction}" if self.restriction else ""
        return f"Result({self.status}{among}, {peak}, {slab}{self._spilled()}, {self.stop_reason})"

    def _spilled(self) -> str:
        """Return the spilled bytes as a part of a line, empty if there are none."""
        count, bound = self.spilled_bytes, self.spilled_bound
        proof = "proved" if count <= bound else None
        return f", {short('spilled', count, bound, proof)}" if count else ""

    @property
    def gap(self) -> float | None:
        """Optimality gap of the objective, 0 where it is proved; None without a plan."""
        value, bound, _ = self._objective_numbers()
        return None if value is None else optimality_gap(value, bound)

    @property
    def graph_and_plan(self) -> Planned:
        """The planned graph and the plan; a `UsageError` if only numbers are kept."""
        if self.graph is None:
            raise UsageError("the result has numbers only, and no graph")
        return Planned(self.graph, self.plan)

    @property
    def order(self) -> list[str]:
        """Names of the ops, first to run first; a `UsageError` without a plan."""
        plan, graph = self._planned()
        return [graph.ops[v].name for v in plan.order]

    @property
    def offsets(self) -> dict[str, int]:
        """First byte of each buffer in its slab, by name; a `UsageError` without a plan.

        Buffers outside the slab, without bytes or never live have none, and views share their
        root's.
        """
        plan, graph = self._planned()
        named = zip(graph.buffers, graph.roots, plan.offsets, strict=True)
        return {
            buffer.name: offset
            for b, (buffer, root, offset) in enumerate(named)
            # Views share their root's offset, so they are left out.
            if offset is not None and root == b
        }

    def _planned(self) -> tuple[Plan, Graph]:
        """Return the plan and its graph; raise an error with the reason if no plan was found."""
        if self.plan is None or self.graph is None:
            raise UsageError(f"the result has no plan: {self.status}, {self.stop_reason}")
        return self.plan, self.graph

    def to_dict(self, *, listed: bool = True) -> dict[str, Any]:
        """Return the result as plain numbers and text, ready for JSON.

        Parameters
        ----------
        listed
            False to leave out the order and the offsets, which are as long as the graph.
        """
        numbers = ("capacity", "peak", "peak_bound", "slab", "slab_bound", "claimed_bound")
        return {
            "graph": None if self.graph is None else self.graph.name,
            "status": self.status.value,
            "stop_reason": self.stop_reason.value,
            "objective": self.objective.value,
            **{name: getattr(self, name) for name in numbers},
            "peak_proof": None if self.peak_proof is None else self.peak_proof.value,
            "slab_proof": None if self.slab_proof is None else self.slab_proof.value,
            "gap": self.gap,
            "runtime": self.runtime,
            "compile_seconds": self.compile_seconds,
            **(self._lists() if listed else {}),
            # Only if pools were given: readers of older files do not expect these keys.
            **self._spilled_numbers(),
            **({"among": self.restriction} if self.restriction else {}),
            **({"order_rules": rules} if (rules := self.order_record()) else {}),
        }

    def _lists(self) -> dict[str, Any]:
        known = self.plan is not None
        return {"order": self.order if known else None, "offsets": self.offsets if known else None}

    def _spilled_numbers(self) -> dict[str, int]:
        names = ("spilled_bytes", "spilled_bound") if self.in_pools else ()
        return {name: getattr(self, name) for name in names}

    def order_record(self) -> dict[str, Any]:
        """Return the rules of the order and what is known of moves, as plan files have them."""
        near, found = self.baseline, rules_record(self.order_rules)
        if near is not None and self.graph is not None:
            found["baseline"] = [self.graph.ops[v].name for v in near.order]
            found["max_moved"], found["moved"] = near.max_moved, self.moved
            found["moved_bound"] = self.moved_bound if near.fewest_moves else None
        return {key: value for key, value in found.items() if value is not None}

    def _objective_numbers(self) -> tuple[int | None, int, Proof | None]:
        """Return value, bound and proof of the objective."""
        if self.objective is Objective.SLAB:
            return self.slab, self.slab_bound, self.slab_proof
        return self.peak, self.peak_bound, self.peak_proof
