"""Writing of a report to files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

from optsched.errors import MissingDependencyError, UsageError
from optsched.formats import write_bytes
from optsched.reports.report import Report
from optsched.runtime.text import ending_of

PACKAGES = {"png": "matplotlib", "svg": "matplotlib", "pdf": "matplotlib"}
"""Package that draws each kind of file; a page (`html`) and a trace (`trace`) need none."""
KINDS = {".html": "html", ".png": "png", ".svg": "svg", ".pdf": "pdf", ".json": "trace"}
"""Kind of a report by the ending of its file, before `.gz`."""


def kind_of(path: str | Path) -> str:
    """Return the kind of report that the ending of a file asks for."""
    kind = KINDS.get(ending_of(path))
    if kind is None:
        raise UsageError(f"{path}: a report ends in {', '.join(KINDS)}")
    return kind


def require(kinds: Iterable[str]) -> None:
    """Raise an error that names the package to install if one of these kinds of file needs it."""
    for package in (PACKAGES[kind] for kind in kinds if kind in PACKAGES):
        try:
            import_module(package)
        except ImportError:
            raise MissingDependencyError(package, "report") from None


def write_report(report: Report, files: Mapping[str, str]) -> None:
    """Write a report to files, by kind: `html`, `png`, `svg`, `pdf` or `trace`."""
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
