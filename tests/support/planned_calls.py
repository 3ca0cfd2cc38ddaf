"""Steps that are compiled with the plugin: what it plans of each call, and what that call holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.exc import InductorError
from torch._inductor.virtualized import V

from optsched import plugins
from optsched.measure.torch_calls import CallBytes, count_calls
from optsched.plugins.inductor import enabled, scheduler_pass
from optsched.plugins.inductor.orders import node_order
from optsched.plugins.inductor.orders.candidates import Decision
from optsched.plugins.inductor.wrapper.facts import WrapperFacts
from optsched.plugins.inductor.wrapper.simulate import Simulation, simulate
from tests.support.compiled_memory import NO_CACHE, no_kernels

Step = Callable[[], object]


@dataclass(frozen=True)
class PlannedCall:
    """One call of a compiled graph."""

    record: plugins.CompiledGraph
    """The plugin's record of the graph."""
    stock: CallBytes
    """Measured where torch compiled without the plugin."""
    ours: CallBytes
    """Measured with the plugin."""
    plan: tuple[Simulation, Simulation] | None
    """The plugin's simulations of Inductor's own order and of the one that runs; None where the
    graph is left alone."""

    @property
    def is_left_alone(self) -> bool:
        """Return True if nothing was planned, and the record has the reason."""
        return self.plan is None and self.record.before is None and bool(self.record.reason)

    @property
    def is_as_planned(self) -> bool:
        """Return True if both orders rise, fall and end as planned."""
        if self.plan is None:
            return False
        own, runs = self.plan
        figures = (self.record.before, self.record.after) == (own.peak, runs.peak)
        return figures and self.is_measured

    @property
    def is_measured(self) -> bool:
        """Return True if both orders rise, fall and end as simulated."""
        if self.plan is None:
            return False
        own, runs = self.plan
        return _is_measured(own, self.stock) and _is_measured(runs, self.ours)


def _is_measured(said: Simulation, call: CallBytes) -> bool:
    return (said.peak - said.start, said.end - said.start) == (call.rise, call.change)


def plan_and_measure(
    make: Callable[[], Step],
    *,
    seed: int = 0,
    kernels: bool = False,
    worst: bool = False,
    **settings: Any,
) -> list[PlannedCall]:
    """Compile a step without the plugin and with it; return its calls in the order they run.

    `make`: returns a step that is compiled when it first runs. `seed`: of the random numbers with
    which both begin. `kernels`: True if generated kernels compute. `worst`: True if the counted
    step has sizes at the upper ends of their ranges. `settings`: of the plugin; any gain counts
    unless they say otherwise.
    """
    with config.patch(NO_CACHE), contextlib.nullcontext() if kernels else no_kernels():
        stock = _measure(make, seed)
        with _notes_by_call(worst) as notes:
            with enabled(**{"time_limit": 10, "min_gain": 0, **settings}):
                step = _begin(make, seed)
            ours = count_calls(step)
    calls = zip(_keys(ours), stock, ours, strict=True)
    return [PlannedCall(notes[key][0], their, our, notes[key][1]) for key, their, our in calls]


class StockFailsError(Exception):
    """Torch cannot compile the step without the plugin either."""


def _measure(make: Callable[[], Step], seed: int) -> list[CallBytes]:
    try:
        return count_calls(_begin(make, seed))
    except InductorError as error:
        raise StockFailsError(str(error).splitlines()[0]) from error


def _begin(make: Callable[[], Step], seed: int) -> Step:
    torch._dynamo.reset()
    torch.manual_seed(seed)
    step = make()
    step()
    return step


def _keys(calls: list[CallBytes]) -> Iterator[tuple[int, bool]]:
    """Yield the graph of each call, and whether it is the backward one: it runs second."""
    seen: set[int] = set()
    for call in calls:
        yield call.graph, call.graph in seen
        seen.add(call.graph)


_Note = tuple[plugins.CompiledGraph, tuple[Simulation, Simulation] | None]


@contextlib.contextmanager
def _notes_by_call(worst: bool) -> Iterator[dict[tuple[int, bool], _Note]]:
    """Note the record of each graph, and its simulations."""
    found: dict[tuple[int, bool], _Note] = {}
    plans: dict[tuple[int, bool], tuple[Simulation, Simulation]] = {}
    decide, remember = node_order.decide, scheduler_pass.remember

    def decide_and_note(facts: WrapperFacts, *args: Any, **settings: Any) -> Decision:
        decision = decide(facts, *args, **settings)
        runs = decision.best if decision.gains else decision.own
        own, best = (
            simulate(facts, c.order, reuse=c.reuse, worst=worst) for c in (decision.own, runs)
        )
        plans[_current()] = own, best
        return decision

    def note(record: plugins.CompiledGraph) -> None:
        found[_current()] = record, plans.get(_current())
        remember(record)

    with (
        mock.patch.object(node_order, "decide", decide_and_note),
        mock.patch.object(scheduler_pass, "remember", note),
    ):
        yield found


def _current() -> tuple[int, bool]:
    return V.graph.graph_id, V.graph.is_backward
