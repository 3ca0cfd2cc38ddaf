"""Pictures for papers, drawn by Matplotlib: packed slabs above, live bytes below."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from optsched.compare import Study, summarize
from optsched.reports.colors import BOUND, LIVE, PEAK, VIRIDIS, Painting, painting, text_on
from optsched.reports.view import Slab, View, bars, thinned
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, SLAB_HEIGHT, LIVE_HEIGHT, DOTS = 6.0, 3.4, 1.5, 200
"""Inches of a plan's picture, and dots per inch."""
NAMES = 200
"""Maximum number of buffers of a slab with a name on them: the largest ones."""
LETTER = (0.05, 0.1)
"""Inches per letter of a name."""

# SVG text stays text, and equal plans give equal files.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "optsched", "font.size": 9}
_DATED = {"png": ("Software",), "svg": ("Date",), "pdf": ("Creator", "Producer", "CreationDate")}
"""Metadata with a date or a version, by kind of picture."""


def picture(
    kind: str, views: Sequence[View], bound: int, slab_bound: int, label: str = "proven bound"
) -> bytes:
    """Return a picture (`png`, `svg`, `pdf`) of plans side by side, with the proved bounds."""
    import matplotlib as mpl

    data = io.BytesIO()
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes; a warning would not help users.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")
        fig = plan_figure(views, bound, slab_bound, label)
        # Without a date or a version, so that equal plans give equal files.
        metadata = dict.fromkeys(_DATED[kind])
        fig.savefig(data, format=kind, dpi=DOTS, metadata=metadata)
    return data.getvalue()


def plan_figure(
    views: Sequence[View], bound: int, slab_bound: int, label: str = "proven bound"
) -> Figure:
    """Return the figure of plans side by side, with the proved bounds in bytes."""
    paint = painting(views)
    fig = _figure(paint, views, bound, slab_bound)
    _draw_legend(fig, paint, label)
    return fig


def excess_figure(study: Study) -> Figure:
    """Return a bar per method: the geometric mean of its excess over the optimum, in percent."""
    from matplotlib.figure import Figure

    # Bars are drawn from below, so the best method comes last.
    lines = summarize(study.comparisons, study.methods)[::-1]
    fig = Figure(figsize=(WIDTH, 0.8 + 0.2 * len(lines)), layout="constrained")
    axes = fig.subplots()
    axes.barh([line.method for line in lines], [100 * line.mean_excess for line in lines])
    axes.set_xlabel("excess over the optimum (%), geometric mean")
    return fig


def _figure(paint: Painting, views: Sequence[View], bound: int, slab_bound: int) -> Figure:
    from matplotlib.figure import Figure

    rows = max(len(view.slabs) for view in views)
    heights = [*([SLAB_HEIGHT] * rows), LIVE_HEIGHT]
    fig = Figure(figsize=(WIDTH * len(views), sum(heights) + 0.9), layout="constrained")
    grid = fig.subplots(
        rows + 1,
        len(views),
        squeeze=False,
        sharex=True,
        sharey="row",
        gridspec_kw={"height_ratios": heights},
    )
    tallest = max((slab.size for view in views for slab in view.slabs), default=1)
    highest = max(bound, *(view.peak for view in views))
    for column, view in enumerate(views):
        for row, axes in enumerate(grid[:-1, column]):
            axes.set_visible(row < len(view.slabs))
            if row < len(view.slabs):
                axes.set_xlim(0, view.length)
                axes.set_ylim(0, max(tallest, 1) / paint.scale * 1.02)
                _draw_slab(axes, paint, view, view.slabs[row])
                if len(view.slabs) == 1:
                    _draw_bound(axes, paint, slab_bound)
        grid[-1, column].set_ylim(0, max(highest, 1) / paint.scale * 1.08)
        _draw_live(grid[-1, column], paint, view, bound)
    for axes in grid[:-1, 0]:
        axes.set_ylabel(f"address ({paint.unit})")
    grid[-1, 0].set_ylabel(f"live ({paint.unit})")
    return fig


