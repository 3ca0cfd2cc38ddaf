"""Heat maps and performance profiles as plain SVG, small enough to be kept with the sources."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

import numpy as np

from experiments.heuristic_quality.measure import GraphFigures, mean_excess
from experiments.heuristic_quality.tables import Value, fair, families, packers, slab_of, sorters

MOST = 0.6
"""The excess at which the colors of a heat map end."""
SHADES = ((255, 255, 229), (254, 217, 118), (253, 141, 60), (189, 0, 38))
"""Colors from no excess to :data:`MOST`."""
WHITE = ' fill="#fff"'
WIDTH, HEIGHT, LEFT, BELOW = 46, 20, 150, 150
"""A cell of a heat map, and room for names."""
WIDE, TALL, UP_TO = 330, 250, 0.5
"""A profile, and the excess at which it ends."""
LINES = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf")


def draw(folder: Path, found: Sequence[GraphFigures]) -> None:
    """Write all pictures: sorters and packers by family, pairs, profiles."""
    groups = families(found)
    for name, methods in (("sorters", sorters(found)), ("packers", packers(found))):
        cells = [[_mean(v, group) for group in groups.values()] for v in methods.values()]
        _write(folder / f"{name}_by_family.svg", heat_map(cells, list(methods), list(groups)))
    rows, columns = list(found[0].peaks), list(packers(found))
    cells = [[_mean(slab_of(s, p), fair(found)) for p in columns] for s in rows]
    _write(folder / "pairs.svg", heat_map(cells, rows, columns))
    both = [
        profile(methods, fair(found), what, 30 + side * (WIDE + 200))
        for side, (methods, what) in enumerate(((sorters(found), "peak"), (packers(found), "slab")))
    ]
    _write(folder / "profiles.svg", _svg(2 * (WIDE + 200), TALL + 50, "".join(both)))


def heat_map(cells: list[list[float]], rows: list[str], columns: list[str]) -> str:
    """Return mean excesses in percent, darker where they are larger."""
    shapes = []
    for i, (name, line) in enumerate(zip(rows, cells, strict=True)):
        y = i * HEIGHT + 14
        shapes.append(f'<text x="{LEFT - 6}" y="{y}" text-anchor="end">{escape(name)}</text>')
        for j, value in enumerate(line):
            x = LEFT + j * WIDTH
            shapes.append(
                f'<rect x="{x}" y="{i * HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
                f'fill="{_shade(value)}"/><text x="{x + WIDTH // 2}" y="{y}" class="n"'
                f"{WHITE if value > 0.3 else ''}>{_percent(value)}</text>"
            )
    below = len(rows) * HEIGHT + 10
    for j, name in enumerate(columns):
        x = LEFT + j * WIDTH + WIDTH // 2
        turned = f'transform="rotate(-40 {x} {below})"'
        shapes.append(f'<text x="{x}" y="{below}" text-anchor="end" {turned}>{escape(name)}</text>')
    return _svg(LEFT + len(columns) * WIDTH, below + BELOW, "\n".join(shapes))


def profile(methods: dict[str, Value], found: Sequence[GraphFigures], what: str, left: int) -> str:
    """Return which share of the graphs has at most a given excess, the best method first."""
    values = {name: np.sort([value(x) for x in found]) for name, value in methods.items()}
    # By the area above the curve within the picture.
    ranked = sorted(values, key=lambda name: float(np.minimum(values[name], UP_TO).sum()))
    places = np.linspace(0, UP_TO, 101)
    shapes = [
        f'<rect x="{left}" y="10" width="{WIDE}" height="{TALL}" fill="none" stroke="#999"/>',
        f'<text x="{left}" y="{TALL + 42}">{what}: at most this many % above the proved '
        "least; up: share of graphs</text>",
    ]
    for tick in range(6):
        x, y = left + WIDE * tick // 5, 14 + TALL - TALL * tick // 5
        shapes.append(
            f'<text x="{x}" y="{TALL + 24}" class="n">{100 * UP_TO * tick / 5:.0f}</text>'
        )
        shapes.append(f'<text x="{left - 4}" y="{y}" text-anchor="end">{tick / 5:.1f}</text>')
    for number, name in enumerate(ranked):
        # A touch to the right, so that an excess equal to a place counts there in spite of
        # rounding.
        shares = np.searchsorted(values[name], places + 1e-12, side="right") / len(found)
        style = f'stroke="{LINES[number % len(LINES)]}"'
        if number >= len(LINES):
            style += ' stroke-dasharray="4 2"'
        points = " ".join(
            f"{left + WIDE * x / UP_TO:.0f},{10 + TALL - TALL * y:.0f}"
            for x, y in _steps(places.tolist(), shares.tolist())
        )
        y = 18 + 14 * number
        x = left + WIDE + 8
        shapes.append(
            f'<polyline points="{points}" fill="none" {style}/>'
            f'<path d="M{x} {y - 4}h22" {style}/>'
            f'<text x="{x + 27}" y="{y}">{escape(name)}</text>'
        )
    return "\n".join(shapes)


def _steps(places: list[float], shares: list[float]) -> list[tuple[float, float]]:
    """Corners of a line of steps."""
    corners = [(places[0], shares[0])]
    for (_, low), (x, high) in pairwise(zip(places, shares, strict=True)):
        # Only corners are written: files stay small enough for the repository.
        if high != low:
            corners += [(x, low), (x, high)]
    return [*corners, (places[-1], shares[-1])]


def _mean(value: Value, group: Sequence[GraphFigures]) -> float:
    return mean_excess([value(x) for x in group])


def _percent(value: float) -> str:
    return f"{100 * value:.1f}" if value else "0"


def _shade(value: float) -> str:
    """Return the color of an excess: small ones differ more than large ones."""
    # A square root spreads the small excesses, where most methods lie.
    at = (min(value, MOST) / MOST) ** 0.5 * (len(SHADES) - 1)
    low = min(int(at), len(SHADES) - 2)
    mixed = (
        round(a + (b - a) * (at - low)) for a, b in zip(SHADES[low], SHADES[low + 1], strict=True)
    )
    return "#" + "".join(f"{x:02x}" for x in mixed)


def _svg(width: int, height: int, body: str) -> str:
    style = "text{font:11px sans-serif}.n{text-anchor:middle}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">\n<style>{style}</style>\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
