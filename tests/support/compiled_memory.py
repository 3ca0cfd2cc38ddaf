"""Real allocations of compiled graphs, and the plugin's figures beforehand.

Kernels can be left out: what the wrapper allocates and frees does not depend on what they compute,
and a C++ compiler takes its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, ReuseLine
from torch._inductor.custom_graph_pass import CustomSchedulerPass
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from optsched.plugins.inductor.reading.ownership import find_owned_inputs
from optsched.plugins.inductor.reading.scheduler import read_facts
from optsched.plugins.inductor.reading.snapshot import take_snapshot
from optsched.plugins.inductor.sizes.kernels import measure_kernels
from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts, is_valid_order
from optsched.plugins.inductor.wrapper.simulate import Simulation, simulate

NO_CACHE = {
    "force_disable_caches": True,
    "compile_threads": 1,
    "profiler_mark_wrapper_call": True,
    "cpp_cache_precompile_headers": False,
}
"""Settings under which each compilation is one, and its call can be told in a profile."""

QUICK_KERNELS = {
    **NO_CACHE,
    "aot_inductor.debug_compile": True,
    "cpp.simdlen": 1,
    "cpp_cache_precompile_headers": True,
}
"""And kernels are compiled without optimization: for what they compute, not for how fast."""


def _do_nothing(*_: object) -> None:
    pass


@contextmanager
def no_kernels() -> Iterator[None]:
    """Compile without kernels: generated ones do nothing."""
    guards = torch._C._dynamo.guards
    allocate = guards._empty_strided_cpu

    def allocate_zeros(size: Any, stride: Any, dtype: Any) -> Any:
        tensor = allocate(size, stride, dtype)
        # Integers may be positions in something.
        return tensor if dtype.is_floating_point else tensor.zero_()

    with (
        mock.patch.object(AsyncCompile, "cpp_pybinding", return_value=_do_nothing),
        mock.patch.object(guards, "_empty_strided_cpu", allocate_zeros),
    ):
        yield


@dataclass(frozen=True)
class Call:
    """Bytes that a call of a compiled graph adds at most, and at its end."""

    peak: int
    end: int


@dataclass(frozen=True)
class StepMemory:
    """Bytes of a step."""

    calls: tuple[Call, ...]
    """Of its compiled graphs, in the order in which they ran."""
    peak: int
    """Maximum bytes that the full step adds."""
    outside: int
    """By how much what lives outside of the calls grows at most: gradients that are accumulated."""


def measure_step(step: Callable[[], object]) -> StepMemory:
    """Run a compiled step under torch's profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step()
    events = profile.profiler.kineto_results.events()
    calls: list[tuple[int, int]] = []
    for begin, end in sorted(
        (e.start_ns(), e.start_ns() + e.duration_ns())
        for e in events
        if e.name().endswith("inductor_wrapper_call")
    ):
        # A loop's body is a call within the call of its graph.
        if not calls or begin >= calls[-1][1]:
            calls.append((begin, end))
    memory = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    rest = [
        change for time, change in memory if not any(begin <= time <= end for begin, end in calls)
    ]
    return StepMemory(
        tuple(
            _count([change for time, change in memory if begin <= time <= end])
            for begin, end in calls
        ),
        _count([change for _, change in memory]).peak,
        _rise(rest),
    )


def measure_calls(step: Callable[[], object]) -> list[Call]:
    """Run a compiled step under torch's profiler; return what its graphs' calls allocate."""
    return list(measure_step(step).calls)


def _rise(changes: list[int]) -> int:
    """Return by how much live bytes exceed their least before at most."""
    # Example: +5 -3 +4 -6 has its least, 0, at the start and rises by 6; +1 -4 +5 falls to -3 and
    # then rises by 5.
    live = least = rise = 0
    for change in changes:
        live += change
        least = min(least, live)
        rise = max(rise, live - least)
    return rise


def _count(changes: list[int]) -> Call:
    live = peak = 0
    for change in changes:
        live += change
        peak = max(peak, live)
    return Call(peak, live)


@dataclass(frozen=True)
class Generated:
    """Decisions of code generation: pairs in place, pairs reused, buffers without bytes."""

    inplace: frozenset[tuple[str, str]]
    reused: frozenset[tuple[str, str]]
    removed: frozenset[str]


@dataclass
class OrderProbe(CustomSchedulerPass):  # type: ignore[misc]
    """Runs one of Inductor's orders, and says beforehand what it will need."""

    method: str | Callable[[WrapperFacts], Order]
    """`baseline`, `lpmf`, `bfs` or `dfs`, or a function of the facts that returns an order. Where a
    guard forbids the order, the baseline runs."""
    reuse: bool = True
    """True if freed buffers are reused."""
    facts: list[WrapperFacts] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    said: list[Simulation] = field(default_factory=list)
    generated: list[Generated] = field(default_factory=list)

    def uuid(self) -> None:
        return None

    def __call__(self, nodes: list[Any]) -> list[Any]:
        scheduler = V.graph.scheduler
        # The graph as torch's own pass for peak memory sees it: its orders are the ones compared.
        document = take_snapshot(
            nodes,
            scheduler.name_to_buf,
            scheduler.name_to_fused_node,
            OrderedSet(V.graph.graph_inputs),
            OrderedSet(V.graph.get_output_names()),
        )
        # Simulated here, before code generation: the test compares a prediction with what happens.
        facts = read_facts(nodes, find_owned_inputs(nodes), measure_kernels(nodes).by_name)
        if isinstance(self.method, str):
            order = tuple(document["extra"]["orders"][self.method])
        else:
            order = self.method(facts)
        if not is_valid_order(facts, order):
            # Inductor's own order is always valid.
            order = tuple(range(len(nodes)))
        self.facts.append(facts)
        self.orders.append(order)
        self.said.append(simulate(facts, order, reuse=self.reuse))
        return [nodes[v] for v in order]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Compile in this order; note what code generation does."""
        plan = PythonWrapperCodegen.run_wrapper_ir_passes

        def plan_and_note(wrapper: Any, is_inference: bool) -> None:
            plan(wrapper, is_inference)
            removed = frozenset(V.graph.removed_buffers)
            lines = [line for line in wrapper.lines if isinstance(line, ReuseLine)]
            shared = {(line.reused_as.get_name(), line.node.get_name()) for line in lines}
            inplace = {pair for pair in wrapper.reuses.items() if pair[0] not in removed}
            self.generated.append(
                Generated(frozenset(inplace), frozenset(shared - inplace), removed)
            )

        settings = {
            **NO_CACHE,
            "_post_fusion_custom_pass": self,
            "reorder_for_peak_memory": False,
            "allow_buffer_reuse": self.reuse,
        }
        with (
            config.patch(settings),
            mock.patch.object(PythonWrapperCodegen, "run_wrapper_ir_passes", plan_and_note),
        ):
            yield