def _draw_slab(axes: Axes, paint: Painting, view: View, slab: Slab) -> None:
    from matplotlib.collections import PolyCollection

    pool = f", pool {slab.pool}" if slab.pool else ""
    name = readable(f"{view.name}{pool}", 60)
    whole, (slab, _) = slab, thinned(view, slab)
    drawn, count = len(slab.buffers), len(whole.buffers)
    part = f" ({drawn:,} of {count:,} buffers drawn)" if drawn < count else ""
    title = f"{name}: slab {format_bytes(slab.size)}{part}"
    axes.set_title(title, parse_math=False, fontsize=10)
    low, high = slab.offset / paint.scale, (slab.offset + slab.bytes) / paint.scale
    left, right = slab.start, slab.end
    corners: Any = np.stack(
        [np.stack([x, y], 1) for x, y in ((left, low), (left, high), (right, high), (right, low))],
        axis=1,
    )
    colors: Any = [paint.by_size[b] for b in slab.buffers.tolist()]
    axes.add_collection(
        PolyCollection(corners, facecolors=colors, edgecolors="#00000055", linewidths=0.2)
    )
    axes.axvline(view.peak_step + 0.5, color=PEAK, linewidth=0.7)
    _draw_names(axes, paint, view, slab)


def _draw_names(axes: Axes, paint: Painting, view: View, slab: Slab) -> None:
    """Write names on the largest buffers that have enough room."""
    across = 0.85 * WIDTH / view.length
    # What the axis spans, in inches: names must fit into rectangles on paper.
    up = 0.85 * SLAB_HEIGHT / (axes.get_ylim()[1] * paint.scale)
    area = slab.bytes.astype(float) * (slab.end - slab.start)
    for i in np.argsort(-area, kind="stable")[:NAMES].tolist():
        wide, high = (slab.end[i] - slab.start[i]) * across, slab.bytes[i] * up
        b = int(slab.buffers[i])
        name = readable(view.subject.buffers[b], 40)
        # Letters are wider than they are high at this size.
        if wide > LETTER[0] * (len(name) + 1) and high > LETTER[1]:
            axes.text(
                float(slab.start[i] + slab.end[i]) / 2,
                float(2 * slab.offset[i] + slab.bytes[i]) / 2 / paint.scale,
                name,
                fontsize=6,
                color=text_on(paint.by_size[b]),
                ha="center",
                va="center_baseline",
                parse_math=False,
            )


def _draw_bound(axes: Axes, paint: Painting, bound: int) -> None:
    axes.axhline(bound / paint.scale, color=BOUND, linestyle="--", linewidth=1)


def _draw_live(axes: Axes, paint: Painting, view: View, bound: int) -> None:
    load = bars(view.load)
    edges = np.append(load.start, load.end[-1])
    axes.stairs(load.live / paint.scale, edges, fill=True, color=LIVE, alpha=0.3)
    axes.stairs(load.live / paint.scale, edges, color=LIVE, linewidth=0.9, baseline=None)
    _draw_bound(axes, paint, bound)
    peak = int(load.live.max())
    axes.plot([view.peak_step + 0.5], [peak / paint.scale], "o", color=PEAK, markersize=3.5)
    # The legend says which plans the bound is about.
    axes.set_title(
        f"peak {format_bytes(peak)}, bound {format_bytes(bound)}", fontsize=9, loc="left"
    )
    axes.set_xlabel("step")


def _draw_legend(fig: Figure, paint: Painting, label: str) -> None:
    """Draw the legend of lines and colors below the pictures."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    largest = f"buffer of {format_bytes(paint.largest)}"
    ends = [(VIRIDIS[0], f"{format_bytes(paint.darkest)} or less"), (VIRIDIS[-1], largest)]
    handles = [
        Line2D([], [], color=LIVE, label="live bytes"),
        Line2D([], [], color=BOUND, linestyle="--", label=label),
        Line2D([], [], color=PEAK, marker="o", markersize=3.5, label="peak"),
        *(Patch(color=shade, label=text) for shade, text in ends[paint.darkest >= paint.largest :]),
    ]
    fig.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), fontsize=7, frameon=False
    )
