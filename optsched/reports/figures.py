"""Pictures of a report: packed slabs, live bytes and searches as SVG, which a script may zoom.

A picture stretches to the width of its place; its axes are HTML, as in
:mod:`optsched.reports.slab_figure`. Without the page's script a browser shows the names of buffers
as tooltips; the script (`assets/page.js`) zooms and moves all pictures together by their `viewBox`,
and writes names on buffers that have room for them. No library draws anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optsched.reports.colors import BOUND, LIVE, PEAK, Painting
from optsched.reports.slab_figure import HEIGHT, WIDTH, axes
from optsched.reports.tables import safe
from optsched.reports.view import Slab, View, bars, both, thinned
from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import Event

_MANY = 600
"""Number of rectangles from which borders are drawn faintly; they would cover most of the
picture."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """Quantities at the ends of a picture's axes, in which places are given."""

    right: float
    top: float
    scale: float
    """Quantity of a label's 1 on the upward axis, such as 1,024 for KiB."""
    bottom: float = 0.0
    zoom: str = ""
    """Axes that the script may zoom: `xy`, `x` or none."""

    def x(self, value: float) -> str:
        return f"{WIDTH * value / self.right:.6g}"

    def y(self, value: float) -> str:
        return f"{HEIGHT * (self.top - value) / (self.top - self.bottom):.6g}"

    def drawn(self, name: str, label: str, inside: str, across: str = "step") -> str:
        """Return the figure of what is drawn inside."""
        low, high = self.bottom / self.scale, self.top / self.scale
        # A picture that keys move is a control, and can be reached by the Tab key.
        role = "role=application tabindex=0 data-moves" if self.zoom == "xy" else "role=img"
        return (
            f'<figure class="slab plot" id={name} data-zoom="{self.zoom}" '
            f'data-across="0 {self.right:g}" data-up="{low:g} {high:g}">'
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio=none {role} '
            f'aria-label="{label}">{inside}</svg>'
            f"{axes(label, (0, self.right), (low, high), across)}</figure>"
        )

    def line(self, points: Iterable[tuple[float, float]], style: str) -> str:
        """Return a line of steps through points, each the beginning of a level."""
        path = "".join(f"H{self.x(x)}V{self.y(y)}" for x, y in points)
        return f'<path d="M{path[1:].replace("V", " ", 1)}" fill=none {style} />' if path else ""

    def across(self, value: float, title: str, style: str) -> str:
        """Return a horizontal line."""
        path = f"M0 {self.y(value)}H{WIDTH}"
        return f'<path d="{path}" fill=none {style}><title>{title}</title></path>'

    def dot(self, x: float, y: float, color: str, title: str) -> str:
        """Return a dot, round however the picture is stretched, with a tooltip."""
        at = f'd="M{self.x(x)} {self.y(y)}h0" class=dot stroke="{color}"'
        return f"<path {at}><title>{title}</title></path>"


def plan_figures(
    paint: Painting, views: Sequence[View], bound: int, slab_bound: int
) -> list[list[str]]:
    """Return the figures of each plan: one packing per slab, then the live bytes.

    All figures share the step axis, and all packings share the address axis, so that adjacent plans
    show the same region at the same scale. `bound` and `slab_bound` are the proved bounds on peak
    and slab in bytes; the latter is drawn for plans with a single slab.
    """
    length = max(1, *(view.length for view in views))
    tallest = 1.02 * max(1, *(slab.size for view in views for slab in view.slabs), 1)
    highest = 1.08 * max(1, bound, *(view.peak for view in views))
    packing = _Frame(length, tallest, paint.scale, zoom="xy")
    live = _Frame(length, highest, paint.scale, zoom="x")
    rows = []
    for number, view in enumerate(views):
        own = slab_bound if len(view.slabs) == 1 else None
        rows.append(
            [
                _packing(packing, paint, view, slab, own, f"packing-{number}-{place}")
                for place, slab in enumerate(view.slabs)
            ]
        )
        rows[-1].append(_live_bytes(live, paint, view, bound, f"live-{number}"))
    return rows


