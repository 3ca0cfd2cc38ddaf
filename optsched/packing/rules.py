"""The switches of the search. Each only leaves out work whose answer is known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """Pruning rules; the least slab is the same whichever are on.

    Parameters
    ----------
    cliques
        Keep only sections whose buffers are not all live in another section too: buffers that
        are apart in the larger set are apart in the smaller one.
    units
        Count in the greatest common divisor of alignments, sizes and pins: buffers pushed down
        as far as they go lie on its multiples.
    pieces
        Pack groups of buffers that are never live together one by one: they do not meet.
    decompose
        The same inside the search, among the buffers not placed yet.
    twins
        Of identical buffers the first lies below the second: exchanging them changes nothing.
    far_skip
        A floor nobody starts at rises to the next top something could rest on, not to the next
        offset: packings with all buffers pushed down are enough.
    forced
        A buffer that must start here at the latest is the only child: every other one would
        have to lie where it is or push it past its latest start.
    failures
        A set of unplaced buffers that failed fails again on floors that are nowhere lower.
    heights
        After a capacity is refuted, go on at the next sum of sizes: in a packing pushed down a
        chain of buffers, each resting on another, reaches the top (not where windows are).
    """

    cliques: bool = True
    units: bool = True
    pieces: bool = True
    decompose: bool = True
    twins: bool = True
    far_skip: bool = True
    forced: bool = True
    failures: bool = True
    heights: bool = True
