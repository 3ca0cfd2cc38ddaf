"""Results as plain JSON objects; the names of their keys are kept stable."""

from __future__ import annotations

import platform
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from optsched.graph import Graph
from optsched.packer import PackingResult
from optsched.problem import PackingProblem
from optsched.report.capacity import Refusal, packing_refusal, refusal
from optsched.result import Objective, Result

if TYPE_CHECKING:
    from optsched.compare import TAUS, Comparison, Failed, Row, Study, profile, summarise

_PACKAGES = ("optsched", "numpy", "numba", "ortools", "pulp", "highspy")


def solve_record(graph: Graph, result: Result) -> dict[str, Any]:
    """Return what `optsched solve --json` prints."""
    return {
        "instance": graph.name,
        "ops": len(graph.ops),
        "buffers": len(graph.buffers),
        **outcome(result),
        **_refused(refusal(graph, result)),
        **_slabs(graph, result),
        "order": None if result.plan is None else order_names(graph, result.plan.order),
        "offsets": None
        if result.plan is None
        else {
            buffer.name: offset
            for b, (buffer, offset) in enumerate(
                zip(graph.buffers, result.plan.offsets, strict=True)
            )
            if offset is not None and graph.roots[b] == b
        },
        "memory_model": graph.memory_model,
        "versions": versions(),
    }


def outcome(result: Result) -> dict[str, Any]:
    """Return the fields that say how good a result is and what proves it."""
    return {
        "status": result.status,
        "stop_reason": result.stop_reason,
        "objective": result.objective,
        "capacity": result.capacity,
        "peak": result.peak,
        "peak_bound": result.peak_bound,
        "peak_proof": result.peak_proof,
        "slab": result.slab,
        "slab_bound": result.slab_bound,
        "slab_proof": result.slab_proof,
        "claimed_bound": result.claimed_bound,
        "runtime": round(result.runtime, 6),
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
        "offsets": None
        if result.offsets is None
        else dict(zip(problem.names, result.offsets.tolist(), strict=True)),
        "memory_model": problem.memory_model,
        "versions": versions(),
    }


def comparison_record(comparison: Comparison) -> dict[str, Any]:
    """Return one instance of what `optsched compare --json` prints."""
    graph, result = comparison.graph, comparison.result
    return {
        "instance": graph.name,
        "ops": len(graph.ops),
        "buffers": len(graph.buffers),
        "best_peak": comparison.best_peak,
        "best_slab": comparison.best_slab,
        "peak_bound": comparison.peak_bound,
        "peak_proof": result.peak_proof,
        "slab_bound": comparison.slab_bound,
        "slab_proof": result.slab_proof,
        "status": result.status,
        "memory_model": graph.memory_model,
        "path": comparison.path,
        "rows": [
            *(row_record(row) for row in comparison.rows),
            *(failed_record(comparison, failed) for failed in comparison.failed),
        ],
    }


def row_record(row: Row) -> dict[str, Any]:
    """Return one method on one graph; ratios are plain numbers, 0.01 for one percent."""
    return {
        **asdict(row),
        "fragmentation": row.fragmentation,
        "gap": row.gap,
        "excess": row.excess,
        "trouble": None,
        "reason": None,
    }


def failed_record(comparison: Comparison, failed: Failed) -> dict[str, Any]:
    """Return a method without figures on one graph: a row's keys, nulls for what is unknown."""
    known = {
        "instance": comparison.graph.name,
        "method": failed.method,
        "kind": failed.kind,
        "runtime": failed.runtime,
        "trouble": failed.trouble,
        "reason": failed.reason,
    }
    keys = [*(field.name for field in fields(Row)), "fragmentation", "gap", "excess"]
    return dict.fromkeys(keys) | known


def study_record(study: Study) -> dict[str, Any]:
    """Return what `optsched compare --json` prints."""
    instances = [comparison_record(c) for c in study.comparisons]
    curves = profile(study.comparisons, study.methods)
    return {
        "rows": [row for instance in instances for row in instance.pop("rows")],
        "instances": instances,
        "summary": [asdict(s) for s in summarise(study.comparisons, study.methods)],
        "profile": {"taus": TAUS, "methods": curves},
        "skipped": [asdict(s) for s in study.skipped],
        "interrupted": study.interrupted,
        "versions": versions(),
    }


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
