"""Draw the pictures of these pages with the program's own report code: `python -m docs.draw`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np

from heuristics import PACKINGS
from optsched import Graph, GraphBuilder, PackingProblem, Plan, pack, read_graph, solve
from optsched.formats import read_recorded
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import make_plan
from optsched.reports.svg import Panel, contrast_picture, order_panel, slab_panel
from optsched.reports.view import packing_view, plan_view

ROOT = Path(__file__).parents[1]
PICTURES = Path(__file__).parent / "pictures"
CHECKPOINTED = ROOT / "instances" / "inductor" / "albert_qa_bs4_ac0.5_cuda.bwd.json.gz"
OP, BUFFER, QUIET = "#f5d76e", "#9fc5e8", "#eeeeee"


def plan_of(graph: Graph, order: Sequence[int], packer: str = "greedy_by_size") -> Plan:
    """Return the plan of an order whose buffers a heuristic packs."""
    problem, _ = packing_problem(graph, order)
    return make_plan(graph, order, PACKINGS[packer](problem))


def best_plan(graph: Graph) -> Plan:
    """Return the plan of least slab."""
    result = solve(graph, time_limit=60)
    assert result.plan is not None
    return result.plan


def before_and_after() -> str:
    """Draw a real graph's slab in Inductor's order with greedy packing, and the best slab."""
    graph = read_graph(CHECKPOINTED)
    before = plan_of(graph, read_recorded(CHECKPOINTED)["chosen"])
    panels = []
    for title, plan in (
        ("Inductor's order, packed by size", before),
        ("optsched", best_plan(graph)),
    ):
        slab = plan.slab(graph)
        panel = slab_panel(f"{title}: {slab / 2**30:.2f} GiB", plan_view(graph, plan, title))
        panels.append(replace(panel, labels=()))
    return contrast_picture(panels, panels[1].top, stacked=True)


def diamond() -> Graph:
    """Return the graph that the page on concepts explains."""
    build = GraphBuilder("diamond")
    build.input("x", 8)
    build.op("left", reads=["x"], writes={"a": 4})
    build.op("right", reads=["x"], writes={"b": 6}, workspace=2)
    build.op("join", reads=["a", "b"], writes={"y": 4})
    build.output("y")
    return build.build()


def peak() -> str:
    """Draw the live bytes of both orders of the diamond."""
    graph = diamond()
    plans = [plan_of(graph, order) for order in ((0, 1, 2), (1, 0, 2))]
    panels = [order_panel("", graph, plan) for plan in plans]
    return contrast_picture([titled(p, f"peak {p.top} bytes") for p in panels], 18)


def slab() -> str:
    """Draw the best plan of the diamond."""
    graph = diamond()
    plan = best_plan(graph)
    panel = slab_panel("", plan_view(graph, plan, "plan"))
    return contrast_picture([titled(panel, f"slab {panel.top} bytes")], panel.top)


def offset() -> str:
    """Draw two packings of the same three live ranges."""
    problem = PackingProblem(size=[8, 4, 8], start=[0, 2, 4], end=[4, 6, 8], names=list("abc"))
    best = pack(problem).offsets
    assert best is not None
    panels = []
    for offsets in ([0, 8, 12], best):
        panel = slab_panel("", packing_view(problem, np.asarray(offsets), "packing"))
        panels.append(titled(panel, f"slab {panel.top} bytes"))
    return contrast_picture(panels, 12)


def titled(panel: Panel, title: str) -> Panel:
    """Return a panel with another title."""
    return replace(panel, title=title)


def box(x: int, y: int, text: str, fill: str = QUIET, width: int = 110) -> str:
    """Return a labeled box around a point; `|` in the text starts a new line."""
    lines = text.split("|")
    high = 18 + 16 * len(lines)
    shown = f'<rect x="{x - width // 2}" y="{y - high // 2}" width="{width}" height="{high}" '
    shown += f'rx="6" fill="{fill}" stroke="#555"/>'
    for row, line in enumerate(lines):
        shown += (
            f'<text x="{x}" y="{y + 5 + 16 * row - 8 * (len(lines) - 1)}">{escape(line)}</text>'
        )
    return shown


def arrows(ends: Iterable[tuple[int, int, int, int]]) -> str:
    """Return arrows from `(x, y)` to `(x, y)`."""
    return "".join(
        f'<path d="M{a} {b}L{c} {d}" stroke="#555" fill="none" marker-end="url(#tip)"/>'
        for a, b, c, d in ends
    )


def picture(width: int, height: int, says: str, body: str) -> str:
    """Return an SVG with a white ground and a title for readers who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(says)}" font-family="system-ui, sans-serif" font-size="13" '
        f'text-anchor="middle"><defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" '
        f'markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/>'
        f'</marker></defs><rect width="{width}" height="{height}" fill="#fff"/>{body}</svg>'
    )


