"""Pictures of points: the axis starts near the first point if all lie far from 0."""

from __future__ import annotations

import re

import pytest

from optsched.reports.scatter import Axis, Mark, Shape, scatter


@pytest.mark.parametrize(("points", "first"), [((90, 95, 100), 85.5), ((10, 100), 0.0)])
def test_points_fill_the_picture(points: tuple[int, ...], first: float) -> None:
    drawn = scatter([Mark(Shape.DOT, x, 1) for x in points], Axis(100, "bytes"), Axis(2, "cost"))
    found = [float(x) for x in re.findall(r'<circle cx="([0-9.]+)"', drawn)]
    wide = found[-1] - 56
    expected = [56 + wide * (x - first) / (100 - first) for x in points]
    assert found == pytest.approx(expected, abs=0.11)
    labels = [float(x) for x in re.findall(r'text-anchor="middle">([0-9.]+)<', drawn)]
    assert min(labels) >= first
    assert len(labels) >= 2
