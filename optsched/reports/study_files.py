"""A comparison in files: every figure as CSV or JSON, tables as Markdown.

The names of columns and keys are kept stable.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

from optsched.compare import TAUS, Comparison, Failed, MethodRow, Study, profile, summarise
from optsched.reports.record import machine, versions
from optsched.reports.study_tables import (
    METHODS_SAY,
    PROFILE_SAYS,
    graph_table,
    method_table,
    methods_with_columns,
    outcomes,
    profile_table,
    study_summary,
    trouble_lines,
)
from optsched.reports.tables import as_markdown, markdown_safe
from optsched.runtime.text import shield

COLUMNS = (
    "file",
    "graph",
    "ops",
    "buffers",
    "method",
    "kind",
    "status",
    "reason",
    "peak",
    "slab",
    "fragmentation",
    "excess",
    "peak_excess",
    "slab_excess",
    "peak_bound",
    "slab_bound",
    "best_peak",
    "best_slab",
    "against_optimum",
    "proof",
    "stop_reason",
    "seconds",
    "memory_model",
    "digest",
    "optsched",
    "time_limit",
    "work",
    "workers",
    "seed",
    "jobs",
    "engine",
    "input_bytes",
    "inplace",
    "machine",
)


def study_csv(study: Study) -> str:
    """Return the text: bytes as integers, ratios as plain numbers (0.01 is one percent).

    `status` is `optimal`, `feasible`, why a method has no figures, or `skipped` for a file
    without any.
    """
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(map(_shielded, _lines(study)))
    return text.getvalue()


def _shielded(line: dict[str, object]) -> dict[str, object]:
    """Keep a spreadsheet from running what a file or a method calls itself."""
    return {key: shield(x, "") if isinstance(x, str) else x for key, x in line.items()}


def _lines(study: Study) -> Iterator[dict[str, object]]:
    own = {key: _word(value) for key, value in study.settings.record().items()}
    settings = {**own, "machine": machine(), "optsched": versions()["optsched"]}
    for c in study.comparisons:
        shared = {
            "file": c.path,
            "graph": c.graph.name,
            "ops": len(c.graph.ops),
            "buffers": len(c.graph.buffers),
            "peak_bound": c.peak_bound,
            "slab_bound": c.slab_bound,
            "best_peak": c.best_peak,
            "best_slab": c.best_slab,
            "memory_model": c.graph.model_name,
            "digest": c.digest,
            **settings,
        }
        for outcome in outcomes(study, c):
            yield {**shared, **(_failed(outcome) if isinstance(outcome, Failed) else _row(outcome))}
    for skipped in study.skipped:
        yield {"file": skipped.path, "status": "skipped", "reason": skipped.reason}


def _row(row: MethodRow) -> dict[str, object]:
    return {
        "method": row.method,
        "kind": row.kind,
        "status": row.status,
        "peak": row.peak,
        "slab": row.slab,
        "fragmentation": row.fragmentation,
        "excess": _ratio(row.excess),
        "peak_excess": _ratio(row.peak_excess),
        "slab_excess": _ratio(row.slab_excess),
        "against_optimum": _word(row.against_optimum),
        "proof": row.proof or "",
        "stop_reason": row.stop_reason or "",
        "seconds": f"{row.runtime:.6f}",
    }


def _failed(failed: Failed) -> dict[str, object]:
    return {
        "method": failed.method,
        "kind": failed.kind,
        "status": failed.trouble,
        "reason": failed.reason,
        "seconds": f"{failed.runtime:.6f}",
    }


def _word(value: object) -> object:
    """Return `yes` or `no` for what is true or false, any other value as it is."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


def _ratio(value: float) -> str:
    return f"{value:.9g}"


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
        "digest": comparison.digest,
        "rows": [
            *(row_record(row) for row in comparison.rows),
            *(failed_record(comparison, failed) for failed in comparison.failed),
        ],
    }


def row_record(row: MethodRow) -> dict[str, Any]:
    """Return one method on one graph; ratios are plain numbers, 0.01 for one percent."""
    return {
        **asdict(row),
        "fragmentation": row.fragmentation,
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
    keys = [*(field.name for field in fields(MethodRow)), "fragmentation", "excess"]
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
        "settings": {**study.settings.record(), "machine": machine()},
        "versions": versions(),
    }


def study_markdown(study: Study) -> str:
    """Return the text; every table is complete but for the columns of the last."""
    parts = ["# How far each method is from the optimum"]
    if study.comparisons:
        parts += [
            f"{study_summary(study)}.",
            "## Methods",
            METHODS_SAY,
            as_markdown(method_table(study)),
            "## Performance profile",
            PROFILE_SAYS,
            as_markdown(profile_table(study)),
            "## Graphs",
            "Excess over the optimum in percent: of the peak for orders, of the slab for packers.",
            as_markdown(graph_table(study, methods_with_columns(study))),
        ]
    lines = [f"- {line}" for line in trouble_lines(study)]
    if lines:
        parts += ["## Without figures", "\n".join(map(markdown_safe, lines))]
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    return "\n\n".join([*parts, f"Made with {used}."]) + "\n"
