"""Pictures for papers, drawn by Matplotlib: packed slabs above, live bytes below."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optsched.errors import MissingDependencyError
from optsched.formats import write_bytes
from optsched.model.graph import Graph
from optsched.reports.colours import BOUND, LIVE, PEAK
from optsched.reports.figures import Painting, painting
from optsched.reports.view import Slab, View, bars, thinned
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, SLAB_HEIGHT, LIVE_HEIGHT, DOTS = 6.0, 3.4, 1.5, 200
"""Inches of a plan, and dots an inch."""

# Text stays text, and the same plan gives the same file.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "optsched", "font.size": 9}


def require_matplotlib() -> None:
    """Say in one line what to install where Matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingDependencyError("matplotlib", "report") from None


def write_picture(
    path: str | Path, kind: str, graph: Graph, views: Sequence[View], bound: int
) -> None:
    """Write plans side by side as a picture.

    Parameters
    ----------
    path
        The file; its name does not matter.
    kind
        `png` or `svg`.
    graph, views
        The graph, and its plans.
    bound
        Bytes: the proven bound on the peak.

    Raises
    ------
    MissingDependencyError
        If Matplotlib is not installed.
    """
    require_matplotlib()
    import warnings

    import matplotlib as mpl

    data = io.BytesIO()
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        # Names in scripts that the font lacks are drawn as boxes; that is no news to a user.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")
        fig = _picture(painting(graph, views), views, bound)
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        fig.savefig(data, format=kind, dpi=DOTS, metadata=metadata)
    write_bytes(path, data.getvalue())


def _picture(paint: Painting, views: Sequence[View], bound: int) -> Figure:
    from matplotlib.figure import Figure

    rows = max(len(view.slabs) for view in views)
    heights = [*([SLAB_HEIGHT] * rows), LIVE_HEIGHT]
    fig = Figure(figsize=(WIDTH * len(views), sum(heights) + 0.3), layout="constrained")
    grid = fig.subplots(
        rows + 1,
        len(views),
        squeeze=False,
        sharex=True,
        sharey="row",
        gridspec_kw={"height_ratios": heights},
    )
    for column, view in enumerate(views):
        for row, axes in enumerate(grid[:-1, column]):
            if row < len(view.slabs):
                _draw_slab(axes, paint, view, view.slabs[row], first=not column)
            else:
                axes.set_visible(False)
        _draw_live(grid[-1, column], paint, view, bound, first=not column)
    return fig


def _draw_slab(axes: Axes, paint: Painting, view: View, slab: Slab, *, first: bool) -> None:
    from matplotlib.collections import PolyCollection

    pool = f", pool {slab.pool}" if slab.pool else ""
    name = readable(f"{view.name}{pool}", 60)
    axes.set_title(f"{name}: slab {format_bytes(slab.size)}", parse_math=False, fontsize=10)
    slab, _ = thinned(view, slab)
    low, high = slab.offset / paint.scale, (slab.offset + slab.bytes) / paint.scale
    left, right = slab.start, slab.end
    corners: Any = np.stack(
        [np.stack([x, y], 1) for x, y in ((left, low), (left, high), (right, high), (right, low))],
        axis=1,
    )
    colours: Any = [paint.by_size[b] for b in slab.buffers.tolist()]
    axes.add_collection(
        PolyCollection(corners, facecolors=colours, edgecolors="#00000055", linewidths=0.2)
    )
    axes.axvline(view.peak_step + 0.5, color=PEAK, linewidth=0.7)
    axes.set_xlim(0, len(view.running))
    axes.set_ylim(0, max(slab.size / paint.scale, axes.get_ylim()[1] if not first else 0))
    if first:
        axes.set_ylabel(f"address ({paint.unit})")


def _draw_live(axes: Axes, paint: Painting, view: View, bound: int, *, first: bool) -> None:
    start, end, live = bars(view.running)
    edges = np.append(start, end[-1])
    axes.stairs(live / paint.scale, edges, fill=True, color=LIVE, alpha=0.3)
    axes.stairs(live / paint.scale, edges, color=LIVE, linewidth=0.9, baseline=None)
    axes.axhline(bound / paint.scale, color=BOUND, linestyle="--", linewidth=1)
    peak = int(view.running[view.peak_step])
    axes.plot([view.peak_step + 0.5], [peak / paint.scale], "o", color=PEAK, markersize=3.5)
    axes.set_title(
        f"peak {format_bytes(peak)}, proven bound {format_bytes(bound)}", fontsize=9, loc="left"
    )
    axes.set_ylim(0, max(bound / paint.scale, axes.get_ylim()[1]) * 1.05 or 1)
    axes.set_xlabel("step")
    if first:
        axes.set_ylabel(f"live ({paint.unit})")
