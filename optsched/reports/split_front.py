"""Kernels against the peak of splits of a fused graph, as an HTML page.

Example: 181 kernels need 116 MB, 182 need 100 MB and 240 need 96 MB: three dots, the middle one
named as the knee. A dashed line at 95 MB says that no split needs less.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.model.saving import change
from optsched.reports.page import short_page
from optsched.reports.scatter import Axis, Mark, Shape, scatter
from optsched.reports.tables import Table, as_html, make_table
from optsched.reports.view import both
from optsched.runtime.bytes import unit_of
from optsched.solver.fusion.front import knee
from optsched.solver.fusion.result import FusionResult, Point


def split_page(result: FusionResult, points: Sequence[Point], saved: str = "") -> str:
    """Return an HTML page of a front of splits: picture and table.

    `saved` is the saving of the last split in words, with which the page starts.
    """
    name = result.fused.graph.name
    legend = "Each dot is a split; at the knee the saving is furthest ahead of the kernels added."
    if result.bound:
        legend += f" No split lies on the left of the dashed line, at {both(result.bound)}: proved."
    body = f"{split_picture(result, points)}<p class=soft>{legend}</p>"
    body += as_html(split_table(result, points), "Splits")
    return short_page(f"splits of {name}", f"Kernels against the peak of {name}", saved, body)


def split_picture(result: FusionResult, points: Sequence[Point]) -> str:
    """Return an SVG: peak to the right, additional kernels up; the dashed line is the bound."""
    middle, least = knee(points), points[0].kernels
    marks = [Mark(Shape.WALL, result.bound)] if result.bound else []
    for point in points:
        word = "all fused" if point == result.whole else "knee" if point == middle else ""
        marks.append(Mark(Shape.DOT, point.peak, point.kernels - least, word))
    most, top = max(x.peak for x in points), max(x.kernels for x in points) - least
    unit, scale = unit_of(most)
    peaks = Axis(most or 1, f"peak ({unit})", scale)
    return scatter(marks, peaks, Axis(top or 1, f"kernels more than {least:,}"))


def split_table(result: FusionResult, points: Sequence[Point]) -> Table:
    """Return one row per split of the front."""
    rows = [
        [
            f"{point.peak:,}",
            str(len(point.cut_nodes(result.fused))),
            f"{point.kernels:,}",
            change(result.whole.traffic, point.traffic),
        ]
        for point in points
    ]
    return make_table(("peak, bytes", "nodes cut", "kernels", "traffic"), "nnnn", rows)