def network(ops: str, buffers: str, says: str, steps: Sequence[str] = ("", "", "")) -> str:
    """Draw the diamond: ops and buffers in the given colors, a step per op."""
    x, left, right, join = (60, 90), (200, 40), (200, 140), (480, 90)
    body = arrows(
        [
            *((115, 90, 145, 45), (115, 90, 145, 135), (255, 40, 285, 40), (255, 140, 285, 140)),
            *((395, 40, 425, 85), (395, 140, 425, 95), (535, 90, 545, 90)),
        ]
    )
    body += box(*x, "buffer x|8 bytes, input", buffers)
    for place, name, step in zip(
        (left, right, join), ("left", "right", "join"), steps, strict=True
    ):
        body += box(*place, f"op {name}{step}", ops)
    for place, text in (
        ((340, 40), "buffer a|4 bytes"),
        ((340, 140), "buffer b|6 bytes"),
        ((620, 90), "buffer y|4 bytes, output"),
    ):
        body += box(*place, text, buffers, width=110 if place[0] < 600 else 150)
    return picture(710, 180, says, body)


def order_search() -> str:
    """Draw the sets of finished ops of the diamond, and the bytes that each step needs."""
    states = {"{}": (70, 90), "{left}": (270, 40), "{right}": (270, 140)}
    states |= {"{left, right}": (480, 90), "all": (670, 90)}
    ends = [(125, 85, 215, 42), (125, 95, 215, 138), (325, 40, 425, 84), (325, 140, 425, 96)]
    body = arrows([*ends, (535, 90, 615, 90)])
    for name, place in states.items():
        body += box(
            *place, name, OP if name in {"{}", "{right}", "{left, right}", "all"} else QUIET
        )
    for x, y, text, color in (
        (165, 50, "left: 12", "#555"),
        (155, 142, "right: 16", "#555"),
        (385, 48, "right: 20", "#b00"),
        (385, 138, "left: 18", "#555"),
        (575, 80, "join: 14", "#555"),
    ):
        body += f'<text x="{x}" y="{y}" fill="{color}" font-weight="600">{text}</text>'
    return picture(740, 180, "the sets of finished ops of the diamond", body)


def path() -> str:
    """Draw the way of a graph through the solver."""
    rows = (
        ("heuristics|first plan", "upper limit on peak and slab"),
        ("bounds|closure cut", "lower limit on the peak of all orders"),
        ("contraction|regions, copies", "a smaller graph with the same minimum"),
        ("order search|sets of finished ops", "least peak, proved"),
        ("packing|offsets", "least slab of an order, proved"),
        ("joint model|small graphs", "order and offsets together"),
    )
    body = ""
    for i, (name, gives) in enumerate(rows):
        y = 40 + 72 * i
        body += box(190, y, name, OP if i in {3, 4} else BUFFER, width=190)
        body += f'<text x="310" y="{y + 5}" text-anchor="start">{gives}</text>'
    body += arrows((190, 65 + 72 * i, 190, 87 + 72 * i) for i in range(5))
    stop = 'stroke="#b00" fill="none" stroke-dasharray="5 4"'
    body += f'<path d="M95 40H50V400H95" {stop}/><text x="40" y="225" fill="#b00" '
    body += 'transform="rotate(-90 40 225)">stop as soon as the bounds meet</text>'
    return picture(640, 440, "the way of a graph through the solver", body)


DRAWN = {
    "before_and_after": before_and_after,
    "op": lambda: network(OP, QUIET, "the ops of a graph"),
    "buffer": lambda: network(QUIET, BUFFER, "the buffers of a graph"),
    "order": lambda: network(OP, QUIET, "an order", steps=(": 2nd", ": 1st", ": 3rd")),
    "peak": peak,
    "slab": slab,
    "offset": offset,
    "proof": order_search,
    "path": path,
}
"""Pictures by name of file."""


def main() -> None:
    """Write the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("name", nargs="*", choices=[*DRAWN, []], help="pictures (default: all)")
    for name in parser.parse_args().name or DRAWN:
        (PICTURES / f"{name}.svg").write_text(DRAWN[name](), encoding="utf-8")


if __name__ == "__main__":
    main()
