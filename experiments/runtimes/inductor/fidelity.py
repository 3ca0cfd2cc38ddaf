"""Compares the memory that is simulated with the memory that is measured, in many orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from experiments.runtimes.inductor.steps import compiled_step
from experiments.tables import markdown
from optsched.plugins.inductor.orders.runtime_graph import build_runtime_graph
from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts
from optsched.runtime.limits import Limits, Objective
from optsched.solver.pipeline import solve
from tests.support.compiled_memory import OrderProbe, measure_step
from tests.support.orders import draw_order

INDUCTOR = ("baseline", "lpmf", "bfs", "dfs")
OPTIMUM, RANDOM = "optimum", "random"
ORDERS = (*INDUCTOR, OPTIMUM, *(f"{RANDOM}{seed}" for seed in range(2)))
BOTH_WAYS = ("baseline", OPTIMUM)
"""Run without the reuse pool as well."""


@dataclass(frozen=True)
class FidelityRow:
    """One graph of a step in one order, with the reuse pool or without; bytes."""

    step: str
    phase: str
    nodes: int
    order: str
    reuse: str
    simulated: int
    measured: int
    error_percent: float
    owned_inputs: int
    differs: str
    """Which of the sets of removed, overwritten and reused buffers are not those that code
    generation made."""
    step_peak: int
    """Maximum bytes that the full step adds."""
    outside: int
    """Maximum bytes that the step allocates outside of its graphs: gradients, and sums that the
    optimizer keeps of them."""


def find_order(name: str, seconds: float) -> str | Callable[[WrapperFacts], Order]:
    """Return what :class:`OrderProbe` takes for one of `ORDERS`."""
    if name in INDUCTOR:
        return name
    if name == OPTIMUM:
        return partial(_least, seconds=seconds)
    if name.startswith(RANDOM) and name.removeprefix(RANDOM).isdecimal():
        return partial(draw_order, seed=int(name.removeprefix(RANDOM)))
    raise ValueError(f"no order {name!r}; there are {', '.join(ORDERS)}")


def _least(facts: WrapperFacts, *, seconds: float) -> Order:
    runtime = build_runtime_graph(facts, "step")
    plan = solve(runtime.graph, objective=Objective.PEAK, limits=Limits(seconds=seconds)).plan
    return runtime.node_order(plan.order if plan else range(len(runtime.units)))


def measure_orders(name: str, orders: Sequence[str], seconds: float) -> Iterator[FidelityRow]:
    """Simulate a step in each order, then run it."""
    for order in orders:
        for reuse in (True, False) if order in BOTH_WAYS else (True,):
            probe = OrderProbe(find_order(order, seconds), reuse)
            with probe.running():
                step, _ = compiled_step(name)
                step()
                memory = measure_step(step)
            for number, (said, call) in enumerate(zip(probe.said, memory.calls, strict=True)):
                made, known = probe.generated[number], frozenset(probe.facts[number].buffers)
                measured = said.start + call.peak
                reused = {pair for pair in said.reused if pair[0] not in said.removed}
                sets = {
                    "removed": said.removed == made.removed & known,
                    "in-place": set(said.inplace) == made.inplace,
                    "reused": reused == made.reused,
                }
                yield FidelityRow(
                    step=name,
                    phase="backward" if number else "forward",
                    nodes=len(probe.facts[number].nodes),
                    order=order,
                    reuse="on" if reuse else "off",
                    simulated=said.peak,
                    measured=measured,
                    error_percent=round(100 * (said.peak - measured) / measured, 4),
                    owned_inputs=said.start,
                    differs=" ".join(name for name, same in sets.items() if not same),
                    step_peak=memory.peak,
                    outside=memory.outside,
                )


def fidelity_table(rows: Sequence[FidelityRow]) -> str:
    """Return a line a graph, over all orders of it."""
    head = ["step", "graph", "nodes", "runs", "least measured", "most", "largest error, %"]
    head += ["sets that differ", "outside"]
    graphs = sorted(rows, key=lambda row: (row.step, row.phase != "forward"))
    groups = groupby(graphs, lambda row: (row.step, row.phase))
    return markdown(head, (_line(list(group)) for _, group in groups))


def _line(rows: Sequence[FidelityRow]) -> list[str]:
    measured = [row.measured for row in rows]
    return [
        rows[0].step,
        rows[0].phase,
        str(rows[0].nodes),
        str(len(rows)),
        f"{min(measured):,}",
        f"{max(measured):,}",
        f"{max(abs(row.error_percent) for row in rows):g}",
        str(sum(bool(row.differs) for row in rows)),
        f"{max(row.outside for row in rows):,}",
    ]
