"""Picture of fronts: `python -m experiments.tiling.picture` reads `fronts.csv`."""

from __future__ import annotations

from pathlib import Path

from experiments.tables import read_rows
from experiments.tiling.__main__ import Point

HERE = Path(__file__).parent
SHOWN = (
    ("mobilenet2", "MobileNetV2"),
    ("pyopen_wakeword.embedding_model", "wake-word embedding"),
    ("face_detection.face_landmark", "face landmark"),
    ("mlperf_tiny.vww_96_int8", "MLPerf Tiny VWW"),
)
COLORS = ("#1b6ca8", "#b8501e", "#4a7c2c", "#7a4a9c")
WIDTH, HEIGHT, LEFT, BELOW = 640, 360, 60, 40


def picture(points: list[Point]) -> str:
    """Return an SVG: total bytes as a share of the largest to the right, extra upwards."""
    highest = max(0.01, *(point.extra for point in points))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for step in range(6):
        x, y = _place(step / 5, 0.0, highest)
        lines.append(f'<text x="{x}" y="{y + 16}" text-anchor="middle">{20 * step} %</text>')
        x, y = _place(0.0, highest * step / 5, highest)
        value = f"{100 * highest * step / 5:.1f} %"
        lines.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{value}</text>')
        lines.append(f'<path d="M{x} {y}H{WIDTH - 10}" stroke="#ddd"/>')
    for number, (model, title) in enumerate(SHOWN):
        front = sorted((p for p in points if p.model == model), key=lambda p: -p.total)
        if front:
            lines += _front(front, title, COLORS[number], highest, number)
    return "\n".join([*lines, "</svg>", ""])


def _place(share: float, extra: float, highest: float) -> tuple[int, int]:
    across, up = WIDTH - LEFT - 20, HEIGHT - BELOW - 20
    return round(LEFT + share * across), round(HEIGHT - BELOW - extra / highest * up)


def _front(front: list[Point], title: str, color: str, highest: float, row: int) -> list[str]:
    places = [_place(p.total / front[0].total, p.extra, highest) for p in front]
    path = "L".join(f"{x} {y}" for x, y in places)
    lines = [f'<path d="M{path}" fill="none" stroke="{color}"/>']
    for point, (x, y) in zip(front, places, strict=True):
        fill = color if point.proved else "white"
        lines.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{fill}" stroke="{color}"/>')
    text = f"{title}: {front[0].total:,} bytes untiled"
    lines.append(
        f'<text x="{WIDTH - 15}" y="{30 + 18 * row}" fill="{color}" text-anchor="end">{text}</text>'
    )
    return lines


if __name__ == "__main__":
    shown = {model for model, _ in SHOWN}
    rows = [row for row in read_rows(HERE / "fronts.csv", Point) if row.model in shown]
    (HERE / "fronts.svg").write_text(picture(rows))
