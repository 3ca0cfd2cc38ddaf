"""Heights that a packing pushed down can have: sums of sizes."""

from __future__ import annotations

import numpy as np

from optsched.packing.pieces import Piece

MAX_BITS = 1 << 23


class Heights:
    """Sums of sizes of a piece, as a bit set; every height if it is not plain or too tall.

    Pushed down, a buffer lies at 0 or on the top of another, so that the height is the sum of a
    chain of different buffers. Alignment, pins and half-filled units break this.
    """

    def __init__(self, piece: Piece, upper: int) -> None:
        self.piece = piece
        self.sums: int | None = None
        bits = upper // piece.unit + 1
        waste = (piece.size * piece.unit != piece.bytes).any()
        if piece.is_plain and not waste and bits * len(piece) <= MAX_BITS * 64:
            sums, mask = 1, (1 << bits) - 1
            sizes, counts = np.unique(piece.size, return_counts=True)
            for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
                if size < bits:
                    for _ in range(min(count, bits // size)):
                        sums |= (sums << size) & mask
            self.sums = sums

    def after(self, capacity: int) -> int:
        """Return the least height above a capacity in bytes."""
        if self.sums is None:
            return self.piece.height_after(capacity)
        units = capacity // self.piece.unit + 1
        above = self.sums >> units
        if not above:
            return self.piece.height_after(capacity)
        return (units + (above & -above).bit_length() - 1) * self.piece.unit
