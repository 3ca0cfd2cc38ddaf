"""Repeats of a plan that is known to fit, taken back while it still fits.

A plan is made for the bytes of ops, and what is compiled may need fewer. A split is known to fit
once it is lowered and simulated, which takes seconds. So all repeats are taken back together if
that fits, else halves of them, and single ones at last.

Example: of four repeats the last one is needed. All four cannot go, and the last two cannot; the
first two go, and then the third.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def take_back(
    sequence: Sequence[int],
    costs: Sequence[int],
    fits: Callable[[tuple[int, ...]], bool],
    most: int,
) -> tuple[int, ...]:
    """Return the sequence with fewer repeats, such that it fits and no single one can go.

    Parameters
    ----------
    sequence
        Op ids in the order of their runs; it fits.
    costs
        Cost of a run, by op: the most expensive repeats are taken back first.
    fits
        Function that tells if a sequence with fewer repeats fits.
    most
        Most calls of it; after them more repeats than needed may be left.
    """
    kept, first = set(range(len(sequence))), {v: i for i, v in reversed([*enumerate(sequence)])}
    repeats = [i for i, v in enumerate(sequence) if first[v] < i]
    repeats.sort(key=lambda i: (-costs[sequence[i]], i))
    size = len(repeats)
    while repeats and size and most:
        left: list[int] = []
        for at in range(0, len(repeats), size):
            part = repeats[at : at + size]
            tried = kept.difference(part)
            if most and fits(tuple(sequence[i] for i in sorted(tried))):
                kept = tried
            else:
                left += part
            most = max(0, most - 1)
        # Halves of what does not go together; single ones again while any went.
        size = size // 2 if size > 1 else int(len(left) < len(repeats))
        repeats = left
    return tuple(sequence[i] for i in sorted(kept))
