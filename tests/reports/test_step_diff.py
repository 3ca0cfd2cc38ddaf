"""Pictures of two plans, and the paragraph that says what goes wrong."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np

from heuristics import ORDERINGS
from optsched import solve
from optsched.counterexamples.judges import packed
from optsched.counterexamples.spaces import make_problem
from optsched.model.liveness import timeline
from optsched.reports.step_diff import order_diff, packing_diff, rule_of
from optsched.reports.svg import contrast_picture, order_panel, slab_panel
from optsched.reports.view import packing_view, plan_view
from tests.support.families.growth import ladder
from tests.support.families.small import diamond

SVG = "{http://www.w3.org/2000/svg}"


def test_columns_are_as_high_as_the_live_bytes() -> None:
    graph = ladder(3)
    _, plan = packed(graph, ORDERINGS["lpmf"](graph, 0))
    panel = order_panel("lpmf", graph, plan)
    tops = [max(b.high for b in panel.blocks if b.start == step) for step in range(panel.steps)]
    assert tops == timeline(graph, plan.order).running.tolist()
    assert panel.labels == tuple(graph.ops[v].name for v in plan.order)


def test_many_blocks_become_one_a_step() -> None:
    graph = ladder(80)
    _, plan = packed(graph, ORDERINGS["lpmf"](graph, 0))
    panel = order_panel("lpmf", graph, plan)
    assert len(panel.blocks) == len(graph.ops)
    assert panel.top == plan.peak(graph)


def test_panels_share_a_scale_and_escape_names() -> None:
    graph = ladder(2)
    _, worse = packed(graph, ORDERINGS["lpmf"](graph, 0))
    _, better = packed(graph, (0, 2, 1, 3))
    panels = [
        slab_panel(name, plan_view(graph, plan, name))
        for name, plan in (("<worse>", worse), ("better", better))
    ]
    root = ET.fromstring(contrast_picture(panels, better.slab(graph)))
    heights = [float(r.attrib["height"]) for r in root.iter(f"{SVG}rect")][1:]
    assert max(heights) <= 300
    assert "<worse>" in [t.text for t in root.iter(f"{SVG}text")]


def test_a_paragraph_names_the_steps() -> None:
    graph = ladder(2)
    _, worse = packed(graph, ORDERINGS["lpmf"](graph, 0))
    _, better = packed(graph, (0, 2, 1, 3))
    text = order_diff(graph, "lpmf", worse, "optimum", better)
    assert text == (
        f"lpmf {rule_of('lpmf')}. The orders part at step 0: ready are 'x1' (+1,001, then -0) and "
        "'x2' (+1,000, then -0); lpmf runs 'x2', the optimum 'x1'. Its fullest step is step 2, "
        "while 'y1' runs: x1 (1,001), x2 (1,000) and y1 (1) are live, 2,002 bytes. When the "
        "optimum runs 'y1', at step 1, 1,002 bytes are live: x2 had not been made yet."
    )


def test_a_paragraph_names_the_buffer_on_top() -> None:
    problem = make_problem(((0, 2, 4), (0, 1, 2), (1, 3, 4)))
    worse, better = np.array([0, 4, 6]), np.array([0, 4, 4])
    panel = slab_panel("x", packing_view(problem, worse, "x"))
    assert panel.top == 10
    text = packing_diff(problem, "first_fit_size", worse, "optimum", better)
    assert "'c' (4 bytes, steps 1 to 2) comes to lie at 6 and makes the slab 10 bytes" in text
    assert (
        "At step 1, the fullest of its life, 8 bytes are live; free beneath it: [4, 6) (too small)."
        in text
    )
    assert text.endswith("The optimum puts c at 4, and needs 8.")


def test_a_paragraph_names_who_blocks_a_hole() -> None:
    problem = make_problem(((0, 2, 1), (0, 1, 2), (1, 2, 1)))
    text = packing_diff(problem, "x", np.array([3, 1, 0]), "bfs", np.array([0, 1, 1]))
    assert "free beneath it: [0, 1) (c lies there at another step)." in text
    assert text.endswith("The order of bfs puts a at 0, and needs 3.")


def test_stacked_panels_are_readable_on_a_phone() -> None:
    graph = diamond()
    plan = solve(graph).plan
    assert plan is not None
    panels = [slab_panel(name, plan_view(graph, plan, name)) for name in ("before", "after")]
    root = ET.fromstring(contrast_picture(panels, 18, stacked=True))
    width = float(root.attrib["viewBox"].split()[2])
    titles = [x for x in root.iter() if x.text in ("before", "after")]
    assert len({x.attrib["x"] for x in titles}) == 1
    # Titles and bytes; names of ops are left out of such pictures.
    named = [x for x in root.iter() if x in titles or x.attrib.get("text-anchor") == "end"]
    sizes = {float(x.attrib["font-size"]) for x in named if x.attrib["font-size"] != "11"}
    assert min(sizes) * 360 / width > 10
