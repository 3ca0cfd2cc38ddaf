"""Kernels against the peak of splits of a fused graph, as an HTML page.

Example: 181 kernels need 116 MB, 182 need 100 MB and 240 need 96 MB: three dots, the middle one
named as the knee. A dashed line at 95 MB says that no split needs less.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.model.saving import change
from optsched.reports.page import document, origin
from optsched.reports.scatter import Mark, Shape, scatter
from optsched.reports.tables import Table, as_html, make_table, safe
from optsched.runtime.bytes import format_bytes
from optsched.solver.fusion.front import knee
from optsched.solver.fusion.result import FusionResult, Point


def split_page(result: FusionResult, points: Sequence[Point]) -> str:
    """Return an HTML page of a front of splits: picture and table."""
    name = result.fused.graph.name
    body = f"<h1>Kernels against the peak of {safe(name)}</h1>{split_picture(result, points)}"
    body += as_html(split_table(result, points))
    return document(f"splits of {name}", body + origin())


def split_picture(result: FusionResult, points: Sequence[Point]) -> str:
    """Return an SVG: peak to the right, additional kernels up; the dashed line is the bound."""
    middle, least = knee(points), points[0].kernels
    marks = [Mark(Shape.WALL, result.bound)] if result.bound else []
    for point in points:
        word = "all fused" if point == result.whole else "knee" if point == middle else ""
        marks.append(Mark(Shape.DOT, point.peak, point.kernels - least, word))
    most, top = max(x.peak for x in points), max(x.kernels for x in points) - least
    note = f"peak up to {format_bytes(most)}; no split is left of the dashed line"
    return scatter(marks, most or 1, top or 1, f"{top:,} kernels more than {least:,}", note)


def split_table(result: FusionResult, points: Sequence[Point]) -> Table:
    """Return one row per split of the front."""
    rows = [
        [
            f"{point.peak:,}",
            str(len(point.cut_nodes(result.fused))),
            str(point.kernels),
            change(result.whole.traffic, point.traffic),
        ]
        for point in points
    ]
    return make_table(("peak", "nodes cut", "kernels", "traffic"), "nnnn", rows)
