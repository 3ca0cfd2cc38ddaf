"""Steps that are compiled with the plugin: what it plans of each call, and what that call holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.virtualized import V

from optsched import plugins
from optsched.plugins.inductor import enabled, scheduler_pass
from tests.support.allocations import CallBytes, count_calls
from tests.support.compiled_memory import NO_CACHE, no_kernels

Step = Callable[[], object]


@dataclass(frozen=True)
class PlannedCall:
    """One call of a compiled graph.

    Parameters
    ----------
    record
        The plugin's record of the graph.
    stock
        Measured where torch compiled without the plugin.
    ours
        Measured with the plugin.
    """

    record: plugins.CompiledGraph
    stock: CallBytes
    ours: CallBytes

    @property
    def is_as_planned(self) -> bool:
        """Return True if both orders hold what was planned."""
        return (self.record.before, self.record.after) == (self.stock.peak, self.ours.peak)


def plan_and_measure(
    make: Callable[[], Step], *, seed: int = 0, kernels: bool = False, **settings: Any
) -> list[PlannedCall]:
    """Compile a step without the plugin and with it; return its calls in the order they run.

    Parameters
    ----------
    make
        Returns a step that is compiled when it first runs.
    seed
        Of the random numbers with which both begin.
    kernels
        Whether generated kernels compute.
    settings
        Of the plugin; any gain counts unless they say otherwise.
    """
    with config.patch(NO_CACHE), contextlib.nullcontext() if kernels else no_kernels():
        stock = _measure(make, seed)
        with _records_by_call() as records:
            with enabled(**{"time_limit": 1, "min_gain": 0, **settings}):
                step = _begin(make, seed)
            ours = count_calls(step)
    calls = zip(_keys(ours), stock, ours, strict=True)
    return [PlannedCall(records[key], their, our) for key, their, our in calls]


def _measure(make: Callable[[], Step], seed: int) -> list[CallBytes]:
    return count_calls(_begin(make, seed))


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


@contextlib.contextmanager
def _records_by_call() -> Iterator[dict[tuple[int, bool], plugins.CompiledGraph]]:
    found: dict[tuple[int, bool], plugins.CompiledGraph] = {}
    remember = scheduler_pass.remember

    def note(record: plugins.CompiledGraph) -> None:
        found[V.graph.graph_id, V.graph.is_backward] = record
        remember(record)

    with mock.patch.object(scheduler_pass, "remember", note):
        yield found
