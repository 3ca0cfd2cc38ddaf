"""What can be taken away from a packing: buffers, steps and bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from optsched.counterexamples.sizes import simpler_sizes
from optsched.model.packing_problem import PackingProblem, select


def without_buffers(problem: PackingProblem, names: Collection[str]) -> PackingProblem:
    """Return the packing without some buffers."""
    kept = [i for i, name in enumerate(problem.names) if name not in names]
    return select(problem, np.array(kept, np.int64))


def simpler_packings(problem: PackingProblem) -> Iterator[PackingProblem]:
    """Yield the packing with a step left out, a live range shorter, or simpler sizes.

    Where buffers have gaps only whole buffers go.
    """
    if problem.gaps:
        return
    yield from _fewer_steps(problem)
    for i in np.flatnonzero(problem.end - problem.start > 1):
        one = np.zeros(len(problem), np.int64)
        one[i] = 1
        yield replace(problem, start=problem.start + one)
        yield replace(problem, end=problem.end - one)
    for sizes in simpler_sizes(problem.size.tolist()):
        yield replace(problem, size=np.array(sizes, np.int64))


def _fewer_steps(problem: PackingProblem) -> Iterator[PackingProblem]:
    """One step fewer, wherever every live range keeps a step."""
    live = problem.start < problem.end
    for step in np.unique(np.append(problem.start, problem.end)).tolist():
        start = problem.start - (problem.start >= step)
        end = problem.end - (problem.end >= step)
        if step > 0 and (start < end)[live].all():
            yield replace(problem, start=start, end=end)
