"""Lower the peak of an order by taking single ops elsewhere, while few ops of a baseline are moved.

Only an op that crosses the fullest step can lower it: one that runs before it and can wait, or one
that runs later and can come first. Each is tried next to that step and as far from it as it may go;
the best of all is taken, until none lowers the peak or leaves fewer steps as full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optsched.model.graph import Graph
from optsched.model.order_rules import moved_ops
from optsched.ordering.pieces import Piece, whole_piece
from optsched.runtime.clock import Clock

Fullness = tuple[int, int]
"""Live bytes of the fullest steps, and how many there are."""


def lower_peak(
    graph: Graph, baseline: Sequence[int], order: Sequence[int], most: int, clock: Clock
) -> tuple[int, ...]:
    """Return an order of no higher peak that moves at most so many ops.

    Parameters
    ----------
    graph, baseline
        As for :func:`optsched.ordering.moves.fewest_moves`.
    order
        An order of the graph that moves no more.
    most
        Ops of the baseline that may be moved.
    clock
        When to stop; orders tried are its work.
    """
    piece = whole_piece(graph, baseline)
    turn = {v: i for i, v in enumerate(baseline)}
    best = [turn[v] for v in order]
    while True:
        running = _running(piece, best)
        found = min(_better(piece, best, running, most, clock), default=None)
        if found is None:
            return tuple(piece.ops[i] for i in best)
        best = found[1]


def _better(
    piece: Piece, order: list[int], running: list[int], most: int, clock: Clock
) -> Iterator[tuple[Fullness, list[int]]]:
    """Yield orders that are less full, one op of which runs elsewhere."""
    now = _fullness(running)
    full = running.index(now[0]) if running else 0
    for at in range(len(order)):
        for place in dict.fromkeys(_places(piece, order, at, full)):
            if clock.expired():
                return
            clock.spend(1)
            changed = [*order[:at], *order[at + 1 :]]
            changed.insert(place, order[at])
            fullness = _fullness(_running(piece, changed))
            if fullness < now and moved_ops(changed, range(len(order))) <= most:
                yield fullness, changed


def _places(piece: Piece, order: list[int], at: int, full: int) -> list[int]:
    """Return the steps across the fullest one to which an op may go: the nearest, the farthest."""
    i = order[at]
    if at <= full:
        behind = (s for s in range(at + 1, len(order)) if piece.needs[order[s]] >> i & 1)
        last = next(behind, len(order)) - 1
        return [full, last] if last >= max(full, at + 1) else []
    before = (s for s in range(at - 1, -1, -1) if piece.needs[i] >> order[s] & 1)
    first = next(before, -1) + 1
    return [full, first] if first <= full else []


def _running(piece: Piece, order: list[int]) -> list[int]:
    done, live, running = 0, piece.live, []
    for i in order:
        running.append(piece.running(i, done, live))
        done |= 1 << i
        live = piece.left(i, done, live)
    return running


def _fullness(running: list[int]) -> Fullness:
    peak = max(running, default=0)
    return peak, running.count(peak)
