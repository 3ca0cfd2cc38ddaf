"""Time of the plugin beside the solver's limit, on graphs with many independent parts.

`python -m experiments.runtimes.inductor overhead [CASE...] > overhead.csv` compiles training steps
whose inputs, branches or ops are many and independent of each other, so that nearly every order is
legal. Kernels do nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch._inductor import config

from experiments.tables import markdown
from optsched import plugins
from optsched.plugins.inductor import enabled
from optsched.plugins.inductor.scheduler_pass import SchedulerPass
from tests.support.compiled_memory import NO_CACHE

Step = Callable[[], Any]


@dataclass(frozen=True)
class OverheadRow:
    """A graph: seconds by the wall's clock, and of the processor, for all that the plugin does."""

    case: str
    graph: str
    nodes: int
    limit: float
    seconds: float
    processor: float
    before: int
    after: int
    order: str


def _sum_of_inputs(count: int) -> Step:
    """One kernel that may overwrite any of its inputs."""
    layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(count))
    inputs = [torch.randn(64, 32) for _ in range(count)]

    def run() -> Any:
        parts = [layer(x) for layer, x in zip(layers, inputs, strict=True)]
        return torch.stack(parts).sum(0).square().mean()

    return run


def _branches(count: int) -> Step:
    """Branches of three products that meet in one number."""
    weights = [nn.Parameter(torch.randn(64, 64)) for _ in range(count)]
    inputs = [torch.randn(32 + i % 7, 64) for i in range(count)]

    def run() -> Any:
        total = torch.zeros(())
        for x, w in zip(inputs, weights, strict=True):
            total = total + ((x @ w).tanh() @ w).tanh().square().mean()
        return total

    return run


def _embeddings(count: int) -> Step:
    """Tables of a recommender: look-ups that nothing joins before the last layer."""
    tables = nn.ModuleList(nn.Embedding(50, 16) for _ in range(count))
    ids = [torch.randint(0, 50, (64, 4)) for _ in range(count)]
    last = nn.Linear(16 * count, 1)

    def run() -> Any:
        rows = [table(x).mean(1) for table, x in zip(tables, ids, strict=True)]
        return last(torch.cat(rows, 1)).square().mean()

    return run


CASES: dict[str, Callable[[], Step]] = {
    "sum of 40 layers": lambda: _sum_of_inputs(40),
    "sum of 150 layers": lambda: _sum_of_inputs(150),
    "60 branches": lambda: _branches(60),
    "200 branches": lambda: _branches(200),
    "100 embeddings": lambda: _embeddings(100),
}


def measure_overhead(name: str, seconds: float) -> Iterator[OverheadRow]:
    """Compile a step with the plugin; yield a row for each graph."""
    spent: list[float] = []
    real = SchedulerPass.__call__

    def call(self: SchedulerPass, nodes: list[Any]) -> list[Any]:
        start = time.process_time()
        try:
            return real(self, nodes)
        finally:
            spent.append(time.process_time() - start)

    torch._dynamo.reset()
    torch.manual_seed(0)
    step = CASES[name]()
    plugins.forget()
    with (
        mock.patch.object(SchedulerPass, "__call__", call),
        config.patch(NO_CACHE),
        enabled(time_limit=seconds, min_gain=0),
    ):
        torch.compile(step)().backward()
    for record, processor in zip(plugins.records(), spent, strict=True):
        yield OverheadRow(
            case=name,
            graph=record.name.split()[-1],
            nodes=record.ops,
            limit=seconds,
            seconds=round(record.seconds, 2),
            processor=round(processor, 2),
            before=record.before or 0,
            after=record.planned or 0,
            order=record.order or record.reason,
        )


def overhead_table(rows: Sequence[OverheadRow]) -> str:
    """Return a line per graph."""
    head = ["case", "graph", "nodes", "Inductor's order", "ours", "limit, s", "processor, s"]
    head += ["beyond, s", "by the wall, s"]
    return markdown(
        head,
        (
            [
                row.case,
                row.graph,
                str(row.nodes),
                f"{row.before:,}",
                f"{row.after:,}",
                f"{row.limit:g}",
                f"{row.processor:.2f}",
                f"{max(0.0, row.processor - row.limit):.2f}",
                f"{row.seconds:.2f}",
            ]
            for row in rows
        ),
    )
