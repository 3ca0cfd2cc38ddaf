"""Writing of a report to files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import import_module

from optsched.errors import MissingDependencyError
from optsched.formats import write_bytes
from optsched.reports.report import Report

PACKAGES = {"html": "bokeh", "png": "matplotlib", "svg": "matplotlib"}
"""Package that draws each kind of file; a trace (`trace`) needs none."""


def require(kinds: Iterable[str]) -> None:
    """Raise an error that names the package to install if one of these kinds of file needs it."""
    for package in (PACKAGES[kind] for kind in kinds if kind in PACKAGES):
        try:
            import_module(package)
        except ImportError:
            raise MissingDependencyError(package, "report") from None


def write_report(report: Report, files: Mapping[str, str]) -> None:
    """Write a report to files, by kind: `html`, `png`, `svg` or `trace`."""
    bounds = report.result.peak_bound, report.result.slab_bound
    require(files)
    for kind, path in files.items():
        if kind == "html":
            from optsched.reports.page import report_page

            data = report_page(report).encode()
        elif kind == "trace":
            from optsched.reports.chrome_trace import trace_document

            data = json.dumps(trace_document(report.views, bounds[0], report.bound_label)).encode()
        else:
            from optsched.reports.static import picture

            data = picture(kind, report.views, *bounds, label=report.bound_label)
        write_bytes(path, data)
