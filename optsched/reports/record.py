"""Results as plain JSON objects; the names of their keys are kept stable."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.reports.capacity import Refusal, packing_refusal, refusal
from optsched.runtime.limits import Event, Objective
from optsched.solver.result import PackingResult, Result

_PACKAGES = ("optsched", "numpy", "numba", "ortools", "pulp", "highspy")


def solve_record(graph: Graph, result: Result) -> dict[str, Any]:
    """Return what `optsched solve --json` prints."""
    return {
        "instance": graph.name,
        "ops": len(graph.ops),
        "buffers": len(graph.buffers),
        **{key: value for key, value in result.to_dict().items() if key != "graph"},
        **_refused(refusal(graph, result)),
        **_slabs(graph, result),
        "order_search": dict(result.order_search),
        "memory_model": graph.model_name,
        "versions": versions(),
    }


def _slabs(graph: Graph, result: Result) -> dict[str, Any]:
    slabs = {} if result.plan is None else result.plan.slabs(graph)
    return {"slabs": slabs} if len(slabs) > 1 else {}


def _refused(found: Refusal | None) -> dict[str, Any]:
    return {} if found is None else found.record()


def order_names(graph: Graph, order: tuple[int, ...]) -> list[str]:
    """Return the names of the ops of an order."""
    return [graph.ops[v].name for v in order]


def pack_record(problem: PackingProblem, result: PackingResult) -> dict[str, Any]:
    """Return what `optsched pack --json` prints."""
    return {
        "instance": problem.name,
        "buffers": len(problem),
        "status": result.status,
        "stop_reason": result.stop_reason,
        "objective": Objective.SLAB,
        "capacity": result.capacity,
        "slab": result.slab,
        "slab_bound": result.slab_bound,
        "slab_proof": result.slab_proof,
        "runtime": round(result.runtime, 6),
        **_refused(packing_refusal(problem, result)),
        **({"left_out": dict(result.left_out)} if result.left_out else {}),
        "offsets": None
        if result.offsets is None
        else dict(zip(problem.names, result.offsets.tolist(), strict=True)),
        "memory_model": problem.memory_model,
        "versions": versions(),
    }


def trace_rows(trace: Sequence[Event]) -> list[dict[str, Any]]:
    """Return how incumbent and bound moved, as plan files keep it."""
    return [
        {
            "microseconds": round(event.seconds * 1e6),
            "incumbent": event.incumbent,
            "bound": event.bound,
            "source": event.source,
        }
        for event in trace
    ]


def trace_events(rows: Sequence[Mapping[str, Any]]) -> tuple[Event, ...]:
    """Return the events that :func:`trace_rows` made rows of."""
    return tuple(
        Event(row["microseconds"] / 1e6, row["incumbent"], row["bound"], row["source"])
        for row in rows
    )


def machine() -> str:
    """Return what a run was made on, for whoever compares its seconds."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that shape a result."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
