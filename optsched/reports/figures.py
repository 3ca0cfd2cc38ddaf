"""Interactive figures, drawn by Bokeh: they zoom, pan and answer the mouse without a network.

Measured before it was chosen (3,000 rectangles, two cores, no graphics card, headless Chromium): a
page of 1.4 MB opens in 0.5 s and follows the wheel within two frames or so; Plotly's is 5 MB and
takes 9 s to open; Bokeh's own WebGL is slower than its canvas where there is no graphics card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optsched.errors import MissingDependencyError
from optsched.model.graph import Graph
from optsched.reports.colours import BOUND, INK, LIVE, PEAK, by_kind, by_size, least_shade
from optsched.reports.view import (
    Slab,
    View,
    bars,
    both,
    kind_of,
    lifetime,
    maker,
    thinned,
)
from optsched.runtime.bytes import unit_of
from optsched.runtime.limits import Event
from optsched.runtime.text import readable

if TYPE_CHECKING:
    from bokeh.models import Range1d
    from bokeh.plotting import figure

_MANY = 600
"""From so many rectangles on their borders would be most of the picture, and are faint."""


@dataclass(frozen=True, slots=True)
class Painting:
    """What all figures of a report have in common.

    Parameters
    ----------
    graph
        The graph.
    unit, scale
        Unit of the axes and its bytes.
    by_size, by_kind
        Colour of each buffer, by id.
    kinds
        Colour of each kind, those of most bytes first.
    darkest, largest
        Bytes at the ends of the scale of colours.
    """

    graph: Graph
    unit: str
    scale: int
    by_size: tuple[str, ...]
    by_kind: tuple[str, ...]
    kinds: dict[str, str]
    darkest: int
    largest: int


def painting(graph: Graph, views: Sequence[View]) -> Painting:
    """Choose units and colours that all plans of a report share."""
    size = graph.arrays.size
    unit, scale = unit_of(max((view.slab for view in views), default=0))
    counted = np.flatnonzero(size > 0)
    kinds = [kind_of(graph, b) for b in range(len(graph.buffers))]
    legend = by_kind([kinds[b] for b in counted], size[counted].tolist())
    shades = dict(zip(counted.tolist(), by_size(size[counted]), strict=True))
    return Painting(
        graph,
        unit,
        scale,
        tuple(shades.get(b, INK) for b in range(len(kinds))),
        tuple(legend.get(kind, INK) for kind in kinds),
        legend,
        least_shade(size[counted]),
        int(size[counted].max(initial=0)),
    )


def require_bokeh() -> None:
    """Say in one line what to install where Bokeh is missing."""
    try:
        import bokeh.plotting  # noqa: F401
    except ImportError:
        raise MissingDependencyError("bokeh", "report") from None


def plan_figures(paint: Painting, views: Sequence[View], bound: int) -> list[list[figure]]:
    """Return the figures of each plan: a packing for each slab, then the live bytes.

    All share the axis of steps, all packings that of addresses, so that plans side by side are
    seen at the same place and scale.
    """
    steps = max((len(view.running) for view in views), default=1)
    tallest = max((slab.size for view in views for slab in view.slabs), default=1)
    across = _range(0, max(1, steps))
    up = _range(0, max(1, tallest) / paint.scale * 1.02)
    highest = max((int(view.running.max()) for view in views), default=1)
    live = _range(0, max(1, highest, bound) / paint.scale * 1.08)
    return [
        [
            *(
                _packing(paint, view, slab, across, up, f"packing-{number}-{place}")
                for place, slab in enumerate(view.slabs)
            ),
            _live_bytes(paint, view, bound, across, live, f"live-{number}"),
        ]
        for number, view in enumerate(views)
    ]


def _range(low: float, high: float) -> Range1d:
    from bokeh.models import Range1d

    return Range1d(low, high, bounds=(low, high))


def _packing(
    paint: Painting, view: View, slab: Slab, across: Range1d, up: Range1d, name: str
) -> figure:
    from bokeh.models import HoverTool, Span, WheelZoomTool

    slab, _ = thinned(view, slab)
    fig = _figure(name, 420, (across, up), ("", f"address ({paint.unit})"))
    fig.toolbar.active_scroll = fig.select_one(WheelZoomTool)
    fig.add_layout(
        Span(location=view.peak_step + 0.5, dimension="height", line_color=PEAK, line_width=1)
    )
    quads = fig.quad(
        left="left",
        right="right",
        bottom="bottom",
        top="top",
        source=_rectangles(paint, view, slab),
        name=f"{name}-rects",
        fill_color={"field": "by_size"},
        line_color="#3b4046",
        line_alpha=0.5 if len(slab.buffers) < _MANY else 0.2,
        line_width=0.5,
        hover_line_color=PEAK,
        hover_line_alpha=1.0,
        hover_line_width=2.5,
        hover_fill_color={"field": "by_size"},
        selection_line_color=PEAK,
        selection_line_alpha=1.0,
        selection_line_width=2.5,
        nonselection_fill_alpha=0.25,
        nonselection_line_alpha=0.1,
    )
    fig.add_tools(HoverTool(renderers=[quads], tooltips=_BUFFER_TOOLTIP, attachment="vertical"))
    return fig


_TOOLTIP_STYLE = "max-width:26rem;overflow-wrap:anywhere;font:13px/1.4 system-ui,sans-serif"
_BUFFER_TOOLTIP = (
    f'<div style="{_TOOLTIP_STYLE}"><b>@name</b> &nbsp;@bytes<br>'
    "from @producer<br>live at @lives<br>at @place</div>"
)
_STEP_TOOLTIP = f'<div style="{_TOOLTIP_STYLE}"><b>@live</b><br>@at</div>'


def _rectangles(paint: Painting, view: View, slab: Slab) -> Any:
    from bokeh.models import ColumnDataSource

    graph, ids = paint.graph, slab.buffers.tolist()
    low, high = slab.offset, slab.offset + slab.bytes
    return ColumnDataSource(
        {
            "left": slab.start,
            "right": slab.end,
            "bottom": low / paint.scale,
            "top": high / paint.scale,
            "by_size": [paint.by_size[b] for b in ids],
            "by_kind": [paint.by_kind[b] for b in ids],
            "buffer": ids,
            "name": [readable(graph.buffers[b].name) for b in ids],
            "bytes": [both(graph.buffers[b].size) for b in ids],
            "producer": [maker(graph, b) for b in ids],
            "lives": [lifetime(graph, view, b) for b in ids],
            "place": [
                f"bytes {a:,} to {b:,}" for a, b in zip(low.tolist(), high.tolist(), strict=True)
            ],
        }
    )


def _live_bytes(
    paint: Painting, view: View, bound: int, across: Range1d, up: Range1d, name: str
) -> figure:
    from bokeh.models import ColumnDataSource, HoverTool, Span

    fig = _figure(name, 190, (across, up), ("step", f"live bytes ({paint.unit})"))
    start, end, live = bars(view.running)
    height = live / paint.scale
    edges, tops = np.append(start, end[-1]), np.append(height, height[-1])
    fig.varea_step(x=edges, y1=0, y2=tops, step_mode="after", fill_color=LIVE, fill_alpha=0.3)
    fig.step(x=edges, y=tops, mode="after", line_color=LIVE, line_width=1.5)
    fig.add_layout(
        Span(
            location=bound / paint.scale,
            dimension="width",
            line_color=BOUND,
            line_dash="dashed",
            line_width=2,
        )
    )
    at = [
        _step_text(paint.graph, view, a, b)
        for a, b in zip(start.tolist(), end.tolist(), strict=True)
    ]
    columns = {"left": start, "right": end, "top": height, "at": at}
    source = ColumnDataSource({**columns, "live": [both(x) for x in live.tolist()]})
    hidden = fig.quad(
        left="left",
        right="right",
        bottom=0,
        top="top",
        source=source,
        alpha=0.0,
        hover_fill_color=LIVE,
        hover_fill_alpha=0.6,
        hover_line_alpha=0.0,
    )
    fig.add_tools(HoverTool(renderers=[hidden], tooltips=_STEP_TOOLTIP, mode="vline"))
    peak = int(view.running[view.peak_step]) / paint.scale
    fig.scatter([view.peak_step + 0.5], [peak], size=9, color=PEAK, line_color="#ffffff")
    return fig


def _step_text(graph: Graph, view: View, start: int, end: int) -> str:
    if end - start > 1 or not graph.ops:
        return f"steps {start:,} to {end - 1:,}"
    return f"step {start:,}, while op {readable(graph.ops[view.plan.order[start]].name)} runs"


def _figure(
    name: str, height: int, ranges: tuple[Range1d, Range1d], labels: tuple[str, str]
) -> figure:
    """Return an empty figure, neutral to a white and to a black page."""
    from bokeh.plotting import figure

    fig = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        x_range=ranges[0],
        y_range=ranges[1],
        x_axis_label=labels[0],
        y_axis_label=labels[1],
        tools="pan,box_zoom,wheel_zoom,reset,save",
        active_scroll=None,
        toolbar_location="right",
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=INK,
        outline_line_alpha=0.5,
        min_border_left=70,
    )
    fig.toolbar.logo = None
    fig.axis.axis_label_text_font_style = "normal"
    for part in ("axis_label_text", "major_label_text", "axis_line", "major_tick_line"):
        setattr(fig.axis, f"{part}_color", INK)
    fig.axis.minor_tick_line_color = None
    fig.grid.grid_line_color = INK
    fig.grid.grid_line_alpha = 0.2
    return fig


def progress_figure(trace: Sequence[Event], unit: str, scale: int) -> figure:
    """Return incumbent and bound over the time of the search."""
    from bokeh.models import ColumnDataSource, HoverTool

    seconds = np.array([event.seconds for event in trace])
    last = float(seconds[-1]) * 1.05 + 1e-4
    values = [x for e in trace for x in (e.incumbent, e.bound) if x]
    low, high = min(values, default=0) / scale, max(values, default=1) / scale
    room = max((high - low) * 0.08, high * 0.002)
    across, up = _range(0, last), _range(low - room, high + room)
    fig = _figure("progress", 220, (across, up), ("seconds", unit))
    for what, colour, rows in (
        ("plan", LIVE, [(s, e.incumbent, e.source) for s, e in zip(seconds, trace, strict=True)]),
        ("bound", BOUND, [(s, e.bound, e.source) for s, e in zip(seconds, trace, strict=True)]),
    ):
        found = [(s, value, source) for s, value, source in rows if value]
        if not found:
            continue
        x, y, source = zip(*found, strict=True)
        height = np.array(y, float) / scale
        fig.step(
            x=[*x, last],
            y=[*height, height[-1]],
            mode="after",
            line_color=colour,
            line_width=2,
            line_dash="dashed" if what == "bound" else "solid",
        )
        columns = {"x": x, "y": height, "text": [f"{what} {both(v)}" for v in y]}
        columns["at"] = [f"{s:.3g} s: {readable(t)}" for s, t in zip(x, source, strict=True)]
        dots = fig.scatter("x", "y", size=7, color=colour, source=ColumnDataSource(columns))
        tip = f'<div style="{_TOOLTIP_STYLE}"><b>@text</b><br>@at</div>'
        fig.add_tools(HoverTool(renderers=[dots], tooltips=tip))
    return fig
