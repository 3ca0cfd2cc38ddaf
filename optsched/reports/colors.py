"""Colors that are distinguishable with color blindness, on white and on black."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import IntArray
from optsched.reports.view import View
from optsched.runtime.bytes import unit_of

VIRIDIS = (
    "#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30",
    "#fde725",
)  # fmt: skip
"""Color map from small to large: viridis by Smith and van der Walt, perceptually uniform."""
KINDS = (
    "#88ccee", "#cc6677", "#ddcc77", "#117733", "#aa4499", "#44aa99", "#999933", "#882255",
    "#6d5fc7",
)  # fmt: skip
"""Colors of kinds, after Paul Tol's muted scheme."""
OTHER = "#b4b8bd"
"""Color of all further kinds."""
SPAN = 1024
"""Ratio of the largest size to that of the darkest color; smaller buffers are hardly visible."""
INK, LIVE, PEAK, BOUND = "#757b82", "#3d7ebf", "#d9480f", "#2b9348"
"""Colors of axes and text, live bytes, the peak and the proved bound."""


@dataclass(frozen=True, slots=True)
class Painting:
    """Units and colors that all pictures of a report share."""

    unit: str
    """Unit of the axes."""
    scale: int
    """Bytes per unit."""
    by_size: tuple[str, ...]
    by_kind: tuple[str, ...]
    """Color of each buffer, by buffer id."""
    kinds: dict[str, str]
    """Color of each kind; kinds with the most bytes come first."""
    darkest: int
    largest: int
    """Bytes at the ends of the color scale."""


def painting(views: Sequence[View]) -> Painting:
    """Choose units and colors for plans of one graph."""
    subject = views[0].subject
    size = subject.sizes
    unit, scale = unit_of(max(view.slab for view in views))
    counted = np.flatnonzero(size > 0)
    kinds = subject.kinds or ("buffer",) * len(size)
    legend = by_kind([kinds[b] for b in counted], size[counted].tolist())
    known = dict(zip(counted.tolist(), by_size(size[counted]), strict=True))
    return Painting(
        unit,
        scale,
        # Missing buffers have no bytes and are never drawn.
        tuple(known.get(b, INK) for b in range(len(kinds))),
        tuple(legend.get(kind, INK) for kind in kinds),
        legend,
        least_shade(size[counted]),
        int(size[counted].max(initial=0)),
    )


def text_on(color: str) -> str:
    """Return black or white, whichever is readable on a color."""
    r, g, b = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    # Brightness as the eye weighs it: green most, blue least.
    return "#ffffff" if 299 * r + 587 * g + 114 * b < 140_000 else "#000000"


def least_shade(sizes: IntArray) -> int:
    """Return the size that has the darkest color; smaller sizes have it too."""
    # Sizes may span nine decades; the darkest color stands for all below a thousandth of the
    # largest.
    return max(int(sizes.min(initial=2**62)), int(sizes.max(initial=0)) // SPAN, 1)


def shades(sizes: IntArray) -> npt.NDArray[np.float64]:
    """Return the shade of each size: 0 up to :func:`least_shade`, 1 for the largest."""
    # Logarithms, since sizes differ by factors.
    height = np.log(np.maximum(least_shade(sizes), sizes).astype(float))
    low, high = np.log(float(least_shade(sizes))), height.max(initial=0.0)
    return (height - low) / (high - low) if high > low else np.ones_like(height)


def by_size(sizes: IntArray) -> list[str]:
    """Return a color for each size, on the logarithmic scale of :func:`shades`."""
    at = shades(sizes)
    anchors = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in VIRIDIS])
    places = np.linspace(0, 1, len(VIRIDIS))
    channels = [np.interp(at, places, anchors[:, k]).round().astype(int) for k in range(3)]
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in zip(*channels, strict=True)]


def by_kind(kinds: Sequence[str], sizes: Sequence[int]) -> dict[str, str]:
    """Return a color for each kind, most bytes first; kinds after the ninth share one."""
    total: dict[str, int] = {}
    for kind, size in zip(kinds, sizes, strict=True):
        total[kind] = total.get(kind, 0) + size
    # By total bytes, so that the colors go to the kinds that matter; by name among equals.
    ranked = sorted(total, key=lambda kind: (-total[kind], kind))
    own = dict(zip(ranked, KINDS, strict=False))
    return {kind: own.get(kind, OTHER) for kind in ranked}
