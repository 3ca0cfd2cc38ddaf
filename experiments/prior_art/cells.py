"""SERENITY's cells: the order of the program or file against the proved optimum."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.prior_art.tflite_cells import read_cells
from heuristics import ORDERINGS, PACKINGS
from optsched.check.plan import check_plan
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import make_plan
from optsched.model.steps import Order
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from tests.support.families.cells import darts_cell, randwire_cell

HEAD = (
    *("cell", "ops", "file order", "bfs", "least peak", "proof", "file / least", "bfs / least"),
    *("arena, file order", "least slab", "proof", "arena / least"),
)


def cells(swiftnet: Path | None) -> Iterator[Graph]:
    """Yield all cells; those of SwiftNet where their file is given."""
    yield darts_cell()
    yield darts_cell(preprocess=False)
    yield from (randwire_cell(seed, channels=78, side=16) for seed in range(5))
    if swiftnet is not None:
        yield from (graph for _, graph in read_cells(swiftnet))


def row(graph: Graph, seconds: float) -> tuple[object, ...]:
    """Compare one cell; the arena is that of TensorFlow Lite's planner, greedy by size."""
    listed = np.arange(len(graph.ops))
    peaks = [peak_memory(graph, order) for order in (listed, ORDERINGS["bfs"](graph, 0))]
    arena = arena_bytes(graph, listed)
    best = solve(graph, limits=Limits(seconds))
    if best.peak is None or best.slab is None:
        raise RuntimeError(f"{graph.name}: no plan within {seconds} s")
    return (
        *(graph.name, len(graph.ops), *peaks, best.peak, best.peak_proof or "-"),
        *(f"{peak / best.peak:.3f}" for peak in peaks),
        *(arena, best.slab, best.slab_proof or "-", f"{arena / best.slab:.3f}"),
    )


def arena_bytes(graph: Graph, order: Order) -> int:
    """Slab of an order packed greedily by size, as checked."""
    problem, _ = packing_problem(graph, order)
    return check_plan(graph, make_plan(graph, order, PACKINGS["greedy_by_size"](problem))).slab
