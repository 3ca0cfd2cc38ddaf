"""The part of two runs of a study that must be equal."""

from __future__ import annotations

from dataclasses import replace

from optsched.compare import Failed, MethodRow, Study


def rows_without_times(study: Study) -> list[MethodRow | Failed]:
    """Return all rows of a study, its failures last, with no seconds."""
    rows: list[MethodRow | Failed] = [
        replace(row, runtime=0.0) for c in study.comparisons for row in c.rows
    ]
    return rows + [replace(f, runtime=0.0) for c in study.comparisons for f in c.failed]
