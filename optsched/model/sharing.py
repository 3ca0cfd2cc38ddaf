"""Constraints of a packing beyond live ranges: pairs to keep apart, and groups with one offset.

A pair to keep apart must not share any byte although its live ranges do not overlap, for example
because another stream may still read one buffer while the other is written. The buffers of a group
start at the same offset. Together they are one buffer of the largest size, which is live whenever
one of them is, so it has several live intervals. Both are given by names or positions, and stored
as positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import lcm
from typing import cast

import numpy as np

from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_TOTAL_BYTES
from optsched.model.lifetimes import Lifetimes
from optsched.model.wiring import Wired
from optsched.runtime.integers import as_integer

Rectangle = tuple[int, int, int, int]
"""Half-open range of steps, then half-open range of bytes."""


def positions(
    rows: Iterable[Iterable[int | str]], names: Sequence[str], what: str
) -> list[tuple[int, ...]]:
    """Return rows of buffers, given by name or position, as positions.

    Raise `GraphError` if a name or position is unknown.
    """
    place: Mapping[str, int] = {}
    found = []
    for row in rows:
        if isinstance(row, str) or not isinstance(row, Iterable):
            raise GraphError(f"{what}: expected a list of buffers, got {row!r}")
        members = []
        for x in row:
            if isinstance(x, str):
                # The table of names is made once, and only if names are used.
                place = place or {name: i for i, name in enumerate(names)}
                if x not in place:
                    raise GraphError(f"{what}: unknown buffer {x!r}")
                members.append(place[x])
                continue
            number = as_integer(x)
            if number is None:
                raise GraphError(f"{what}: a buffer is a name or a position, got {x!r}")
            if not 0 <= number < len(names):
                raise GraphError(f"{what}: unknown buffer number {x}")
            members.append(number)
        found.append(tuple(members))
    return found


def make_pairs(pairs: IntArray | Iterable[Iterable[int | str]], names: Sequence[str]) -> IntArray:
    """Return pairs as positions, shape `(p, 2)`: lower one first, ascending, without duplicates.

    Raise `GraphError` if a row does not have two entries, names a buffer twice, or names an unknown
    buffer.
    """
    # The usual case: no pairs.
    if isinstance(pairs, np.ndarray | tuple | list) and not len(pairs):
        return np.zeros((0, 2), np.int64)
    # An array of pairs needs no loop over its rows.
    if isinstance(pairs, np.ndarray) and pairs.shape[1:] == (2,) and pairs.dtype.kind in "iu":
        table = np.array(pairs, np.int64)
        for x in table[(table < 0) | (table >= len(names))]:
            raise GraphError(f"keep apart: unknown buffer number {x}")
    else:
        rows = positions(pairs, names, "keep apart")
        for row in rows:
            if len(row) != 2:
                raise GraphError(f"keep apart: expected two buffers, got {_text(names, row)}")
        table = np.array(rows, np.int64).reshape(-1, 2)
    if not len(table):
        return table
    for a in table[table[:, 0] == table[:, 1], 0]:
        raise GraphError(f"keep apart: buffer {names[a]!r} is paired with itself")
    # Encode each pair as one number: sorting rows, or `np.unique`, takes ten times as long.
    numbers = np.sort(table.min(axis=1) * len(names) + table.max(axis=1))
    once = numbers[np.append(True, numbers[1:] != numbers[:-1])]
    return np.stack(np.divmod(once, len(names)), axis=1)


def make_groups(
    groups: Iterable[Iterable[int | str]], names: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Return groups as positions, each one ascending, sorted by first member.

    Raise `GraphError` if a group has fewer than two buffers, names an unknown one, or a buffer is
    in two groups.
    """
    rows = positions(groups, names, "must share")
    seen: set[int] = set()
    for row in rows:
        if len(row) < 2:
            raise GraphError(
                f"must share: a group needs at least two buffers, got {_text(names, row)}"
            )
        for i in row:
            if i in seen:
                raise GraphError(f"must share: buffer {names[i]!r} is named twice")
            seen.add(i)
    return tuple(sorted(tuple(sorted(row)) for row in rows))


def check_groups(
    groups: Sequence[Sequence[int]],
    pairs: IntArray,
    names: Sequence[str],
    pin: IntArray,
    alignment: IntArray,
) -> None:
    """Raise an error if a group contradicts itself or a pair.

    Raise `GraphError` if no offset is valid for all members, or two of them must be kept apart.
    """
    group_of = np.full(len(names), -1, np.int64)
    for number, group in enumerate(groups):
        members = np.array(group, np.int64)
        group_of[members] = number
        pinned = members[pin[members] >= 0]
        other = pinned[pin[pinned] != pin[pinned[:1]]]
        # Two pins of one group must be the same offset.
        if len(other):
            a, b = pinned[0], other[0]
            raise GraphError(
                f"buffers {names[a]!r} (pinned to {pin[a]}) and {names[b]!r} (pinned to {pin[b]}) "
                "must share an offset"
            )
        # A common offset must be a multiple of all alignments.
        if lcm(*alignment[members].tolist()) > MAX_TOTAL_BYTES:
            raise GraphError(
                f"buffers sharing the offset of {names[group[0]]!r} need an alignment above 2**62"
            )
        for at in pin[pinned[:1]]:
            for i in members[at % alignment[members] != 0]:
                raise GraphError(
                    f"buffer {names[i]!r} must share the offset {at} of {names[pinned[0]]!r}, "
                    f"which is not a multiple of alignment {alignment[i]}"
                )
    # A pair within a group is a contradiction: its buffers share all bytes of the smaller one.
    inside = (group_of[pairs[:, 0]] >= 0) & (group_of[pairs[:, 0]] == group_of[pairs[:, 1]])
    for a, b in pairs[inside]:
        raise GraphError(
            f"buffers {names[a]!r} and {names[b]!r} must share an offset and must be kept apart"
        )