def _packing(
    frame: _Frame, paint: Painting, view: View, whole: Slab, bound: int | None, name: str
) -> str:
    slab, _ = thinned(view, whole)
    pool = f" in pool {whole.pool}" if whole.pool else ""
    label = f"Packed slab{pool} of {format_bytes(whole.size)}: steps to the right, addresses up"
    columns = (slab.buffers, slab.start, slab.end, slab.offset, slab.bytes)
    faint = " class=faint" if len(slab.buffers) >= _MANY else ""
    inside = f"<g{faint}>"
    for b, start, end, low, size in zip(*(row.tolist() for row in columns), strict=True):
        x, y, wide = frame.x(start), frame.y(low + size), frame.x(end - start)
        high = f"{HEIGHT * size / frame.top:.6g}"
        inside += (
            f'<rect x={x} y={y} width={wide} height={high} fill="{paint.by_size[b]}" '
            f'data-kind="{paint.by_kind[b]}" data-buffer={b}>'
            f"<title>{_words(view, b, low, low + size)}</title></rect>"
        )
    at = frame.x(view.peak_step + 0.5)
    inside += f'</g><path d="M{at} 0V{HEIGHT}" stroke="{PEAK}"/>'
    if bound is not None:
        inside += _bound(frame, bound)
    return frame.drawn(name, safe(f"{label} ({paint.unit})"), inside)


def _words(view: View, b: int, low: int, high: int) -> str:
    """Return what is known of a buffer, a line each: name, bytes, maker, live range, place."""
    subject = view.subject
    lines = [safe(subject.buffers[b]), both(int(subject.sizes[b]))]
    lines += [safe(f"from {subject.makers[b]}")] if subject.makers else []
    return "\n".join([*lines, f"live at {view.lifetime(b)}", f"at bytes {low:,} to {high:,}"])


def _bound(frame: _Frame, bound: int) -> str:
    style = f'stroke="{BOUND}" stroke-width=2 stroke-dasharray="7 5"'
    return frame.across(bound, f"proved bound: {both(bound)}", style)


def _live_bytes(frame: _Frame, paint: Painting, view: View, bound: int, name: str) -> str:
    load = bars(view.load)
    spans = list(zip(load.start.tolist(), load.end.tolist(), load.live.tolist(), strict=True))
    inside = ""
    for start, end, live in spans:
        at = view.step_text(start) if end == start + 1 else f"steps {start:,} to {end - 1:,}"
        y, wide = frame.y(live), frame.x(end - start)
        inside += (
            f"<rect class=bar x={frame.x(start)} y={y} width={wide} height={HEIGHT}>"
            f"<title>{both(live)}\n{safe(at)}</title></rect>"
        )
    # A line of steps needs the end of the last step as well.
    points = [(start, live) for start, _, live in spans] + [(spans[-1][1], spans[-1][2])]
    inside += frame.line(points, f'stroke="{LIVE}" stroke-width=1.5') + _bound(frame, bound)
    peak = int(load.live.max())
    inside += frame.dot(view.peak_step + 0.5, peak, PEAK, f"peak: {both(peak)}")
    label = f"Live bytes while each step runs; the peak is {format_bytes(view.peak)}"
    return frame.drawn(name, safe(f"{label} ({paint.unit})"), inside)


def progress_figure(trace: Sequence[Event], unit: str, scale: int, name: str) -> str:
    """Return a figure of incumbent and bound over the search time."""
    last = trace[-1].seconds * 1.05 + 1e-4
    values = [x for e in trace for x in (e.incumbent, e.bound) if x] or [0]
    # Some room above and below, even if plan and bound never moved.
    room = max((max(values) - min(values)) * 0.08, max(values) * 0.002, 1e-3)
    frame = _Frame(last, max(values) + room, scale, min(values) - room)
    plans = [(e.seconds, e.incumbent, e.source) for e in trace if e.incumbent]
    bounds = [(e.seconds, e.bound, e.source) for e in trace if e.bound]
    inside = ""
    for what, found, color, dash in (
        ("plan", plans, LIVE, ""),
        ("bound", bounds, BOUND, 'stroke-dasharray="7 5"'),
    ):
        # The last value holds to the right edge.
        points = [(seconds, value) for seconds, value, _ in found]
        points += [(last, found[-1][1])] if found else []
        inside += frame.line(points, f'stroke="{color}" stroke-width=2 {dash}')
        for seconds, value, source in found:
            words = f"{what} {both(value)}\n{seconds:.3g} s: {safe(source)}"
            inside += frame.dot(seconds, value, color, words)
    label = f"Best plan (line) and proven bound (dashes) over the seconds of the search ({unit})"
    return frame.drawn(name, label, inside, "seconds")
