"""Pictures for papers: they are what they say, hold the plan, and are the same every time."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from optsched.reports.report import Report, make_report
from optsched.reports.static import DOTS, WIDTH, picture
from optsched.solver.pipeline import solve
from tests.reports.hostile import hostile_graph

pytest.importorskip("matplotlib", reason="needs the extra `report`")
SVG = "{http://www.w3.org/2000/svg}"


def test_a_png_has_a_column_for_each_plan(two_plans: Report, tmp_path: Path) -> None:
    path = tmp_path / "picture"
    path.write_bytes(picture("png", two_plans.views, 18, 18))
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width == 2 * WIDTH * DOTS
    assert height > width / 3


def test_an_svg_has_a_shape_for_each_buffer(two_plans: Report, tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    path.write_bytes(picture("svg", two_plans.views[1:], 18, 18))
    first = path.read_bytes()
    root = ET.fromstring(first)
    (group,) = (g for g in root.iter(f"{SVG}g") if g.get("id", "").startswith("PolyCollection"))
    assert len(list(group.iter(f"{SVG}path"))) == 5
    # Large buffers bear their names, and the proven bound is drawn across the slab.
    words = " ".join(text.text or "" for text in root.iter(f"{SVG}text"))
    assert {"x", "b"} <= set(words.split())
    assert "live bytes proven bound" in words
    assert "after: slab 18 B" in words
    assert "peak 18 B, bound 18 B" in words
    path.write_bytes(picture("svg", two_plans.views[1:], 18, 18))
    assert path.read_bytes() == first


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_hostile_names_are_only_drawn(
    kind: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    graph = hostile_graph()
    result = solve(graph)
    assert result.plan is not None
    for name in ("$\\frac{", "<b>&amp;\x00\ud800日本", "x" * 500):
        report = make_report(graph, result, [(name, result.plan, ())])
        (tmp_path / kind).write_bytes(picture(kind, report.views, result.peak_bound, 8))
        if kind == "svg":
            ET.fromstring((tmp_path / kind).read_bytes())
    assert not list(recwarn)
