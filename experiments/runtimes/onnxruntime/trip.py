"""A model planned, reordered and run: planned bytes beside bytes held, by order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optsched import apply_plan, peak_memory, read_graph, solve
from optsched.formats import read_recorded
from optsched.runtime.heap import Heap
from tests.support.onnx_session import (
    measured,
    optimization_level,
    optimize,
    profiled,
    random_inputs,
    without_weights_as_inputs,
)


@dataclass(frozen=True, slots=True)
class Run:
    """One order of a model."""

    model: str
    order: str
    """`model` and `order`: names. The order is `given`, ONNX Runtime's own in a session that is
    given the model and optimizes it; or, of the model as optimized and written, DEFAULT, `file` or
    `ours`."""
    ops: int
    """Of the model as it was run."""
    bound: int
    """No order has a lower peak, in bytes."""
    planned: int
    """Peak of the order that ran, in bytes, with in-place; 0 where it is not known."""
    held: int
    """Most bytes that ONNX Runtime held; `reuse` with its default of holding freed buffers."""
    reuse: int
    kept_order: bool
    same_outputs: bool
    """`kept_order` and `same_outputs`: true if it ran the nodes in the order of the file, and if
    its outputs are those of its own order."""


def round_trip(
    source: Path, heap: Heap, folder: Path, dims: Mapping[str, int], level: str, seconds: float
) -> list[Run]:
    """Optimize a model, plan it, and run ONNX Runtime's order, the file's and ours."""
    label = source.stem.removeprefix("light_")
    if level != "ORT_ENABLE_BASIC":
        label += f"@{level}"
    model, ours = folder / source.name, folder / f"ours-{source.name}"
    optimize(source, model, level)
    feed = random_inputs(model, dims)
    given = folder / f"given-{source.name}"
    without_weights_as_inputs(source, given)
    chosen = {"graph_optimization_level": optimization_level(level)}
    first, expected = measured(given, "DEFAULT", feed, heap, **chosen)
    second, _ = measured(given, "DEFAULT", feed, heap, reuse=True, **chosen)
    profile = profiled(model, "DEFAULT", feed, folder)
    graph = read_graph(model, profile=profile).with_inplace()
    result = solve(graph, objective="peak", time_limit=seconds)
    apply_plan(model, result, ours, profile=profile)
    assert result.plan is not None
    orders = {"DEFAULT": (model, None), "file": (model, tuple(range(len(graph.ops))))}
    orders["ours"] = (ours, result.plan.order)
    bound, ops = result.peak_bound, len(graph.ops)
    runs = [Run(label, "given", ops, bound, 0, first, second, True, True)]
    for name, (path, wanted) in orders.items():
        mode = "DEFAULT" if wanted is None else "PRIORITY_BASED"
        ran = read_recorded(model, profile=profiled(path, mode, feed, folder))["ort"]
        held, outputs = measured(path, mode, feed, heap)
        reuse, _ = measured(path, mode, feed, heap, reuse=True)
        same = all(map(np.array_equal, expected, outputs))
        planned, kept = peak_memory(graph, ran), wanted in (None, ran)
        runs.append(Run(label, name, ops, bound, planned, held, reuse, kept, same))
    return runs
