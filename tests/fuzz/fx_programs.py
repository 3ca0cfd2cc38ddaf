"""Graphs of random programs of PyTorch against what its interpreter holds while it runs them.

    python -m tests.fuzz fx_programs --count 2500 --seed 0

Each program (a dozen random steps: views, copies, casts, results in lists, writes into tensors and
into views of them, a parameter and a buffer) is exported, written as a `.pt2` file, and run node by
node on real tensors. The graph of the live program and that of the file have to agree, and their
peak in the program's order has to be the most bytes of storages that were alive, to the byte; so
has that of random other orders in which the program is run. A line is printed for each difference.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch

from optsched import Graph, peak_memory
from optsched.formats.format import Source
from optsched.formats.fx import from_fx
from optsched.formats.fx.pt2 import read_pt2
from tests.frameworks.fx.programs import SHAPE, interpreted, program_of
from tests.support.generators import random_order


def check_program(seed: int, orders: int = 2) -> list[str] | None:
    """Return what differs in a program of a seed, None where none can be exported or run."""
    program = program_of(seed)
    if program is None:
        return None
    live, kept = from_fx(program), _from_file(program)
    found = [] if _shape(live) == _shape(kept) else ["the file's graph is another one"]
    nodes = [x for x in program.graph.nodes if x.op == "call_function" and _runs(x, live)]
    rng = np.random.default_rng(seed)
    usual = list(range(len(live.ops)))
    try:
        want, results = interpreted(program.graph_module, nodes)
    except RuntimeError:  # a write into an expanded tensor, which export does not see
        return None
    for order in (usual, *(random_order(rng, live) for _ in range(orders))):
        held, again = (
            (want, results)
            if list(order) == usual
            else interpreted(program.graph_module, [nodes[v] for v in order])
        )
        planned = [peak_memory(graph, order) for graph in (live, kept)]
        if planned != [held, held]:
            found.append(f"held {held}, planned {planned} in order {list(order)}")
        if not all(map(torch.equal, results, again)):
            found.append(f"other results in order {list(order)}")
    return found


def _from_file(program: Any) -> Graph:
    made = io.BytesIO()
    torch.export.save(program, made)
    return read_pt2(Source(made.getvalue()))


def _runs(node: Any, graph: Graph) -> bool:
    return node.name in graph.op_ids


def _shape(graph: Graph) -> list[Any]:
    """Return what counts of a graph; results that nobody reads have other names in files."""
    ops = [(op.name, op.kind, op.reads, op.uses, op.writes, op.control) for op in graph.ops]
    buffers = [(b.size, b.input, b.output, b.alias_of, b.mutates) for b in graph.buffers]
    return [ops, buffers, graph.inplace_candidates]


def main(count: int = 2_500, seed: int = 0) -> int:
    run = bad = 0
    for number in range(seed, seed + count):
        found = check_program(number)
        run += found is not None
        bad += bool(found)
        for line in found or ():
            print(f"seed {number}, shape {SHAPE}: {line}", flush=True)
    print(f"{run} programs, {bad} with differences")
    return int(bad > 0)
