"""Charts of a comparison as HTML, without a library: performance profiles and savings.

Labels are HTML beside a picture that stretches, as in :mod:`optsched.reports.slab_figure`, so that
they keep their size on a phone. Lines and labels have the color of the text around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

from optsched.compare import OUR_METHOD, Study, profile
from optsched.model.saving import Saving, change
from optsched.reports.colors import KINDS
from optsched.reports.slab_figure import HEIGHT, WIDTH
from optsched.reports.tables import safe
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import counted

STYLE = """
.curves path{fill:none;stroke-width:2.5;vector-effect:non-scaling-stroke}
.bars{width:100%;max-width:60rem}.bars td{border:0;vertical-align:middle}
.bars td:first-child{min-width:min(14rem,24vw)}
.bars .bar{width:100%;min-width:3rem}.bars td:last-child{white-space:nowrap}
.bars i{display:block;height:.8em;border-radius:.15em;background:#8886}
.bars i i{background:var(--bound)}
"""
MOST_FACTOR = 4.0
"""Factor at the right end of a profile."""
POINTS = 200
"""Number of factors at which a curve is drawn."""
DASHES = ("", "9 4", "2 4", "12 4 2 4")
"""Patterns of lines, beside colors, so that curves are told apart without color."""


def profile_chart(study: Study, shown: Sequence[str]) -> str:
    """Return the performance profile of methods as curves; our own method is drawn as well."""
    # At most one curve per color of the palette: a second use would mislead.
    names = list(dict.fromkeys([OUR_METHOD, *shown]))[: len(KINDS)]
    # Evenly spaced on a logarithmic axis: 1, 1.007, 1.014, ..., 4.
    taus = [MOST_FACTOR ** (i / POINTS) for i in range(POINTS + 1)]
    found = profile(study.comparisons, study.methods, taus)
    curves = {name: found[name] for name in names if name in found}
    paths, keys = "", ""
    for number, (name, shares) in enumerate(curves.items()):
        color, dash = KINDS[number], DASHES[number % len(DASHES)]
        paths += f'<path d="{_steps(shares)}" stroke="{color}" stroke-dasharray="{dash}"/>'
        style = f"border-top-color:{color};color:{color}"
        dashed = " dashed" if dash else ""
        keys += f'<li><i class="line{dashed}" style="{style}"></i>{safe(name)}</li>'
    label = "Share of graphs on which each method is within a factor of the optimum"
    rest = len(set(found) - set(names))
    more = f"<li>{counted(rest, 'more method')} in the figures below</li>" if rest else ""
    return (
        f'<figure class="slab curves"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role=img '
        f'preserveAspectRatio="none" aria-label="{label}">{paths}</svg>{_axes()}</figure>'
        f"<ul class=key>{keys}{more}</ul>"
    )


def _steps(shares: Sequence[float]) -> str:
    """Return a path: the share rises at the factor at which a graph is reached."""
    points = [(WIDTH * i / POINTS, HEIGHT * (1 - share)) for i, share in enumerate(shares)]
    path, last = f"M0 {points[0][1]:.1f}", points[0][1]
    for x, y in points[1:]:
        # Only steps are written, which keeps the page small: most of the 200 points are level.
        if y != last:
            path, last = f"{path}H{x:.1f}V{y:.1f}", y
    return f"{path}H{WIDTH}"


def _axes() -> str:
    rows = "".join(
        f'<span style="bottom:{share}%">{share} %</span>' for share in (0, 25, 50, 75, 100)
    )
    factors = [1, 1.1, 1.5, 2]
    columns = "".join(
        f'<span style="left:{100 * log2(factor) / log2(MOST_FACTOR):.1f}%">{factor:g}</span>'
        for factor in factors
    )
    return (
        f"<figcaption>share of graphs</figcaption><div class=high>{rows}</div>"
        f'<div class=wide>{columns}<span style="left:100%">times the optimum</span></div>'
    )


def saving_bars(found: Mapping[str, Saving], most: int) -> str:
    """Return the graphs that save most as bars: bytes before, and the part that is left."""
    ranked = sorted(found.items(), key=lambda item: -(item[1].saved or 0))
    rows = [(name, saving) for name, saving in ranked[:most] if (saving.saved or 0) > 0]
    top = max((saving.before or 0 for _, saving in rows), default=1) or 1
    return (
        '<table class=bars aria-label="Largest savings">'
        + "".join(_bar(*row, top) for row in rows)
        + "</table>"
    )


def _bar(name: str, saving: Saving, top: int) -> str:
    before, after = saving.before or 0, saving.after or 0
    # The gray bar is `before`, relative to the largest; the colored part of it is `after`.
    wide, left = 100 * before / top, 100 * after / max(1, before)
    text = f"{format_bytes(before)} to {format_bytes(after)} ({change(before, after)})"
    return (
        f"<tr><td class=t>{safe(name)}</td><td class=bar>"
        # Half a percent is still visible.
        f'<i style="width:{max(0.5, wide):.1f}%"><i style="width:{left:.1f}%"></i></i></td>'
        f"<td>{safe(text)}</td></tr>"
    )
