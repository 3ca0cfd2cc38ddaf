"""Inductor's pools of `memory_planning=True` against one slab of ours, for the same buffers.

Inductor plans pools for inference graphs only. It is watched as it does so: nothing is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unittest import mock

import numpy as np
import torch
from torch._inductor import config
from torch._inductor.codegen.memory_planning import MemoryPlanner

from experiments.runtimes.inductor.networks import STEPS
from experiments.tables import markdown
from optsched import Limits, PackingProblem, pack
from tests.support.compiled_memory import NO_CACHE

ALIGNMENT = 64
"""Of what Inductor puts into a pool."""


@dataclass(frozen=True)
class PoolRow:
    """The intermediate buffers of an inference graph, in bytes."""

    step: str
    buffers: int
    alone: int
    """All buffers one beside the other."""
    pools: int
    """Inductor's."""
    slab: int
    bound: int
    """`slab` and `bound`: ours, and what no packing of these live ranges can be below."""
    seconds: float


def measure_pools(name: str, seconds: float) -> Iterator[PoolRow]:
    """Compile the inference graph of a network; pack what Inductor packed."""
    planned: list[MemoryPlanner] = []
    allocate = MemoryPlanner.allocate_groups

    def allocate_and_note(planner: MemoryPlanner) -> None:
        allocate(planner)
        planned.append(planner)

    torch._dynamo.reset()
    torch.manual_seed(0)
    network, args, kwargs = STEPS[name]()
    settings = {**NO_CACHE, "memory_planning": True}
    with (
        config.patch(settings),
        mock.patch.object(MemoryPlanner, "allocate_groups", allocate_and_note),
        torch.no_grad(),
    ):
        torch.compile(network)(*args, **kwargs)
    for planner in planned:
        yield _row(name, planner, seconds)


def _row(name: str, planner: MemoryPlanner, seconds: float) -> PoolRow:
    groups = [group for group in planner.buffer_groups or () if not group.is_output]
    blocks = [group.allocation for group in groups]
    pools = {block.pool for block in blocks}
    problem = PackingProblem(
        start=np.array([block.live_range.begin for block in blocks]),
        end=np.array([block.live_range.end for block in blocks]),
        size=np.array([-(-block.size_hint // ALIGNMENT) * ALIGNMENT for block in blocks]),
    )
    found = pack(problem, limits=Limits(seconds=seconds))
    return PoolRow(
        step=name,
        buffers=len(blocks),
        alone=int(problem.size.sum()),
        pools=sum(pool.root.get_size_hint() for pool in pools),
        slab=found.slab or 0,
        bound=found.slab_bound,
        seconds=round(found.runtime, 2),
    )


def pools_table(rows: Sequence[PoolRow]) -> str:
    """Return a line a graph."""
    head = ["step", "buffers", "one beside the other", "Inductor's pools", "our slab"]
    head += ["lower, %", "bound", "seconds"]
    return markdown(
        head,
        (
            [
                row.step,
                str(row.buffers),
                f"{row.alone:,}",
                f"{row.pools:,}",
                f"{row.slab:,}",
                f"{100 * (1 - row.slab / row.pools):.1f}",
                f"{row.bound:,}",
                str(row.seconds),
            ]
            for row in rows
        ),
    )
