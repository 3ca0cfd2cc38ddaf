"""The checker of packings: offsets of buffers whose live ranges are given.

It reads the columns of a packing problem in plain integers and shares its rules with the checker of
plans (:mod:`optsched.check.rules`).

A buffer fills the rectangle of its steps and its bytes. A packing is valid if no two rectangles
overlap, and each offset obeys alignment, pin, upper limit and group of its buffer.

Example: sizes 8 and 4, steps [0, 4) and [2, 6). Offsets 0 and 8 are valid; with 0 and 4 the
rectangles overlap in steps 2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING

from optsched.check.facts import Extent
from optsched.check.rules.groups import check_same_offset
from optsched.check.rules.overlap import Rectangle, check_overlap, is_free
from optsched.check.rules.pairs import check_limit, check_pairs
from optsched.check.rules.places import check_place
from optsched.errors import PlanError
from optsched.runtime.collector import paused_collector
from optsched.runtime.keywords import keywords

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from optsched.model.packing_problem import PackingProblem


@paused_collector()
@keywords
def check_packing(
    problem: PackingProblem,
    offsets: Sequence[int] | npt.NDArray[np.int64],
    *,
    slab: int | None = None,
    capacity: int | None = None,
) -> int:
    """Check the offsets of a packing problem and return its slab in bytes.

    Parameters
    ----------
    problem, offsets
        The problem, and an offset in bytes for each of its buffers.
    slab
        Slab that the packing claims; compared if given.
    capacity
        Maximum slab in bytes, if any.

    Raises
    ------
    PlanError
        On an overlap, a pair that shares bytes, a group that does not share its offset, a missed
        alignment, pin or upper limit, or a slab that is not the claimed one or exceeds the
        capacity.

    Examples
    --------
    >>> from optsched import PackingProblem, check_packing
    >>> problem = PackingProblem(size=[8, 4, 4], start=[0, 2, 4], end=[4, 6, 8])
    >>> check_packing(problem, [0, 8, 0])
    12
    >>> check_packing(problem, [0, 4, 0])
    Traceback (most recent call last):
        ...
    optsched.errors.PlanError: buffers 'b1' at [4, 8) and 'b0' at [0, 8) overlap while both are live
    """
    if len(offsets) != len(problem):
        raise PlanError(f"{len(offsets)} offsets for {len(problem)} buffers")
    # NumPy numbers become Python's, so that sums cannot wrap around.
    place = [_as_integer(x) for x in offsets]
    found = _check_places(problem, place)
    for group in problem.must_share:
        check_same_offset(group, place, problem.names)
    filled = [row for row, _ in filled_rectangles(problem, place)]
    if not is_free([row[:2] for row in filled], [row[2:4] for row in filled]):
        check_overlap(filled)
    if len(problem.keep_apart):
        check_pairs(problem.keep_apart.tolist(), whole_extents(problem, place), problem.names)
    if slab is not None and slab != found:
        raise PlanError(f"packing claims a slab of {slab} bytes, its offsets give {found}")
    if capacity is not None and found > capacity:
        raise PlanError(f"slab of {found} bytes exceeds the capacity of {capacity}")
    return found


def _check_places(problem: PackingProblem, place: Sequence[int]) -> int:
    """Check each offset alone, and return the end of the last byte of a live buffer."""
    columns = [getattr(problem, x) for x in ("start", "end", "size", "alignment", "pin", "below")]
    found = 0
    # Lists hold Python's integers: sums of NumPy's could overflow unnoticed, and are slower.
    rows = zip(problem.names, place, *(column.tolist() for column in columns), strict=True)
    for name, at, start, end, size, alignment, pin, below in rows:
        check_place(name, at, alignment, None if pin < 0 else pin)
        # A buffer that is never live adds nothing to the slab.
        if end > start:
            check_limit(name, at + size, below)
            found = max(found, at + size)
    return found


def _as_integer(offset: int) -> int:
    """Return an offset as a Python integer: sums of NumPy's could overflow unnoticed."""
    try:
        return index(offset)
    except TypeError:
        raise PlanError(f"offset {offset!r} is not an integer") from None


def whole_extents(problem: PackingProblem, place: Sequence[int]) -> dict[int, Extent]:
    """Return the bytes of every buffer that is live at some step; of a group, as one buffer.

    A buffer that is never live or has no bytes is left out, also as a member of a group.
    """
    own = _live_sizes(problem)
    size = dict(enumerate(own))
    for group in problem.must_share:
        # Each member of a group keeps others off all bytes of the largest.
        size.update(dict.fromkeys(group, max(own[i] for i in group)))
    return {i: (place[i], place[i] + size[i]) for i in size if own[i]}


def filled_rectangles(problem: PackingProblem, place: Sequence[int]) -> list[tuple[Rectangle, int]]:
    """Return the rectangles that buffers fill, each with the id of its buffer.

    A group is one buffer, as large as its largest live member and live whenever a member is.
    """
    columns = (column.tolist() for column in problem.parts)
    rows = [
        ((start, end, place[i] + low, place[i] + high, problem.names[i]), i)
        for i, start, end, low, high in zip(*columns, strict=True)
        if start < end and low < high
    ]
    # The usual case: no groups.
    if not problem.must_share:
        return rows
    sizes, live = problem.size.tolist(), _live_sizes(problem)
    parts: dict[int, list[tuple[Rectangle, bool]]] = {
        i: [] for group in problem.must_share for i in group
    }
    for row, i in rows:
        if i in parts:
            parts[i].append((row, row[3] - row[2] == sizes[i]))
    found = [(row, i) for row, i in rows if i not in parts]
    for group in problem.must_share:
        together = [part for i in group for part in parts[i]]
        united = _united(together, max(live[i] for i in group))
        found += [(row, group[0]) for row in united]
    return found


def _live_sizes(problem: PackingProblem) -> list[int]:
    """Return the bytes of each buffer; 0 if it is never live."""
    columns = (problem.size.tolist(), problem.start.tolist(), problem.end.tolist())
    return [size if start < end else 0 for size, start, end in zip(*columns, strict=True)]


def _united(rows: Sequence[tuple[Rectangle, bool]], size: int) -> list[Rectangle]:
    """Return the rectangles of a group: all its bytes while some member is live as a whole.

    Each of `rows` is a rectangle of a member, and True if it has all bytes of the member.
    """
    found: list[Rectangle] = []
    starts: dict[int, list[tuple[Rectangle, bool]]] = {}
    for one in rows:
        # Rectangles by the step at which they begin, for one sweep over the steps.
        starts.setdefault(one[0][0], []).append(one)
    here: list[tuple[Rectangle, bool]] = []
    for start, end in pairwise(sorted({step for row, _ in rows for step in row[:2]})):
        here = [one for one in here if one[0][1] > start] + starts.get(start, [])
        if not here:
            continue
        low, high = min(row[2] for row, _ in here), max(row[3] for row, _ in here)
        # A member that is live as a whole fills all bytes of the group.
        base = [row[2] for row, whole in here if whole]
        if base:
            low, high = base[0], base[0] + size
        found.append((start, end, low, high, here[0][0][4]))
    return found
