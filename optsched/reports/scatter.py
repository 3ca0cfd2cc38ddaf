"""A picture of points in two quantities: SVG with both axes from 0.

Example: a plan of 10 MB with 3 % extra compute is a dot, the bound at its budget a tick.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

_WIDTH, _HEIGHT, _EDGE = 640, 320, 48


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


def scatter(marks: Iterable[Mark], most: float, top: float, title: str, note: str) -> str:
    """Return an SVG of marks.

    Parameters
    ----------
    marks
        The marks; quantities of 0 lie on the axes.
    most, top
        Largest quantities to the right and up, at least 1.
    title, note
        Labels, already safe for HTML, at the top of the axis up and below the one to the right.
    """
    parts = [_drawn(mark, most, top) for mark in marks]
    axes = f"M{_EDGE} {_EDGE}V{_HEIGHT - _EDGE}H{_WIDTH - _EDGE}"
    parts.append(f'<path d="{axes}" fill="none" stroke="currentColor"/>')
    label = f'<text x="{_EDGE}" y="{_EDGE - 8}">{title}</text>'
    end = f'<text x="{_WIDTH - _EDGE}" y="{_HEIGHT - 16}" text-anchor="end">'
    label += f"{end}{note}</text>"
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"'
    return (
        f'<svg role="img" {size} xmlns="http://www.w3.org/2000/svg">{"".join(parts)}{label}</svg>'
    )


def _drawn(mark: Mark, most: float, top: float) -> str:
    x = round(_EDGE + (_WIDTH - 2 * _EDGE) * mark.x / most, 1)
    y = round(_HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * mark.y / top, 1)
    word = ""
    if mark.word:
        # On the left of the mark, so that a word at the right edge is not cut off.
        at = f'x="{round(x - 6, 1)}" y="{round(y - 6, 1)}" text-anchor="end"'
        word = f'<text {at} font-size="11">{mark.word}</text>'
    match mark.shape:
        case Shape.CROSS:
            return f'<text x="{x}" y="{y}" text-anchor="middle">&#215;</text>{word}'
        case Shape.TICK:
            return f'<path d="M{x - 5} {y}H{x + 5}" stroke="currentColor"/>{word}'
        case Shape.WALL:
            line = f"M{x} {_EDGE}V{_HEIGHT - _EDGE}"
            return f'<path d="{line}" stroke="currentColor" stroke-dasharray="4 4"/>{word}'
        case Shape.DOT:
            return f'<circle cx="{x}" cy="{y}" r="3.5" fill="currentColor"/>{word}'
