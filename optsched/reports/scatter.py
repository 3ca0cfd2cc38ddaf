"""A picture of points in two quantities: SVG with labeled axes, in the color of the page.

Upwards the axis starts at 0; to the right it starts near the first point if all lie far from 0.

Example: a plan of 10 MB with 3 % extra compute is a dot, the bound at its budget a tick.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from optsched.reports.slab_figure import ticks
from optsched.reports.tables import safe

_WIDTH, _HEIGHT, _EDGE = 680, 340, 56


class Shape(StrEnum):
    """Shape of a mark."""

    DOT = "dot"
    TICK = "tick"
    CROSS = "cross"
    WALL = "wall"
    """A dashed line up from a place on the axis: nothing lies on its left."""


class Mark(NamedTuple):
    """A mark at a place, with a word beside it."""

    shape: Shape
    x: float
    y: float = 0
    word: str = ""


class Axis(NamedTuple):
    """An axis: the quantity at its end, the name in words, and the quantity of a label's 1.

    An axis of bytes that is labeled in KiB has the scale 1,024.
    """

    end: float
    name: str
    scale: float = 1.0


def scatter(marks: Iterable[Mark], across: Axis, up: Axis) -> str:
    """Return an SVG of marks; `end` is at least 1."""
    marks = tuple(marks)
    least = min((mark.x for mark in marks), default=0)
    # Points that fill the last tenth of an axis from 0 could not be told apart.
    start = 0.95 * least if least > 0.5 * across.end else 0.0
    parts = [_drawn(mark, (start, across.end), up.end) for mark in marks]
    lines = f"M{_EDGE} {_EDGE // 2}V{_HEIGHT - _EDGE}H{_WIDTH - _EDGE // 2}"
    parts.append(f'<path d="{lines}" fill="none" stroke="currentColor"/>')
    # Names of axes have lines of their own, so that a label may stand at the end.
    beyond = across.end + 0.07 * (across.end - start)
    for value in ticks(start / across.scale, beyond / across.scale, 6):
        at = f'x="{_x(value * across.scale, (start, across.end))}" y="{_HEIGHT - _EDGE + 18}"'
        parts.append(f'<text {at} text-anchor="middle">{value:,g}</text>')
    for value in ticks(0, 1.07 * up.end / up.scale, 4):
        at = f'x="{_EDGE - 8}" y="{_y(value * up.scale, up.end) + 4:.1f}"'
        parts.append(f'<text {at} text-anchor="end">{value:,g}</text>')
    end = f'x="{_WIDTH - _EDGE // 2}" y="{_HEIGHT - 14}" text-anchor="end"'
    parts.append(f"<text {end}>{safe(across.name)}</text>")
    parts.append(f'<text x="8" y="16">{safe(up.name)}</text>')
    # Text without a color of its own would be black on a dark page.
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" style="width:100%;max-width:{_WIDTH}px" '
        f'font-size="13" fill="currentColor" xmlns="http://www.w3.org/2000/svg" '
        f'aria-label="{safe(f"{up.name} against {across.name}")}">{"".join(parts)}</svg>'
    )


def _x(value: float, ends: tuple[float, float]) -> float:
    start, end = ends
    return round(_EDGE + (_WIDTH - 2 * _EDGE) * (value - start) / (end - start), 1)


def _y(value: float, end: float) -> float:
    return round(_HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * value / end, 1)


def _drawn(mark: Mark, ends: tuple[float, float], top: float) -> str:
    x, y = _x(mark.x, ends), _y(mark.y, top)
    word = ""
    if mark.word:
        # Towards the middle, so that a word at an edge is not cut off.
        anchor, side = ("end", -6) if x > _WIDTH / 2 else ("start", 6)
        at = f'x="{round(x + side, 1)}" y="{round(y - 6, 1)}" text-anchor="{anchor}"'
        word = f"<text {at}>{safe(mark.word)}</text>"
    match mark.shape:
        case Shape.CROSS:
            return f'<text x="{x}" y="{y - 2:.1f}" text-anchor="middle">&#215;</text>{word}'
        case Shape.TICK:
            return f'<path d="M{x - 5} {y}H{x + 5}" stroke="currentColor"/>{word}'
        case Shape.WALL:
            line = f"M{x} {_EDGE // 2}V{_HEIGHT - _EDGE}"
            return f'<path d="{line}" stroke="currentColor" stroke-dasharray="4 4"/>{word}'
        case Shape.DOT:
            return f'<circle cx="{x}" cy="{y}" r="3.5"/>{word}'
