"""Comparisons as plain JSON objects; the names of their keys are kept stable."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from optsched.compare import TAUS, Comparison, Failed, Row, Study, profile, summarise
from optsched.reports.record import versions


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
        "memory_model": graph.model_name,
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
