"""HTML figure of a packed slab with labeled axes, without a library and without a script.

The picture stretches to the width of the page, and the labels keep their size: the rectangles are
an SVG without text, and the labels of the axes are HTML beside it. On a phone both are readable.
Colors of lines and labels are those of the text around the figure, so it suits a dark page.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optsched.model.arrays import IntArray
from optsched.reports.colors import BOUND, VIRIDIS, by_size, shades
from optsched.reports.tables import safe
from optsched.reports.view import DRAWN, View, bars, both, thinned
from optsched.runtime.bytes import format_bytes, unit_of

WIDTH, HEIGHT = 1000, 400
"""Units of the picture, which is stretched to its place."""
STYLE = """
.slab{display:grid;grid-template:auto 1fr auto/auto 1fr;gap:.15rem .5rem;margin:.5rem 0;
font:.8rem/1.2 system-ui,sans-serif}
.slab svg{grid-area:2/2;width:100%;height:clamp(12rem,32vw,24rem);display:block;
border:solid #8888;border-width:0 0 1px 1px;color:inherit}
.slab .high{grid-area:2/1;position:relative;min-width:3em}
.slab .high span{position:absolute;right:0;white-space:nowrap;transform:translateY(50%)}
.slab .wide{grid-area:3/2;position:relative;height:1.4em}
.slab .wide span{position:absolute;white-space:nowrap;transform:translateX(-50%)}
.slab .wide span:last-of-type{transform:translateX(-100%)}
.slab figcaption{grid-area:1/1/2/3;padding-bottom:.5em}
.slab rect:hover,.slab rect:focus{stroke:currentColor;stroke-width:3}
"""
"""Style of the figure; :func:`slab_figure` does not repeat it."""


def slab_figure(shown: View, bound: int, *, most: int = DRAWN, named: bool = True) -> str:
    """Return the packed slab of a plan; slabs of several pools are stacked.

    `shown`: the plan. `bound`: proved bound on the slab in bytes; drawn as a dashed line. `most`:
    maximum number of rectangles per pool; the others are left out as in :func:`thinned`. `named`:
    give each rectangle a tooltip with name, bytes, steps and offset. Without them a figure of the
    same buffers has a fifth of the size.
    """
    top = max(1, shown.slab)
    steps = counted_steps(shown)
    label = f"{shown.name}: slab of {format_bytes(shown.slab)} over {steps}"
    drawn = _rectangles(shown, top, most) if named else _shades(shown, top, most)
    # SVG counts downwards, addresses count upwards.
    line = HEIGHT * (1 - bound / top)
    return (
        f'<figure class=slab><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'role=img aria-label="{safe(label)}"><g stroke="#8886" stroke-width=".5">'
        f"{''.join(drawn)}</g>{_live(shown, top, most)}"
        f'<path d="M0 {line:.1f}H{WIDTH}" stroke="{BOUND}" stroke-width="2" fill="none" '
        f'stroke-dasharray="7 5" vector-effect="non-scaling-stroke"><title>proved bound: '
        f"{both(bound)}</title></path></svg>{_axes(shown, top)}</figure>"
    )


def counted_steps(shown: View) -> str:
    """Return the number of steps with its noun."""
    return f"{shown.length:,} step{'' if shown.length == 1 else 's'}"


def _corners(shown: View, top: int, most: int) -> Iterator[tuple[IntArray, list[str]]]:
    """Yield per pool the buffer ids of its rectangles, and left, top, width and height as text."""
    across, up, ground = WIDTH / max(1, shown.length), HEIGHT / top, 0
    # Each pool begins where the one before ended.
    for whole in shown.slabs:
        slab, _ = thinned(shown, whole, most)
        x, y = slab.start * across, HEIGHT - (ground + slab.offset + slab.bytes) * up
        wide, high = (slab.end - slab.start) * across, slab.bytes * up
        # A tenth of a unit is less than a pixel; more digits would double the file.
        corners = np.stack([x, y, wide, high], 1).round(1).tolist()
        yield slab.buffers, [" ".join(f"{value:g}" for value in row) for row in corners]
        ground += whole.size


def _rectangles(shown: View, top: int, most: int) -> Iterator[str]:
    sizes = shown.subject.sizes
    colors = by_size(sizes)
    offsets = {
        int(b): int(o) for s in shown.slabs for b, o in zip(s.buffers, s.offset, strict=True)
    }
    for ids, corners in _corners(shown, top, most):
        for b, row in zip(ids.tolist(), corners, strict=True):
            x, y, wide, high = row.split()
            label = f"{both(int(sizes[b]))}, {shown.lifetime(b)}, offset {offsets[b]:,}"
            yield (
                f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" fill="{colors[b]}">'
                f"<title>{safe(shown.subject.buffers[b])}: {safe(label)}</title></rect>"
            )


def _shades(shown: View, top: int, most: int) -> Iterator[str]:
    """Yield one path per shade with all its rectangles."""
    paths = [""] * len(VIRIDIS)
    # The scale of the pictures with colors per buffer.
    shade = (shades(shown.subject.sizes) * (len(VIRIDIS) - 1)).round().astype(int)
    for ids, corners in _corners(shown, top, most):
        for b, row in zip(ids.tolist(), corners, strict=True):
            x, y, wide, high = row.split()
            # As part of one long path a rectangle takes fewer bytes than as an element.
            paths[shade[b]] += f"M{x} {y}h{wide}v{high}h-{wide}z"
    return (f'<path fill="{VIRIDIS[i]}" d="{path}"/>' for i, path in enumerate(paths) if path)


def _live(shown: View, top: int, most: int) -> str:
    """Return the live bytes as a line: where it touches the top, the slab is full."""
    load = bars(shown.load, min(WIDTH, most))
    x = np.stack([load.start, load.end], 1).ravel() * (WIDTH / max(1, shown.length))
    y = HEIGHT - np.repeat(load.live, 2) * (HEIGHT / top)
    points = " ".join(f"{a:g},{b:g}" for a, b in zip(x.round(1), y.round(1), strict=True))
    return (
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.2" '
        'vector-effect="non-scaling-stroke"/>'
    )


def _axes(shown: View, top: int) -> str:
    unit, scale = unit_of(top)
    return axes(f"address ({unit})", (0, max(1, shown.length)), (0, top / scale))


def axes(
    caption: str, across: tuple[float, float], up: tuple[float, float], name: str = "step"
) -> str:
    """Return caption and labels of a picture from the quantities at the ends of its axes."""
    rows = "".join(
        f'<span style="bottom:{100 * (value - up[0]) / (up[1] - up[0]):.1f}%">{value:,g}</span>'
        for value in ticks(*up, 4)
    )
    columns = "".join(
        f'<span style="left:{100 * (value - across[0]) / (across[1] - across[0]):.1f}%">'
        f"{value:,g}</span>"
        for value in ticks(*across, 4)
    )
    return (
        f"<figcaption>{caption}</figcaption><div class=high>{rows}</div>"
        f'<div class=wide>{columns}<span style="left:100%">{name}</span></div>'
    )


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` + 1 round numbers of a range, with room for a label beyond the last.

    Examples
    --------
    >>> ticks(0, 9.7, 4), ticks(0, 394, 4)
    ([0.0, 2.5, 5.0, 7.5], [0.0, 100.0, 200.0, 300.0])
    """
    if high <= low:
        return [low]
    # The smallest round width with which `most` steps cover the range.
    power = 10.0 ** np.floor(np.log10((high - low) / most))
    width = next(k * power for k in (1, 2, 2.5, 5, 10) if k * power * most >= high - low)
    # A sum with 0, as the ceiling of a small negative number is -0.
    first, last = np.ceil(low / width - 1e-9) + 0.0, low + 0.93 * (high - low)
    return [float(x) for x in width * np.arange(first, last / width)]
