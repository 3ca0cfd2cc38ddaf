"""Interactive figures drawn by Bokeh, which zoom, pan and show tooltips without a network.

Bokeh was chosen after a measurement (3,000 rectangles, two cores, no graphics card, headless
Chromium): its page of 1.4 MB opens in 0.5 s and follows the mouse wheel within about two frames. A
Plotly page has 5 MB and takes 9 s to open. Without a graphics card, Bokeh's WebGL is slower than
its canvas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from optsched.reports.colors import BOUND, INK, LIVE, PEAK, Painting, text_on
from optsched.reports.view import Slab, View, bars, both, thinned
from optsched.runtime.limits import Event
from optsched.runtime.text import readable

if TYPE_CHECKING:
    from bokeh.models import Range1d
    from bokeh.plotting import figure

_MANY = 600
"""Number of rectangles from which borders are drawn faintly; they would cover most of the
picture."""


def plan_figures(
    paint: Painting, views: Sequence[View], bound: int, slab_bound: int
) -> list[list[figure]]:
    """Return the figures of each plan: one packing per slab, then the live bytes.

    All figures share the step axis, and all packings share the address axis, so that adjacent plans
    show the same region at the same scale. `bound` and `slab_bound` are the proved bounds on peak
    and slab in bytes; the latter is drawn for plans with a single slab.
    """
    # Shared ranges: zooming one figure zooms all of them.
    across = _range(0, max(view.length for view in views))
    tallest = max((slab.size for view in views for slab in view.slabs), default=1)
    up = _range(0, max(1, tallest) / paint.scale * 1.02)
    highest = max(1, bound, *(view.peak for view in views))
    live = _range(0, highest / paint.scale * 1.08)
    rows = []
    for number, view in enumerate(views):
        figures = []
        for place, slab in enumerate(view.slabs):
            figures.append(_packing(paint, view, slab, across, up, f"packing-{number}-{place}"))
            if len(view.slabs) == 1:
                _draw_bound(figures[-1], paint, slab_bound)
        figures.append(_live_bytes(paint, view, across, live, f"live-{number}"))
        _draw_bound(figures[-1], paint, bound)
        rows.append(figures)
    return rows


def _draw_bound(fig: figure, paint: Painting, bound: int) -> None:
    from bokeh.models import Span

    at = bound / paint.scale
    dashes = {"line_color": BOUND, "line_dash": "dashed", "line_width": 2}
    fig.add_layout(Span(location=at, dimension="width", **dashes))


def _range(low: float, high: float) -> Range1d:
    from bokeh.models import Range1d

    # Bounds, so that the figure cannot be dragged out of sight.
    return Range1d(low, high, bounds=(low, high))


def _packing(
    paint: Painting, view: View, slab: Slab, across: Range1d, up: Range1d, name: str
) -> figure:
    from bokeh.models import ColumnDataSource, HoverTool, Span, WheelZoomTool

    slab, _ = thinned(view, slab)
    fig = _figure(name, 420, (across, up), ("step", f"address ({paint.unit})"))
    # The wheel without Ctrl scrolls the page, as users expect.
    wheel = fig.select_one(WheelZoomTool)
    wheel.modifiers = {"ctrl": True}
    fig.toolbar.active_scroll = wheel
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
    # The page's script adds the names of buffers that have room at the current zoom level.
    columns: dict[str, list[str]] = {
        column: [] for column in ("x", "y", "label", "on_size", "on_kind")
    }
    fig.text(
        x="x",
        y="y",
        text="label",
        source=ColumnDataSource(columns),
        name=f"{name}-labels",
        text_color={"field": "on_size"},
        text_font_size="11px",
        text_align="center",
        text_baseline="middle",
    )
    maker = "from @producer<br>" if view.subject.makers else ""
    tip = _tooltip(f"<b>@name</b> &nbsp;@bytes<br>{maker}live at @lives<br>at @place")
    fig.add_tools(HoverTool(renderers=[quads], tooltips=tip, attachment="vertical"))
    return fig


def _tooltip(words: str) -> str:
    style = "max-width:26rem;overflow-wrap:anywhere;font:13px/1.4 system-ui,sans-serif"
    return f'<div style="{style}">{words}</div>'


def _rectangles(paint: Painting, view: View, slab: Slab) -> Any:
    from bokeh.models import ColumnDataSource

    subject, ids = view.subject, slab.buffers.tolist()
    low, high = slab.offset, slab.offset + slab.bytes
    columns = {
        "left": slab.start,
        "right": slab.end,
        "bottom": low / paint.scale,
        "top": high / paint.scale,
        "by_size": [paint.by_size[b] for b in ids],
        "by_kind": [paint.by_kind[b] for b in ids],
        "on_size": [text_on(paint.by_size[b]) for b in ids],
        "on_kind": [text_on(paint.by_kind[b]) for b in ids],
        "buffer": ids,
        "name": [readable(subject.buffers[b]) for b in ids],
        "bytes": [both(int(subject.sizes[b])) for b in ids],
        "lives": [view.lifetime(b) for b in ids],
        "place": [
            f"bytes {a:,} to {b:,}" for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ],
    }
    if subject.makers:
        columns["producer"] = [subject.makers[b] for b in ids]
    return ColumnDataSource(columns)


def _live_bytes(paint: Painting, view: View, across: Range1d, up: Range1d, name: str) -> figure:
    from bokeh.models import ColumnDataSource, HoverTool

    fig = _figure(name, 190, (across, up), ("step", f"live bytes ({paint.unit})"))
    load = bars(view.load)
    height = load.live / paint.scale
    # A step line needs the end of the last step as well.
    edges, tops = np.append(load.start, load.end[-1]), np.append(height, height[-1])
    fig.varea_step(x=edges, y1=0, y2=tops, step_mode="after", fill_color=LIVE, fill_alpha=0.3)
    fig.step(x=edges, y=tops, mode="after", line_color=LIVE, line_width=1.5)
    spans = zip(load.start.tolist(), load.end.tolist(), strict=True)
    columns = {
        "left": load.start,
        "right": load.end,
        "top": height,
        "at": [view.step_text(a) if b == a + 1 else f"steps {a:,} to {b - 1:,}" for a, b in spans],
        "live": [both(x) for x in load.live.tolist()],
    }
    # Invisible bars that show their bytes when the pointer is above them.
    hidden = fig.quad(
        left="left",
        right="right",
        bottom=0,
        top="top",
        source=ColumnDataSource(columns),
        alpha=0.0,
        hover_fill_color=LIVE,
        hover_fill_alpha=0.6,
        hover_line_alpha=0.0,
    )
    tip = _tooltip("<b>@live</b><br>@at")
    fig.add_tools(HoverTool(renderers=[hidden], tooltips=tip, mode="vline"))
    peak = int(load.live.max()) / paint.scale
    fig.scatter([view.peak_step + 0.5], [peak], size=9, color=PEAK, line_color="#ffffff")
    return fig


def _figure(
    name: str, height: int, ranges: tuple[Range1d, Range1d], labels: tuple[str, str]
) -> figure:
    """Return an empty figure whose colors suit a white and a black page."""
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
        min_border_left=62,
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
    """Return a figure of incumbent and bound over the search time."""
    from bokeh.models import ColumnDataSource, HoverTool

    last = trace[-1].seconds * 1.05 + 1e-4
    values = [x for e in trace for x in (e.incumbent, e.bound) if x]
    low, high = min(values, default=0) / scale, max(values, default=1) / scale
    # Some room above and below, even if plan and bound never moved.
    room = max((high - low) * 0.08, high * 0.002)
    across, up = _range(0, last), _range(low - room, high + room)
    fig = _figure("progress", 220, (across, up), ("seconds", unit))
    plans = [(e.seconds, e.incumbent, e.source) for e in trace if e.incumbent]
    bounds = [(e.seconds, e.bound, e.source) for e in trace if e.bound]
    for what, found, color, dash in (
        ("plan", plans, LIVE, "solid"),
        ("bound", bounds, BOUND, "dashed"),
    ):
        if not found:
            continue
        x, y, source = zip(*found, strict=True)
        height = np.array(y, float) / scale
        # The last value holds to the right edge.
        fig.step(
            x=[*x, last],
            y=[*height, height[-1]],
            mode="after",
            line_color=color,
            line_width=2,
            line_dash=dash,
        )
        columns = {"x": x, "y": height, "text": [f"{what} {both(v)}" for v in y]}
        columns["at"] = [f"{s:.3g} s: {readable(t)}" for s, t in zip(x, source, strict=True)]
        dots = fig.scatter("x", "y", size=7, color=color, source=ColumnDataSource(columns))
        tip = _tooltip("<b>@text</b><br>@at")
        fig.add_tools(HoverTool(renderers=[dots], tooltips=tip))
    return fig
