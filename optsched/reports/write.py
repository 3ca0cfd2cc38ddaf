"""The files that a report is written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optsched.reports.report import Report

KINDS = ("html", "png", "svg", "trace")
"""Files that a report can be written to."""


def require(kinds: Sequence[str]) -> None:
    """Say in one line what to install if a package for one of these kinds of file is missing."""
    if "html" in kinds:
        from optsched.reports.figures import require_bokeh

        require_bokeh()
    if "png" in kinds or "svg" in kinds:
        from optsched.reports.static import require_matplotlib

        require_matplotlib()


def write_report(report: Report, files: Mapping[str, str]) -> None:
    """Write a report to files, by kind (:data:`KINDS`)."""
    views, peak, slab = report.views, report.result.peak_bound, report.result.slab_bound
    for kind, path in files.items():
        if kind == "html":
            from optsched.reports.page import write_page

            write_page(path, report)
        elif kind == "trace":
            from optsched.reports.chrome_trace import write_trace

            write_trace(path, views, peak)
        else:
            from optsched.reports.static import write_picture

            write_picture(path, kind, views, peak, slab)
