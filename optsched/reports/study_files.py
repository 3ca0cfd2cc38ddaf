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
    *("file", "graph", "ops", "buffers", "method", "kind", "status", "reason", "peak", "slab"),
    *("fragmentation", "excess", "peak_excess", "slab_excess", "peak_bound", "slab_bound"),
    *("best_peak", "best_slab", "against_optimum", "proof", "stop_reason", "seconds"),
    *("memory_model", "digest", "optsched", "time_limit", "work", "workers", "seed", "jobs"),
    *("engine", "input_bytes", "inplace", "machine"),
)
"""Columns of the CSV, most of them keys of the JSON records as well."""
_KEYS = {"file": "path", "graph": "instance", "seconds": "runtime"}
"""Columns that the records have under another name."""


def study_csv(study: Study) -> str:
    """Return the text: bytes as integers, ratios as plain numbers (0.01 is one percent).

    `status` is `optimal`, `feasible`, why a method has no figures, or `skipped` for a file
    without any.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for line in _lines(study):
        table.writerow([_field(line.get(_KEYS.get(name, name))) for name in COLUMNS])
    return text.getvalue()


def _lines(study: Study) -> Iterator[dict[str, Any]]:
    used = {"machine": machine(), "optsched": versions()["optsched"]}
    for c in study.comparisons:
        shared = {**study.settings.record(), **used, **instance_record(c)}
        for row in (outcome_record(c, outcome) for outcome in outcomes(study, c)):
            row |= {
                "instance": c.graph.name,
                "status": row["trouble"] or row["status"],
                "runtime": f"{row['runtime']:.6f}",
            }
            yield {**shared, **row}
    for skipped in study.skipped:
        yield {"path": skipped.path, "status": "skipped", "reason": skipped.reason}


def _field(value: object) -> object:
    """Return a value as CSV has it; no spreadsheet runs what a file or a method calls itself."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.9g}"
    return shield(value, "") if isinstance(value, str) else value


def instance_record(comparison: Comparison) -> dict[str, Any]:
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
    }


def outcome_record(comparison: Comparison, outcome: MethodRow | Failed) -> dict[str, Any]:
    """Return one method on one graph; ratios are plain numbers, 0.01 for one percent.

    Without figures the keys are the same, and null is what is not known.
    """
    if isinstance(outcome, MethodRow):
        more = {"fragmentation": outcome.fragmentation, "excess": outcome.excess}
        return {**asdict(outcome), **more, "trouble": None, "reason": None}
    keys = [*(field.name for field in fields(MethodRow)), "fragmentation", "excess"]
    return {**dict.fromkeys(keys), "instance": comparison.graph.name, **asdict(outcome)}


def study_record(study: Study) -> dict[str, Any]:
    """Return what `optsched compare --json` prints."""
    rows = [
        outcome_record(c, outcome)
        for c in study.comparisons
        for found in (c.rows, c.failed)
        for outcome in found
    ]
    curves = profile(study.comparisons, study.methods)
    return {
        "rows": rows,
        "instances": [instance_record(c) for c in study.comparisons],
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
