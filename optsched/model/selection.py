"""Restriction of a packing problem to some of its buffers."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.conflicts import HEAVIEST_BUFFERS, sets_among
from optsched.model.packing_buffers import COLUMNS, PackingBuffers
from optsched.model.parts import Parts
from optsched.model.sharing import among

Problem = TypeVar("Problem", bound=PackingBuffers)


def select(problem: Problem, ids: IntArray) -> Problem:
    """Return the problem restricted to some buffers, given by their positions."""
    pairs, groups = among(ids, len(problem), problem.keep_apart, problem.must_share)
    some = ids.tolist()
    # Every number was checked when the problem was made: a part is made without these checks.
    part = object.__new__(type(problem))
    part.__dict__.update({each.name: getattr(problem, each.name) for each in fields(problem)})
    part.__dict__.update(
        names=tuple([problem.names[i] for i in some]),
        **{what: getattr(problem, what)[ids] for what in COLUMNS},
        gaps=tuple([problem.gaps[i] for i in some]) if problem.gaps else (),
        uses=None if problem.uses is None else problem.uses.select(ids),
        keep_apart=pairs,
        must_share=groups,
    )
    # Finding these sets again would take seconds for many buffers.
    if len(pairs) and len(ids) > HEAVIEST_BUFFERS:
        part.__dict__["apart_sets"] = sets_among(ids, len(problem), problem.apart_sets)
    if problem.gaps:
        part.__dict__["parts"] = _parts_among(ids, len(problem), problem.parts)
    return part


def _parts_among(ids: IntArray, count: int, parts: Parts) -> Parts:
    """Return the parts of the buffers `ids`, by their positions in `ids`; `count` is of all."""
    slot = np.full(count, -1, np.int64)
    slot[ids] = np.arange(len(ids))
    owner = slot[parts.owner]
    kept = np.flatnonzero(owner >= 0)
    turn = kept[np.argsort(owner[kept], kind="stable")]
    return Parts(owner[turn], *(column[turn] for column in parts[1:]))
