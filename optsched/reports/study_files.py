"""Files of a comparison: figures as CSV or JSON, and tables as Markdown.

Names of columns and keys are stable. :mod:`optsched.reports.study_page` has the HTML page.
"""

from __future__ import annotations

from dataclasses import asdict, fields, replace
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
from optsched.model.limits import buffer_count
from optsched.model.saving import Saving
from optsched.reports.saving import headline, savings_record
from optsched.reports.study_tables import (
    FLEET_TITLE,
    TITLE,
    study_savings,
    study_sections,
    study_summary,
    trouble_lines,
)
from optsched.reports.tables import as_csv, as_markdown, markdown_safe
from optsched.runtime.facts import machine, versions

FIGURES = (
    *("path", "graph", "equals", "ops", "buffers", "weight", "state", "method", "kind", "status"),
    *("reason", "before", "saved", "peak", "slab", "fragmentation", "excess", "peak_excess"),
    *("slab_excess", "peak_bound", "slab_bound", "best_peak", "best_slab", "against_optimum"),
    *("proof", "stop_reason", "runtime", "memory_model", "digest"),
)
"""Columns of a data frame; what the table of `tune` has, too, has the same name there."""
COLUMNS = (*FIGURES, "optsched", *StudySettings(()).record(), "machine")
"""Columns of the CSV file; all of them are also keys of the JSON records."""


def study_csv(study: Study) -> str:
    """Return the CSV text: bytes as integers, ratios as plain numbers (0.01 is one percent).

    `status` is `optimal`, `feasible`, the reason why a method has no figures, or `skipped` for a
    file without figures.
    """
    used = {**study.settings.record(), "machine": machine(), "optsched": versions()["optsched"]}
    # Not 1e-05 seconds, which some spreadsheets take for text.
    rows = [{**used, **row, "runtime": f"{row['runtime']:.6f}"} for row in study_rows(study)]
    skipped = [
        {"path": x.path, "state": x.state, "status": "skipped", "reason": x.reason}
        for x in study.skipped
    ]
    return as_csv(COLUMNS, [*rows, *skipped])


def study_rows(study: Study) -> list[dict[str, Any]]:
    """Return a row per graph and method: the figures of both, by the columns' names."""
    equals, savings = study.equals, study_savings(study)
    rows = []
    for c in study.comparisons:
        graph = {**graph_record(c), "equals": equals.get(c.graph.name, "")}
        found = {outcome.method: outcome for outcome in c.outcomes}
        for method in (m.name for m in study.methods if m.name in found):
            row = outcome_record(c, found[method], savings[c.graph.name])
            # A method without figures has its reason as status.
            rows.append({**graph, **row, "status": row["trouble"] or row["status"]})
    return rows


def graph_record(comparison: Comparison) -> dict[str, Any]:
    """Return the record of a graph, as `optsched compare --json` prints it."""
    graph, result = comparison.graph, comparison.result
    own = ("best_peak", "best_slab", "peak_bound", "slab_bound", "path", "digest")
    proved = comparison.best_slab == comparison.slab_bound
    return {
        "graph": graph.name,
        "weight": 1.0,
        "state": "proved" if proved else "open",
        "ops": len(graph.ops),
        "buffers": buffer_count(graph),
        **{key: getattr(comparison, key) for key in own},
        "peak_proof": result.peak_proof,
        "slab_proof": result.slab_proof,
        "status": result.status,
        "memory_model": graph.model_name,
        **({"among": comparison.among} if comparison.among else {}),
    }


def outcome_record(
    comparison: Comparison, outcome: MethodRow | Failed, saving: Saving
) -> dict[str, Any]:
    """Return the record of a method on a graph; ratios are plain numbers (0.01 is one percent).

    `saving` is that of the graph; the row has what the method's own plan saves. Without figures,
    the keys are the same, and unknown values are null.
    """
    before = saving.before
    if isinstance(outcome, MethodRow):
        own = replace(saving, after=getattr(outcome, saving.quantity))
        more: dict[str, Any] = {"fragmentation": outcome.fragmentation, "excess": outcome.excess}
        more |= {"before": before, "saved": own.saved, "graph": comparison.graph.name}
        # Orders are left out: for many methods on a large graph they would outweigh the figures.
        shown = {key: value for key, value in asdict(outcome).items() if key != "order"}
        return {**shown, **more, "trouble": None, "reason": None}
    keys = [f.name for f in fields(MethodRow) if f.name != "order"]
    keys += ["fragmentation", "excess", "saved"]
    known = {"graph": comparison.graph.name, "before": before}
    return {**dict.fromkeys(keys), **known, **asdict(outcome)}


def study_record(study: Study) -> dict[str, Any]:
    """Return the record that `optsched compare --json` prints."""
    found, equals, savings = study.comparisons, study.equals, study_savings(study)
    return {
        "rows": [outcome_record(c, x, savings[c.graph.name]) for c in found for x in c.outcomes],
        "graphs": [{**graph_record(c), "equals": equals.get(c.graph.name, "")} for c in found],
        "saving": savings_record(savings),
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
        first = headline(study_savings(study), study.equals)
        parts += [f"**{markdown_safe(first)}**"] if first else []
        parts.append(f"{study_summary(study)}.")
        for title, words, table in study_sections(study):
            parts += [f"## {title}", words, as_markdown(table)]
    if lines := [f"- {markdown_safe(line)}" for line in trouble_lines(study)]:
        parts += ["## Without figures", "\n".join(lines)]
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    return "\n\n".join([*parts, f"Made with {used}."]) + "\n"
