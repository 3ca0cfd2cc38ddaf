"""Slabs that a packing pushed down can have: sums of sizes.

Pushed down, each buffer lies at 0 or on the top of another, so the slab is the sum of the sizes of
a chain of different buffers. Once a capacity is refuted the bound goes to the next such sum: of
three buffers with 3, 5 and 9 bytes a slab above 9 has 12, 14 or 17.
"""

from __future__ import annotations

from optsched.packing.components import Component
from optsched.packing.occupancy import Occupancy


class SubsetSums:
    """The sums as a bit set; every slab, if the component is not plain or they take too much work.

    The sums go up to `upper` bytes and take up to `most_words` words of 64 bits in all.

    Where buffers are there in part, each adds the top of one of its parts, or its size, less the
    bottom of one, or 0. Alignment, pins and half-filled units break the argument.
    """

    def __init__(self, component: Component, upper: int, most_words: int) -> None:
        self.component = component
        self.sums: int | None = None
        self.zero = 0
        waste = (component.size * component.unit != component.bytes).any()
        if not component.is_plain or waste:
            return
        steps = [[size] for size in component.size.tolist()]
        if component.occupancy is not None:
            steps = part_steps(component, component.occupancy)
        # In whatever order a chain is added up, no sum is further out than what others take away.
        self.zero = -sum(min(0, *each) for each in steps)
        top = upper // component.unit + 1 + self.zero
        bits = top + self.zero
        if bits * sum(map(len, steps)) > most_words * 64:
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
        """Return the minimum slab above a capacity in bytes."""
        if self.sums is None:
            return self.component.slab_after(capacity)
        units = capacity // self.component.unit + 1
        above = self.sums >> (units + self.zero)
        if not above:
            return self.component.slab_after(capacity)
        return (units + (above & -above).bit_length() - 1) * self.component.unit


def part_steps(component: Component, occupancy: Occupancy) -> list[list[int]]:
    """Return what each buffer may add to a chain, in units."""
    lows: list[set[int]] = [{0} for _ in range(len(component))]
    highs = [{size} for size in component.size.tolist()]
    low_high = occupancy.in_units(component.unit)[2:].tolist()
    for owner, low, high in zip(occupancy.owner.tolist(), *low_high, strict=True):
        lows[owner].add(low)
        highs[owner].add(high)
    return [
        sorted({b - a for a in low for b in high}) for low, high in zip(lows, highs, strict=True)
    ]
