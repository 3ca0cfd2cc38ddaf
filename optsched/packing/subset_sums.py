"""Heights that a packing pushed down can have: sums of sizes."""

from __future__ import annotations

from optsched.packing.components import Piece
from optsched.packing.occupancy import Windows

MAX_BITS = 1 << 23


class Heights:
    """Sums of sizes of a piece, as a bit set; every height if it is not plain or too tall.

    Pushed down, a buffer lies at 0 or on the top of another, so that the height is the sum of a
    chain of different buffers. Where they have windows each adds the top of one of them, or its
    size, less the bottom of one, or 0. Alignment, pins and half-filled units break this.
    """

    def __init__(self, piece: Piece, upper: int) -> None:
        self.piece = piece
        self.sums: int | None = None
        self.zero = 0
        waste = (piece.size * piece.unit != piece.bytes).any()
        if not piece.is_plain or waste:
            return
        steps = [[size] for size in piece.size.tolist()]
        if piece.windows is not None:
            steps = window_steps(piece, piece.windows)
        # In whatever order a chain is added up, no sum is further out than what others take away.
        self.zero = -sum(min(0, *each) for each in steps)
        top = upper // piece.unit + 1 + self.zero
        bits = top + self.zero
        if bits * sum(map(len, steps)) > MAX_BITS * 64:
            return
        sums, mask = 1 << self.zero, (1 << bits) - 1
        for each in steps:
            found = sums
            for step in each:
                if step < bits:
                    found |= sums << step if step > 0 else sums >> -step
            sums = found & mask
        self.sums = sums & ((1 << top) - 1)

    def after(self, capacity: int) -> int:
        """Return the least height above a capacity in bytes."""
        if self.sums is None:
            return self.piece.height_after(capacity)
        units = capacity // self.piece.unit + 1
        above = self.sums >> (units + self.zero)
        if not above:
            return self.piece.height_after(capacity)
        return (units + (above & -above).bit_length() - 1) * self.piece.unit


def window_steps(piece: Piece, windows: Windows) -> list[list[int]]:
    """Return what each buffer may add to a chain, in units."""
    lows: list[set[int]] = [{0} for _ in range(len(piece))]
    highs = [{size} for size in piece.size.tolist()]
    for owner, low, high in zip(
        windows.owner.tolist(), *(x.tolist() for x in windows.in_units(piece.unit)), strict=True
    ):
        lows[owner].add(low)
        highs[owner].add(high)
    return [
        sorted({b - a for a in low for b in high}) for low, high in zip(lows, highs, strict=True)
    ]
