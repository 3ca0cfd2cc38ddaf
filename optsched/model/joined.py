"""Must-share groups as single buffers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import Generic, TypeVar

import numpy as np

from optsched.model.arrays import IntArray, pack_rows
from optsched.model.elements import MAX_ADDRESS
from optsched.model.packing_buffers import COLUMNS, PackingBuffers
from optsched.model.parts import gaps_between
from optsched.model.sharing import unite

Problem = TypeVar("Problem", bound=PackingBuffers)


@dataclass(frozen=True, slots=True)
class Joined(Generic[Problem]):
    """A packing problem in which each must-share group is replaced by one buffer."""

    problem: Problem
    """The problem without groups. The buffer of a group has the position and the name of the
    group's first member.
    """
    place: IntArray
    """Shape `(k,)`: position in :attr:`problem` of each buffer of the original problem."""

    def offsets(self, given: IntArray) -> IntArray:
        """Return the offsets of the joined buffers for offsets of all buffers, shape `(k,)`."""
        found = np.zeros(len(self.problem), np.int64)
        found[self.place] = given
        return found


def join(problem: Problem) -> Joined[Problem]:
    """Return the problem in which each group is one buffer.

    Its pairs are those of members that take room. A group has the alignment of all its members, the
    pin of any and the lowest offset that upper limits of its members allow.
    """
    if not problem.must_share:
        return Joined(problem, np.arange(len(problem)))
    head = np.arange(len(problem))
    # All members map to the first one, which keeps its position and name.
    for group in problem.must_share:
        head[list(group)] = group[0]
    kept, place = np.unique(head, return_inverse=True)
    columns = {name: getattr(problem, name).copy() for name in COLUMNS}
    gaps = list(problem.gaps) or [()] * len(problem)
    for group in problem.must_share:
        # Only members that are ever live take part in the live range.
        first, live = group[0], [i for i in group if problem.end[i] > problem.start[i]]
        members = live or list(group)
        start = int(problem.start[members].min())
        end = int(problem.end[members].max()) if live else start
        size = int(problem.size[members].max())
        columns["start"][first], columns["end"][first], columns["size"][first] = start, end, size
        # One offset must suit all members, so their least common multiple must divide it.
        columns["alignment"][first] = lcm(*problem.alignment[list(group)].tolist())
        columns["pin"][first] = problem.pin[list(group)].max()
        # A smaller member may end lower than the group: limits are compared as offsets.
        highest = int((problem.below[members] - problem.size[members]).min())
        columns["below"][first] = min(MAX_ADDRESS, highest + size)
        # Between the lives of two members the bytes are free again: a gap.
        rows = [(int(problem.size[i]), problem.rectangles(i)) for i in live]
        gaps[first] = gaps_between(start, end, size, unite(rows, size))
    uses = problem.uses
    if uses is not None:
        pairs = np.unique(np.column_stack([place[uses.owners()], uses.idx]), axis=0)
        uses = pack_rows(pairs[:, 0], pairs[:, 1], len(kept))
    there = (problem.end > problem.start) & (problem.size > 0)
    one_each = replace(
        problem,
        names=tuple(problem.names[i] for i in kept),
        **{name: column[kept] for name, column in columns.items()},
        gaps=tuple(gaps[i] for i in kept) if any(gaps) else (),
        uses=uses,
        keep_apart=place[problem.keep_apart[there[problem.keep_apart].all(axis=1)]],
        must_share=(),
    )
    return Joined(one_each, place)
