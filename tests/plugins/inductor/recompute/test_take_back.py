"""Repeats that are taken back: the others are needed, and the split fits."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from optsched.plugins.inductor.recompute.take_back import take_back


def runs(sequence: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the repeats of a sequence: op and number of the run from the end."""
    found = []
    for i, v in enumerate(sequence):
        if v in sequence[:i]:
            found.append((v, sequence[i:].count(v)))
    return found


@pytest.mark.parametrize("seed", range(200))
def test_what_is_needed_stays_and_no_more(seed: int) -> None:
    draw = random.Random(seed)
    ops = [*range(draw.randint(1, 6))]
    sequence = (*ops, *draw.sample(ops, draw.randint(0, len(ops))))
    needed = {v for v in ops if draw.random() < 0.4}
    calls = []

    def fits(tried: tuple[int, ...]) -> bool:
        calls.append(tried)
        return needed & {*sequence[len(ops) :]} <= {v for v, _ in runs(tried)}

    found = take_back(sequence, [draw.randint(0, 3) for _ in ops], fits, 1000)
    assert {v for v, _ in runs(found)} == needed & {*sequence[len(ops) :]}
    # First runs stay, in their order.
    assert found[: len(ops)] == tuple(ops)
    most = draw.randint(0, 3)
    calls.clear()
    found = take_back(sequence, [1] * len(ops), fits, most)
    assert len(calls) <= most
    assert fits(found)


def test_the_most_expensive_repeat_goes_first() -> None:
    # Either of both may go, but not both.
    found = take_back((0, 1, 0, 1), [1, 5], lambda tried: len(tried) >= 3, 10)
    assert found == (0, 1, 0)
