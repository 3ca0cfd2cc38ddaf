"""Least peak memory first with random ties and a little noise: many orders where one is dull."""

from __future__ import annotations

import numpy as np

from heuristics.orderings.lpmf import schedule_forward
from heuristics.orderings.lpmf_backward import schedule_backward
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph

NOISE = (0.0, 0.02, 0.1, 0.3)
"""How far a score may move, relative to the bytes the op allocates and uses; one per run."""


def lpmf_random(graph: Graph, seed: int = 0, *, bound: int = 0) -> IntArray:
    """Return a randomised LPMF order, the same for the same seed.

    Parameters
    ----------
    graph
        The graph.
    seed
        Chooses how ties are broken, the amount of noise, and the noise.
    bound
        As long as no more than this many bytes are live, the op that leaves the fewest behind
        runs next, peak so far or not. With the peak of a known order a run concentrates on
        staying below it.
    """
    return schedule_forward(graph, *_draw(graph, seed), bound=bound)


def lpmf_backward_random(graph: Graph, seed: int = 0, *, bound: int = 0) -> IntArray:
    """Return a randomised order of LPMF run backwards; see :func:`lpmf_random`."""
    return schedule_backward(graph, *_draw(graph, seed), bound=bound)


def _draw(graph: Graph, seed: int) -> tuple[IntArray, IntArray]:
    """Noise and ranks for ties, shape `(n + 1,)` each."""
    arrays, n = graph.arrays, len(graph.ops)
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(n), np.diff(arrays.read.ptr))
    used = np.bincount(owner, weights=arrays.size[arrays.read.idx], minlength=n)
    scale = random.choice(NOISE) * (arrays.alloc + used)
    bias = np.zeros(n + 1, np.int64)
    bias[:n] = scale * random.uniform(-1, 1, n)
    return bias, random.permutation(n + 1)
