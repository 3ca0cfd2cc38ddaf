"""Memory of a step in Inductor's order and in ours, with a comparison of the results."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch._inductor import config

from experiments.runtimes.inductor.networks import STEPS
from experiments.runtimes.inductor.steps import compiled_step
from experiments.tables import markdown
from optsched import plugins
from optsched.plugins.inductor import enabled
from optsched.plugins.inductor.orders import candidates, node_order
from optsched.plugins.inductor.orders.candidates import Decision
from optsched.plugins.inductor.scheduler_pass import SchedulerPass
from optsched.solver.pipeline import solve
from tests.support.compiled_memory import NO_CACHE, QUICK_KERNELS, Call, measure_calls
from tests.support.small_networks import gradients as gradients_of


@dataclass(frozen=True)
class TripRow:
    """One graph of a step in Inductor's order and in ours; bytes."""

    step: str
    phase: str
    nodes: int
    planned_before: int
    planned_after: int
    measured_before: int
    measured_after: int
    lower_percent: float
    bound: int
    proof: str
    order: str
    solver_seconds: float
    plugin_seconds: float
    """Additional compilation time with the plugin, its solver included."""
    compile_seconds_before: float
    compile_seconds_after: float
    beside_seconds: str = ""
    """Processor time of the plugin beside its solver; empty where it was not taken."""
    gradient_error_inductor: str = ""
    gradient_error_ours: str = ""
    """`gradient_error_inductor` and `gradient_error_ours`: of the step, where kernels were
    compiled: how far all gradients together are from those of the step that is not compiled, by
    their norms."""
    gradient_change: str = ""
    """And ours from those in Inductor's order: the largest relative difference of one."""


def measure_trip(name: str, seconds: float, *, gradients: bool) -> Iterator[TripRow]:
    """Run a step in Inductor's order, then in ours."""
    # Gradients depend on what kernels compute, not on their speed: these are built quickly.
    with config.patch(QUICK_KERNELS if gradients else NO_CACHE):
        theirs, their_step, their_compile = _run(name)
        stock = gradients_of(their_step)
        with enabled(time_limit=seconds, min_gain=0), _watched() as passes:
            plugins.forget()
            ours, our_step, our_compile = _run(name)
    rows = zip(plugins.records(), theirs, ours, passes, strict=True)
    for record, their, our, noted in rows:
        # What the graph frees of its inputs counts for both.
        owned = noted.start
        errors = _errors(name, stock, gradients_of(our_step)) if gradients else {}
        yield TripRow(
            step=name,
            phase=record.name.split()[1],
            nodes=record.ops,
            planned_before=record.before or 0,
            planned_after=record.after or 0,
            measured_before=their.peak + owned,
            measured_after=our.peak + owned,
            lower_percent=round(100 * (their.peak - our.peak) / (their.peak + owned), 2),
            bound=record.bound or 0,
            proof=record.proof,
            order=record.order or record.reason,
            solver_seconds=round(record.solver_seconds, 2),
            plugin_seconds=round(record.seconds, 2),
            compile_seconds_before=round(their_compile, 1),
            compile_seconds_after=round(our_compile, 1),
            beside_seconds=f"{noted.beside_seconds:.2f}",
            **errors,
        )


@dataclass
class _Pass:
    """Seconds that the plugin took beside its solver for one graph, and bytes of freed inputs."""

    beside_seconds: float = 0.0
    start: int = 0


@contextlib.contextmanager
def _watched() -> Iterator[list[_Pass]]:
    """Note, graph by graph, seconds of the processor beside the solver, and freed inputs."""
    found: list[_Pass] = []
    choose, search, decide = SchedulerPass.__call__, solve, node_order.decide

    def choose_timed(scheduler_pass: SchedulerPass, given: list[Any]) -> list[Any]:
        found.append(_Pass())
        with _adds_seconds(found[-1], 1):
            return choose(scheduler_pass, given)

    def search_timed(*args: Any, **named: Any) -> Any:
        # The solver runs within the pass, whose time it is taken from.
        with _adds_seconds(found[-1], -1):
            return search(*args, **named)

    def decide_noted(*args: Any, **named: Any) -> Decision:
        decision = decide(*args, **named)
        found[-1].start = decision.start
        return decision

    with (
        mock.patch.object(SchedulerPass, "__call__", choose_timed),
        mock.patch.object(candidates, "solve", search_timed),
        mock.patch.object(node_order, "decide", decide_noted),
    ):
        yield found


@contextlib.contextmanager
def _adds_seconds(noted: _Pass, sign: int) -> Iterator[None]:
    start = time.thread_time()
    try:
        yield
    finally:
        noted.beside_seconds += sign * (time.thread_time() - start)


def _run(name: str) -> tuple[list[Call], torch.nn.Module, float]:
    """Compile and measure the second step; return the network with its gradients as well."""
    step, network = compiled_step(name)
    start = time.perf_counter()
    step()
    seconds = time.perf_counter() - start
    return measure_calls(step), network, seconds


def _errors(
    name: str, stock: dict[str, torch.Tensor], ours: dict[str, torch.Tensor]
) -> dict[str, str]:
    """Compare gradients with those of the step that is not compiled."""
    torch.manual_seed(0)
    # The same seed as the compiled step: equal weights, equal inputs.
    network, args, kwargs = STEPS[name]()
    network(*args, **kwargs).backward()
    # The second step of a network with batch norm normalizes as the first does.
    right = gradients_of(network)
    return {
        "gradient_error_inductor": f"{_distance(stock, right):.1e}",
        "gradient_error_ours": f"{_distance(ours, right):.1e}",
        "gradient_change": f"{max(_distance({x: ours[x]}, {x: stock[x]}) for x in stock):.1e}",
    }


def _distance(found: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> float:
    """Return the relative norm of the difference; two missing gradients count as equal.

    Of all together: one that is nothing but rounding, as that of a bias in front of a softmax,
    is as far from another as it is large.
    """
    squares = [(float((found[x] - g).norm()) ** 2, float(g.norm()) ** 2) for x, g in right.items()]
    difference, norm = map(sum, zip(*squares, strict=True))
    if not difference:
        return 0.0
    return (difference / norm) ** 0.5 if norm else math.inf


def trips_table(rows: Sequence[TripRow]) -> str:
    """Return a line a graph; what the plugin takes beside its solver in the last columns."""
    head = ["step", "graph", "nodes", "Inductor's order", "ours", "lower, %", "bound", "proof"]
    head += ["order", "solver, s", "beside it, s", "processor, s"]
    return markdown(
        head,
        (
            [
                row.step,
                row.phase,
                str(row.nodes),
                f"{row.measured_before:,}",
                f"{row.measured_after:,}",
                str(row.lower_percent),
                f"{row.bound:,}" if row.bound else "-",
                row.proof,
                row.order,
                str(row.solver_seconds),
                f"{row.plugin_seconds - row.solver_seconds:.2f}",
                row.beside_seconds or "-",
            ]
            for row in rows
        ),
    )


def kernels_table(rows: Sequence[TripRow]) -> str:
    """Return a line per graph: the measured bytes, and the distance of gradients from eager's."""
    head = ["step", "graph", "Inductor's order", "ours", "lower, %", "order"]
    head += ["gradients, Inductor's", "ours", "ours from Inductor's"]
    return markdown(
        head,
        (
            [
                row.step,
                row.phase,
                f"{row.measured_before:,}",
                f"{row.measured_after:,}",
                str(row.lower_percent),
                row.order,
                row.gradient_error_inductor,
                row.gradient_error_ours,
                row.gradient_change,
            ]
            for row in rows
        ),
    )
