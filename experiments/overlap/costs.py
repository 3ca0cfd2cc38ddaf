"""Programs from captured graphs, with times by bytes and FLOPs.

A compute op takes the longer one of its bytes at :data:`BANDWIDTH` and its FLOPs at :data:`RATE`, a
transfer :data:`START` and its bytes at :data:`LINK`. Launches, waits and ops without a kernel take
1 microsecond, all others at least :data:`KERNEL`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.overlap.schedule import Program
from optsched.formats import read_graph
from optsched.model.graph import Graph

BATCHES = (1, 4)
"""Sequences of 1,024 tokens."""
BUCKETS = (10, 40, 100, 400)
"""Largest bucket in MB: a matrix or two at 10, all weights at 400."""
FOLDER = Path(__file__).parent / "graphs"
BANDWIDTH = 2_000_000
"""Bytes per microsecond that a compute op reads and writes: 2 TB/s."""
RATE = 100_000_000
"""FLOPs per microsecond: 100 TFLOP/s."""
LINK = 200_000
"""Bytes per microsecond of the stream of transfers: 200 GB/s."""
START = 10
"""Microseconds of a transfer besides its bytes."""
KERNEL = 3
"""Least microseconds of a kernel."""


def read_program(path: Path) -> tuple[Program, list[int]]:
    """Return the program of a captured graph, and the order that the file names as its own.

    Only data and the sequence of the launches restrict orders. Inductor's other edges are left out:
    those by which a launch comes after the wait before it, and those with which the overlap
    scheduler keeps its order. In these captures all others follow from data, as the tests check.
    """
    extra: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))["extra"]
    graph = read_graph(path).without_inplace()
    kinds = extra["kinds"]
    launches = [v for v, kind in enumerate(kinds) if "_CollectiveKernel" in kind]
    ended = {v for v, kind in enumerate(kinds) if "_WaitKernel" in kind}
    own = extra["orders"][extra["own"]]
    launches.sort(key=own.index)
    waits = {v: _launch_of(graph, v, launches) for v in sorted(ended)}
    transfers = {v: START + _ceil(_bytes(graph, v), LINK) for v in launches}
    durations = [
        1
        if v in ended or v in transfers or "Nop" in kind or "MultiOutput" in kind
        else max(KERNEL, _ceil(traffic, BANDWIDTH), _ceil(flops, RATE))
        for v, (kind, traffic, flops) in enumerate(
            zip(kinds, extra["traffic"], extra["flops"], strict=True)
        )
    ]
    free = _with_sequence(graph, launches)
    return Program(free, tuple(durations), transfers, waits), own


def _with_sequence(graph: Graph, launches: Sequence[int]) -> Graph:
    """Return the graph with edges between launches in sequence, and no others besides data."""
    ops = [replace(op, control=()) for op in graph.ops]
    for u, v in pairwise(launches):
        ops[v] = replace(ops[v], control=(u,))
    return replace(graph, ops=tuple(ops))


def _launch_of(graph: Graph, wait: int, launches: Sequence[int]) -> int:
    """Return the last launch that writes what a wait reads."""
    made = {graph.producers[b] for b in (*graph.ops[wait].reads, *graph.ops[wait].uses)}
    return max((v for v in launches if v in made), key=launches.index)


def _bytes(graph: Graph, launch: int) -> int:
    """Return the larger side of a transfer: of a gather its result, of a scatter its operand."""
    op = graph.ops[launch]
    roots = {graph.roots[b] for b in (*op.reads, *op.uses, *op.writes)}
    return max(graph.buffers[b].size for b in roots)


def _ceil(count: int, rate: int) -> int:
    return max(1, -(-count // rate))
