"""A comparison as CSV: one line per graph and method, every figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from optsched.compare import Failed, Row, Study
from optsched.reports.gaps.choice import outcomes
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
    "gap",
    "excess",
    "peak_gap",
    "slab_gap",
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
        }
        for outcome in outcomes(study, c):
            yield {**shared, **(_failed(outcome) if isinstance(outcome, Failed) else _row(outcome))}
    for skipped in study.skipped:
        yield {"file": skipped.path, "status": "skipped", "reason": skipped.reason}


def _row(row: Row) -> dict[str, object]:
    return {
        "method": row.method,
        "kind": row.kind,
        "status": row.status,
        "peak": row.peak,
        "slab": row.slab,
        "fragmentation": row.fragmentation,
        "gap": _ratio(row.gap),
        "excess": _ratio(row.excess),
        "peak_gap": _ratio(row.peak_gap),
        "slab_gap": _ratio(row.slab_gap),
        "peak_excess": _ratio(row.peak_excess),
        "slab_excess": _ratio(row.slab_excess),
        "against_optimum": "yes" if row.against_optimum else "no",
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


def _ratio(value: float) -> str:
    return f"{value:.9g}"
