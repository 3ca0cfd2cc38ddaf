"""Files of a comparison: figures as CSV or JSON, and tables as Markdown.

Names of columns and keys are stable. :mod:`optsched.reports.study_page` has the HTML page.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

from optsched.compare import (
    TAUS,
    Comparison,
    Failed,
    MethodRow,
    Study,
    StudySettings,
    profile,
    summarize,
)
from optsched.reports.saving import headline, savings_record
from optsched.reports.study_sections import FLEET_TITLE, TITLE, study_sections
from optsched.reports.study_tables import study_savings, study_summary, trouble_lines
from optsched.reports.tables import as_markdown, markdown_safe
from optsched.runtime.facts import machine, versions
from optsched.runtime.text import shield

COLUMNS = (
    *("file", "graph", "ops", "buffers", "method", "kind", "status", "reason", "peak", "slab"),
    *("fragmentation", "excess", "peak_excess", "slab_excess", "peak_bound", "slab_bound"),
    *("best_peak", "best_slab", "against_optimum", "proof", "stop_reason", "seconds"),
    *("memory_model", "digest", "optsched", *StudySettings(()).record(), "machine"),
)
"""Columns of the CSV file; most of them are also keys of the JSON records."""
_KEYS = {"file": "path", "graph": "instance", "seconds": "runtime"}
"""Columns that have another name in the records."""


def study_csv(study: Study) -> str:
    """Return the CSV text: bytes as integers, ratios as plain numbers (0.01 is one percent).

    `status` is `optimal`, `feasible`, the reason why a method has no figures, or `skipped` for a
    file without figures.
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
        found = {outcome.method: outcome for outcome in c.outcomes}
        for method in (m.name for m in study.methods if m.name in found):
            row = outcome_record(c, found[method])
            row |= {
                "instance": c.graph.name,
                # A method without figures has its reason as status.
                "status": row["trouble"] or row["status"],
                # Not 1e-05, which some spreadsheets take for text.
                "runtime": f"{row['runtime']:.6f}",
            }
            yield {**shared, **row}
    for skipped in study.skipped:
        yield {"path": skipped.path, "status": "skipped", "reason": skipped.reason}


def _field(value: object) -> object:
    """Return a CSV field, escaped so that spreadsheets do not run a name as a formula."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.9g}"
    # Names may begin like a formula of a spreadsheet.
    return shield(value, "") if isinstance(value, str) else value


def instance_record(comparison: Comparison) -> dict[str, Any]:
    """Return the record of an instance, as `optsched compare --json` prints it."""
    graph, result = comparison.graph, comparison.result
    own = ("best_peak", "best_slab", "peak_bound", "slab_bound", "path", "digest")
    return {
        "instance": graph.name,
        "ops": len(graph.ops),
        "buffers": len(graph.buffers),
        **{key: getattr(comparison, key) for key in own},
        "peak_proof": result.peak_proof,
        "slab_proof": result.slab_proof,
        "status": result.status,
        "memory_model": graph.model_name,
        **({"among": comparison.among} if comparison.among else {}),
    }


def outcome_record(comparison: Comparison, outcome: MethodRow | Failed) -> dict[str, Any]:
    """Return the record of a method on a graph; ratios are plain numbers (0.01 is one percent).

    Without figures, the keys are the same, and unknown values are null.
    """
    if isinstance(outcome, MethodRow):
        more = {"fragmentation": outcome.fragmentation, "excess": outcome.excess}
        # Orders are left out: for many methods on a large graph they would outweigh the figures.
        shown = {key: value for key, value in asdict(outcome).items() if key != "order"}
        return {**shown, **more, "trouble": None, "reason": None}
    keys = [f.name for f in fields(MethodRow) if f.name != "order"] + ["fragmentation", "excess"]
    return {**dict.fromkeys(keys), "instance": comparison.graph.name, **asdict(outcome)}


def study_record(study: Study) -> dict[str, Any]:
    """Return the record that `optsched compare --json` prints."""
    return {
        "rows": [outcome_record(c, x) for c in study.comparisons for x in c.outcomes],
        "instances": [instance_record(c) for c in study.comparisons],
        "saving": savings_record(study_savings(study)),
        "summary": [asdict(s) for s in summarize(study.comparisons, study.methods)],
        "profile": {"taus": TAUS, "methods": profile(study.comparisons, study.methods)},
        "skipped": [asdict(s) for s in study.skipped],
        "interrupted": study.interrupted,
        "settings": {**study.settings.record(), "machine": machine()},
        "versions": versions(),
    }


def study_markdown(study: Study, *, fleet: bool = False) -> str:
    """Return the study as Markdown; `fleet` is True for the plans of `optsched tune`."""
    parts = [f"# {FLEET_TITLE if fleet else TITLE}"]
    if study.comparisons:
        parts += [f"**{markdown_safe(line)}**" for line in [headline(study_savings(study))] if line]
        parts.append(f"{study_summary(study)}.")
        for title, words, table in study_sections(study):
            parts += [f"## {title}", words, as_markdown(table)]
    if lines := [f"- {markdown_safe(line)}" for line in trouble_lines(study)]:
        parts += ["## Without figures", "\n".join(lines)]
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    return "\n\n".join([*parts, f"Made with {used}."]) + "\n"
