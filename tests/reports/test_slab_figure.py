"""The figure of a slab in HTML: with and without names it is the same picture."""

from __future__ import annotations

import re

import pytest

from optsched import GraphBuilder, solve
from optsched.reports.colors import VIRIDIS
from optsched.reports.report import make_report
from optsched.reports.slab_figure import slab_figure
from optsched.reports.view import View


def view(sizes: list[int]) -> View:
    build = GraphBuilder("pictured")
    build.op("make", writes={f"b{i}": size for i, size in enumerate(sizes)})
    build.op("use", reads=[f"b{i}" for i in range(len(sizes))])
    graph = build.build()
    result = solve(graph)
    assert result.plan is not None
    return make_report(graph, result, [("plan", result.plan, ())]).views[0]


@pytest.mark.parametrize("sizes", [[1, 1024], [1, 32, 1024], [5], [1, 2**40, 2**35], [7, 7]])
def test_a_buffer_has_one_color_with_and_without_its_name(sizes: list[int]) -> None:
    shown = view(sizes)
    named = re.findall(r'fill="(#\w{6})"', slab_figure(shown, 0))
    bare = re.findall(r'fill="(#\w{6})"', slab_figure(shown, 0, named=False))
    assert set(bare) <= set(VIRIDIS)
    # All sizes here lie on a color of the scale, so that nothing is rounded.
    assert {color for color in named if color in VIRIDIS} == set(bare)
