"""Sections as bit sets, and what they add up to, against sets of Python."""

from __future__ import annotations

import numpy as np

from optsched.packing.cliques import cut_sections
from optsched.packing.kernels.section_load import section_load
from optsched.packing.kernels.state import WORD_BITS


def test_bit_sets_and_loads_are_those_of_the_parts() -> None:
    rng = np.random.default_rng(2)
    longest = 0
    for _ in range(60):
        buffers = int(rng.integers(1, 30))
        rows = []
        for b in range(buffers):
            times = np.sort(rng.choice(400, 2 * int(rng.integers(1, 4)), replace=False)).tolist()
            rows += [(b, *times[i : i + 2]) for i in range(0, len(times), 2)]
        owner, start, end = np.array(rows).T
        sections = cut_sections(owner, start, end, buffers, maximal=False)
        if not sections.masks.shape[1]:
            continue
        longest = max(longest, sections.count)
        size = rng.integers(1, 1 << 40, buffers)
        covers: list[set[int]] = [set() for _ in range(buffers)]
        for b, low, high in zip(owner, sections.part_first, sections.part_last, strict=True):
            covers[b].update(range(low, high))
        for b, mine in enumerate(covers):
            bits = "".join(f"{word:0{WORD_BITS}b}"[::-1] for word in sections.masks[b].tolist())
            assert {t for t, bit in enumerate(bits) if bit == "1"} == mine
        load = [sum(int(size[b]) for b in range(buffers) if t in covers[b])
                for t in range(sections.count)]  # fmt: skip
        assert section_load(sections.masks, size, sections.count).tolist() == load
    assert longest > WORD_BITS