def unite(members: Sequence[tuple[int, Sequence[Rectangle]]], size: int) -> list[Rectangle]:
    """Return the rectangles, ascending, of the single buffer that stands for a group.

    `members` lists the size and the rectangles of each buffer of the group. At a step at which some
    member is fully occupied, all `size` bytes of the joint buffer are occupied. At other steps, the
    bytes from the lowest to the highest byte that members occupy in their gaps are.
    """
    starts: dict[int, list[tuple[int, Rectangle]]] = {}
    for own, rows in members:
        for one in (one for one in rows if one[2] < one[3]):
            starts.setdefault(one[0], []).append((own, one))
    united: list[Rectangle] = []
    here: list[tuple[int, Rectangle]] = []
    steps = sorted({step for _, rows in members for one in rows for step in one[:2]})
    for start, end in pairwise(steps):
        # Rectangles that reach beyond this step, and those that begin at it.
        here = [x for x in here if x[1][1] > start] + starts.get(start, [])
        if not here:
            continue
        whole = any(one[2:] == (0, own) for own, one in here)
        low = 0 if whole else min(one[2] for _, one in here)
        high = size if whole else max(one[3] for _, one in here)
        # Equal to the rectangle before: extend it, so that few gaps result.
        if united and united[-1][1:] == (start, low, high):
            united[-1] = (united[-1][0], end, low, high)
        else:
            united.append((start, end, low, high))
    return united


def graph_sharing(
    graph: Wired, pairs: Iterable[Iterable[int]], groups: Iterable[Iterable[int]]
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, ...], ...]]:
    """Return the pairs and groups of a graph in the form of a packing problem.

    Raise `GraphError` if one of the buffers is a view or lies outside the slab, members of a group
    have different pools, alignments or pins, or two members can be live at once (peak memory would
    count their common bytes twice).
    """
    names = [buffer.name for buffer in graph.buffers]
    apart = make_pairs([tuple(pair) for pair in pairs], names)
    shared = make_groups(groups, names)
    for b in sorted({*apart.flatten().tolist(), *(b for group in shared for b in group)}):
        _check_root(graph, b)
    for group in shared:
        for b in group[1:]:
            # Compared with the first member; equality is transitive.
            _check_same_place(graph, group[0], b)
    _check_in_turn(graph, shared)
    pin = np.array([-1 if b.pin is None else b.pin for b in graph.buffers], np.int64)
    alignment = np.array([buffer.alignment for buffer in graph.buffers], np.int64)
    check_groups(shared, apart, names, pin, alignment)
    return cast(tuple[tuple[int, int], ...], tuple(map(tuple, apart.tolist()))), shared


def _check_root(graph: Wired, b: int) -> None:
    name, root = graph.buffers[b].name, graph.buffers[graph.roots[b]].name
    if graph.roots[b] != b:
        raise GraphError(f"buffer {name!r} is a view of {root!r}: name {root!r} instead")
    if graph.buffers[b].external:
        raise GraphError(
            f"buffer {name!r} lies outside the slab: it cannot be kept apart or share an offset"
        )


def _check_same_place(graph: Wired, a: int, b: int) -> None:
    one, other = graph.buffers[a], graph.buffers[b]
    for what, x, y in (
        ("pool", one.pool, other.pool),
        ("alignment", one.alignment, other.alignment),
        ("pin", one.pin, other.pin),
    ):
        if x != y:
            raise GraphError(
                f"buffers {one.name!r} ({what} {x!r}) and {other.name!r} ({what} {y!r}) must share "
                f"an offset: give them the same {what}"
            )


def _check_in_turn(graph: Wired, groups: Sequence[Sequence[int]]) -> None:
    """Raise an error if some order has two buffers of a group live at once."""
    if not groups:
        return
    lives = Lifetimes(graph, (b for group in groups for b in group))
    for group in groups:
        meeting = lives.meeting(group)
        if meeting:
            one, other = (graph.buffers[b].name for b in meeting)
            raise GraphError(
                f"buffers {one!r} and {other!r} must share an offset, but some order has both live "
                "at once: make one a view of the other"
            )


def _text(names: Sequence[str], row: Sequence[int]) -> str:
    return "nothing" if not row else ", ".join(repr(names[i]) for i in row[:5])


def among(
    ids: IntArray, count: int, pairs: IntArray, groups: tuple[tuple[int, ...], ...]
) -> tuple[IntArray, tuple[tuple[int, ...], ...]]:
    """Return the pairs and groups among the buffers `ids`, as positions in `ids`.

    `count` is the number of all buffers.
    """
    # Most problems have neither.
    if not len(pairs) and not groups:
        return pairs, groups
    slot = np.full(count, -1, np.int64)
    slot[ids] = np.arange(len(ids))
    pairs = slot[pairs]
    rows = [tuple(sorted(int(slot[i]) for i in group if slot[i] >= 0)) for group in groups]
    kept = np.sort(pairs[(pairs >= 0).all(axis=1)], axis=1)
    # Positions in `ids` may be in another order than the ids.
    if len(ids) > 1 and (ids[1:] < ids[:-1]).any():
        kept = kept[np.lexsort(kept.T[::-1])]
    return kept, tuple(sorted(row for row in rows if len(row) > 1))
