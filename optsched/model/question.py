"""A question: everything that an answer depends on, as one value.

A bound says "no plan has less". That is a fact about the plans that were allowed, not about a
graph: a bound proved under order rules, near a baseline, on several streams or in pools may exceed
the memory of a plan that does not keep these restrictions. So each result, plan file, certificate
and stored record carries its :class:`Question`, and a reader of a bound asks whether that question
*covers* its own.

For example, let ops p and q each make a buffer, 9 bytes and 1 byte, that r and s read. "No order
needs less than 19 bytes" may hold for the orders that run p, s, r in this sequence, while 11 bytes
are enough without that rule. The first question does not cover the second one, as it leaves out
some of its plans; the second covers the first, so "no order needs less than 11" holds for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any

import numpy as np

from optsched.errors import UsageError, expect
from optsched.model.digest import digest
from optsched.model.graph import Graph
from optsched.model.order_rules import NO_RULES, Baseline, OrderRules
from optsched.model.pools import Pool, pool_graph, pools_of
from optsched.model.runs import runs_once
from optsched.model.steps import Order
from optsched.model.training import find_ops, forward_ops, with_barrier
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.integers import as_integer
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import Objective, choose_member
from optsched.runtime.text import counted, listed, readable

_NAMED = 6
"""Ops of a rule that are named in a sentence."""


@keywords
@dataclass(frozen=True)
class Question:
    """A question about a graph; an answer holds for this question and those that it covers.

    Parameters
    ----------
    graph
        The graph in its memory model: rounded sizes and in-place pairs are plain data of it.
    rules
        Order rules that every allowed order keeps.
    near
        Baseline order, and the maximum number of its ops that an allowed order moves.
    objective
        Quantity to minimize first; the other breaks ties.
    capacity
        Bytes of slab that are enough; None if the objective is minimized.
    pools
        Slabs that buffers may spill into, preferred first; empty if each buffer stays in the pool
        that it names.
    budget
        Live bytes that a sequence of runs must not exceed, for the objective `cost`: ops may then
        run more than once.
    loss
        Names of the ops that make the loss, for the objective `cost`: only these and the ops that
        they need may run again, and ops that read tangents wait for them. Empty if any op may.

    Examples
    --------
    >>> from optsched import GraphBuilder, OrderRules, Question
    >>> build = GraphBuilder("pair")
    >>> build.op("p", writes={"a": 9})
    >>> build.op("q", writes={"b": 1})
    >>> graph = build.build()
    >>> free, ruled = Question(graph), Question(graph, OrderRules(first=["q"]))
    >>> free.covers(ruled), ruled.covers(free)
    (True, False)
    >>> ruled.restriction
    "orders that run 'q' first"
    """

    graph: Graph
    rules: OrderRules = NO_RULES
    near: Baseline | None = None
    objective: Objective = Objective.SLAB
    capacity: int | None = None
    pools: tuple[Pool, ...] = ()
    budget: int | None = None
    loss: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect("a question", self.graph, Graph)
        expect("rules", self.rules, OrderRules)
        expect("near", self.near, Baseline, NoneType)
        put = object.__setattr__
        put(self, "objective", choose_member(Objective, self.objective, "objective"))
        put(self, "capacity", None if self.capacity is None else parse_bytes(self.capacity))
        put(self, "pools", tuple(self.pools))
        for pool in self.pools:
            expect("pools", pool, Pool)
        if isinstance(self.loss, str):
            raise UsageError(f"loss must be a list of op names: write [{self.loss!r}]")
        put(self, "loss", tuple(self.loss))
        self._check_budget()

    def _check_budget(self) -> None:
        """Check what belongs to the objective cost, which is about sequences with repeats."""
        if self.budget is not None and (as_integer(self.budget) is None or self.budget < 0):
            raise UsageError(f"budget must be a number of bytes of at least 0, got {self.budget!r}")
        if (self.objective is Objective.COST) != (self.budget is not None):
            raise UsageError("the objective cost needs a budget in bytes, and no other has one")
        if self.budget is not None and (self.rules != NO_RULES or self.near or self.pools):
            raise UsageError("a budget does not go with order rules, a baseline or pools")
        if self.loss and self.budget is None:
            raise UsageError("a loss is about repeats of ops: it needs the objective cost")
        find_ops(self.graph, self.loss)

    @cached_property
    def planned(self) -> Graph:
        """The graph whose orders are those that keep the rules: each rule is a control edge."""
        if self.loss:
            return with_barrier(self.graph, find_ops(self.graph, self.loss))
        return self.rules.apply(self.graph)

    @cached_property
    def pool_graphs(self) -> tuple[Graph, ...]:
        """The planned graph once per pool, with bytes in that pool alone; empty for one pool."""
        pools = pools_of(self.planned)
        return tuple(pool_graph(self.planned, pool) for pool in pools) if len(pools) > 1 else ()

    @cached_property
    def scope(self) -> bytes:
        """Digest of the set of allowed plans; equal for questions with the same bounds."""
        # Without a limit on moves all orders are allowed, and the baseline only breaks ties.
        near = (self.near.order, self.max_moved) if self.near and self.max_moved is not None else ()
        rows = repr((near, tuple((pool.name, pool.capacity) for pool in self.pools)))
        if self.budget is not None:
            rows += repr((self.budget, self._costs))
        return digest(self.planned.digest + rows.encode())

    @property
    def _costs(self) -> tuple[tuple[int, bool], ...]:
        """Cost of one more run by op, and True where an op must not run again."""
        again = self.may_repeat
        return tuple((op.cost, v not in again) for v, op in enumerate(self.graph.ops))

    @cached_property
    def may_repeat(self) -> frozenset[int]:
        """Ops that may run more than once; none without a budget."""
        if self.budget is None:
            return frozenset()
        every = frozenset(range(len(self.graph.ops)))
        inside = forward_ops(self.graph, find_ops(self.graph, self.loss)) if self.loss else every
        return inside - runs_once(self.graph).keys()

    @property
    def max_moved(self) -> int | None:
        """Ops of the baseline that an allowed order moves at most; None for any number."""
        return None if self.near is None else self.near.max_moved

    def allows(self, order: Order) -> bool:
        """Return True if an order of :attr:`planned` is near enough to the baseline."""
        return self.max_moved is None or self.moved(order) <= self.max_moved

    def moved(self, order: Order) -> int:
        """Return the number of ops of the baseline that an order moves; 0 without a baseline."""
        return 0 if self.near is None else self.near.moved(np.asarray(order).tolist())

    def key(self, peak: int, slab: int, moved: int = 0) -> tuple[int, int, int]:
        """Return the key by which plans compare, the least being best, from their figures.

        Parameters
        ----------
        peak, slab
            Bytes.
        moved
            Ops of the baseline that the plan moves; they break ties if few moves are preferred.
        """
        prefers_few = self.near is not None and self.near.fewest_moves
        moves = moved if prefers_few else 0
        if self.objective is Objective.PEAK:
            return peak, moves, slab
        # If few moves are preferred, all plans within the capacity are equally good.
        return max(slab, self.capacity or 0) if prefers_few else slab, moves, peak

    def covers(self, other: Question) -> bool:
        """Return True if every plan that answers `other` answers this question, too.

        Every lower bound proved for this question then holds for `other`. Objective and capacity
        play no part: they do not change which plans there are. A bound on the cost of repeats
        holds for every smaller budget.
        """
        return (
            self._has_budget_of(other)
            and self.pools == other.pools
            and self._is_as_near(other)
            # A graph without the rules' edges allows more plans, so it may be either of the two.
            and self.planned.digest in {other.planned.digest, other.graph.digest}
        )

    def _has_budget_of(self, other: Question) -> bool:
        if self.budget is None or other.budget is None:
            return self.budget is None and other.budget is None
        return other.budget <= self.budget and self._costs == other._costs

    def _is_as_near(self, other: Question) -> bool:
        # All orders are allowed here, so also those of the other question.
        if self.near is None or self.near.max_moved is None:
            return True
        if other.near is None or other.near.max_moved is None:
            return False
        # Nearness to another baseline says nothing about this one.
        same = self.near.order == other.near.order
        return same and other.near.max_moved <= self.near.max_moved

    @property
    def restriction(self) -> str:
        """The allowed plans in words, such as "orders that run 'a' first"; empty for all plans."""
        if self.budget is not None:
            again = f" in which only forward ops of loss {_names(self.loss)} run again"
            return f"plans within {counted(self.budget, 'byte')}{again if self.loss else ''}"
        pools = tuple(pool.name for pool in self.pools)
        streams, variant = self.graph.streams, self.graph.variant
        return restriction_words(self.rules, self.max_moved, pools, streams, variant)

    def require_about(self, graph: Graph) -> None:
        """Raise :class:`UsageError` unless the question is about this graph, names aside."""
        # Identity first: a digest reads the whole graph.
        if self.graph is not graph and self.graph.digest != graph.digest:
            raise UsageError(
                f"the result is about {_described(self.graph)}, not about {_described(graph)}: "
                "pass the result with its own graph, result.question.graph"
            )


def _described(graph: Graph) -> str:
    """Return the name of a graph with what tells it from others of that name."""
    ops, buffers = counted(len(graph.ops), "op"), counted(len(graph.buffers), "buffer")
    streams = f" on {len(graph.streams)} streams" if graph.on_streams else ""
    size = sum(buffer.size for buffer in graph.buffers)
    model = f"{buffers} of {size:,} bytes, memory model: {graph.model_name}"
    return f"graph {readable(graph.name)!r} ({ops}{streams}, {model})"


def restriction_words(
    rules: OrderRules = NO_RULES,
    max_moved: int | None = None,
    pools: Sequence[str] = (),
    streams: Sequence[str] = (),
    variant: str = "",
) -> str:
    """Return in words which plans a question allows; empty for all plans of its graph.

    `rules`, `max_moved`: order rules, and ops of the baseline that may move. `pools`: names of
    slabs that buffers may spill into. `streams`: streams of the graph; one stream restricts
    nothing. `variant`: choices by which the graph was made of another one, in words.
    """
    # Each restriction adds a phrase; together they read as one sentence.
    orders = [f"run {_names(rules.first)} first"] if rules.first else []
    orders += [f"run {_names(rules.last)} last"] if rules.last else []
    orders += [f"keep the sequence {_names(group)}" for group in rules.groups if len(group) > 1]
    if max_moved is not None:
        orders.append(f"move at most {counted(max_moved, 'op')} of the baseline")
    words = f"orders that {' and '.join(orders)}" if orders else ""
    if len(streams) > 1:
        words = f"{words or 'orders'} on {len(streams)} streams"
    if variant:
        words = f"{words or 'orders'} with {variant}"
    if pools:
        words = f"{words or 'plans'} that spill as few bytes in the pools {_names(pools)}"
    return words


def _names(names: Sequence[str]) -> str:
    return listed([f"'{readable(name)}'" for name in names], _NAMED)


def rules_of_record(record: Mapping[str, Any]) -> OrderRules:
    """Return the order rules that a plan file or certificate states under `order_rules`."""
    first, last = tuple(record.get("first", ())), tuple(record.get("last", ()))
    return OrderRules(first, last, tuple(map(tuple, record.get("groups", ()))))


def rules_record(rules: OrderRules) -> dict[str, Any]:
    """Return order rules as plan files and certificates state them; empty without rules."""
    found = {
        "first": list(rules.first),
        "last": list(rules.last),
        "groups": [list(group) for group in rules.groups],
    }
    return {key: value for key, value in found.items() if value}


def contents_digest(graph: Graph) -> str:
    """Return the text by which plan files identify a graph regardless of its name.

    It ignores whether the graph is in-place, since plans state that separately.
    """
    return graph.without_inplace().digest.hex()
