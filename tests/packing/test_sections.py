"""Sections as bit sets, and what they add up to, against sets of Python."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.packing import cliques
from optsched.packing.cliques import Sections, cut_sections, in_time_order
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


@pytest.mark.parametrize("batch", [1, 40, 1 << 24])
def test_sections_inside_others_go(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections of live ranges and of sets to keep apart, however many are compared at a time."""
    monkeypatch.setattr(cliques, "BATCH_BYTES", batch)
    rng = np.random.default_rng(3)
    gone = 0
    for _ in range(150):
        buffers = int(rng.integers(1, 25))
        start = rng.integers(0, 30, buffers)
        rows = [(b, at, at + int(rng.integers(1, 12))) for b, at in enumerate(start.tolist())]
        for step in range(50, 50 + int(rng.integers(0, 60))):
            members = rng.choice(buffers, int(rng.integers(1, min(buffers, 5) + 1)), replace=False)
            rows += [(b, step, step + 1) for b in sorted(members.tolist())]
        sections = cut_sections(*np.array(rows).T, buffers)
        before = sections_of(sections)
        # Sections are compared member by member, so that each must have one.
        assert all(before)
        if not sections.masks.shape[1]:
            continue
        sets = sections_of(in_time_order(sections, start))
        assert len(sets) == len(set(sets))
        assert set(sets) == {one for one in before if not any(one < other for other in before)}
        gone += len(before) - len(sets)
    assert gone > 1_000


def sections_of(sections: Sections) -> list[frozenset[int]]:
    """Return the buffers of each section."""
    buffers = range(len(sections.first))
    if not sections.masks.shape[1]:
        return [
            frozenset(b for b in buffers if sections.first[b] <= t < sections.last[b])
            for t in range(sections.count)
        ]
    return [
        frozenset(b for b in buffers if sections.masks[b, t // WORD_BITS] >> (t % WORD_BITS) & 1)
        for t in range(sections.count)
    ]
