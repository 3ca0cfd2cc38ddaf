"""The possible slabs of packings pushed down: sums of buffer sizes.

In a packing pushed down, each buffer lies at 0 or on top of another buffer, so the slab is the sum
of the sizes of a chain of different buffers. Once a capacity is refuted, the bound can rise to the
next larger sum. With three buffers of 3, 5 and 9 bytes, for example, a slab above 9 bytes is 12, 14
or 17 bytes.
"""

from __future__ import annotations

from optsched.packing.components import Component
from optsched.packing.occupancy import Occupancy


class SubsetSums:
    """The possible sums of sizes as a bit set.

    The set covers sums of at most `upper` bytes. If computing it would take more than `most_words`
    words of 64 bits, or if the component has alignments, pins or partly filled units, which break
    the argument, every slab is considered possible.

    With partial occupancy a buffer adds the difference between the top and the bottom of two of its
    parts. The top may also be the buffer's size and the bottom may also be 0.
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
        # Steps can be negative. Partial sums of a chain may leave the range from 0 to `upper`, but
        # in any order of addition never by more than the sum of all negative steps.
        self.zero = -sum(min(0, *each) for each in steps)
        top = upper // component.unit + 1 + self.zero
        bits = top + self.zero
        if bits * sum(map(len, steps)) > most_words * 64:
            return
        # Bit k + zero stands for the sum k. Each buffer may add one of its steps, or nothing.
        sums, mask = 1 << self.zero, (1 << bits) - 1
        for each in steps:
            found = sums
            for step in each:
                if step < bits:
                    found |= sums << step if step > 0 else sums >> -step
            sums = found & mask
        # Sums above `upper` are of no interest, and bits beyond them are incomplete.
        self.sums = sums & ((1 << top) - 1)

    def after(self, capacity: int) -> int:
        """Return the smallest possible slab above a capacity in bytes."""
        if self.sums is None:
            return self.component.slab_after(capacity)
        units = capacity // self.component.unit + 1
        above = self.sums >> (units + self.zero)
        if not above:
            return self.component.slab_after(capacity)
        return (units + (above & -above).bit_length() - 1) * self.component.unit


def part_steps(component: Component, occupancy: Occupancy) -> list[list[int]]:
    """Return the amounts that each buffer may add to a chain, in units."""
    lows: list[set[int]] = [{0} for _ in range(len(component))]
    highs = [{size} for size in component.size.tolist()]
    low_high = occupancy.in_units(component.unit)[2:].tolist()
    for owner, low, high in zip(occupancy.owner.tolist(), *low_high, strict=True):
        lows[owner].add(low)
        highs[owner].add(high)
    return [
        sorted({b - a for a in low for b in high}) for low, high in zip(lows, highs, strict=True)
    ]
