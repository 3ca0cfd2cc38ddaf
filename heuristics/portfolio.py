"""The heuristics that `solve` tries, in order of promise, each one run only on demand.

A heuristic that fails is logged and skipped: it only costs a warm start.

Example: `lpmf_backward`, `program` and `lpmf` are tried first. If their best peak equals the bound,
the more expensive ones never run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from heuristics import OWN_ORDERINGS, OWN_PACKINGS, Packing
from heuristics.orderings.lpmf import lpmf_backward_random, lpmf_random
from optsched.errors import GraphError, UnsupportedVersionError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem
from optsched.model.reductions import ByPool, Groups, Reduced

_LOG = logging.getLogger(__name__)

PROMISING_ORDERINGS = ("lpmf_backward", "program", "lpmf", "xla_dfs", "dfs", "xla_list", "bfs")
"""Orderings that are tried first, in this order; the rest of `OWN_ORDERINGS` follows."""
COMPOSITE_ORDERINGS = ("inductor", "xla_default")
"""Orderings that return the best result of others and therefore add none."""
PROMISING_PACKINGS = (
    "skyline",
    "first_fit_size",
    "greedy_by_size",
    "first_fit_breadth",
    "first_fit_arrival",
)
"""Packings to try, in this order; the other packings seldom win and take more time."""
MANY_BUFFERS = 20_000
"""Minimum number of buffers at which the packings of :data:`DOMINATED` are skipped."""
DOMINATED = {
    "hill_climb": "with this number of buffers it is first fit by size",
    "best_fit_area": "never the best on large traces, and the slowest",
    "greedy_by_profile_breadth": "never better than first fit by breadth on large traces, "
    "and slower",
    "naive": "no packing is larger",
}
"""Packings that do not improve results if there are many buffers, with the reasons."""
RANDOM_RUNS = 20
"""Number of randomized LPMF runs, half of them backward."""
RANDOM_WORK = 200_000
"""Maximum number of ops scheduled in all random runs, unless the number of runs is given."""
ONE_POOL = ByPool()
"""All buffers in one pool."""


def candidate_orders(
    graph: Graph,
    *,
    seed: int = 0,
    random_runs: int | None = None,
    peak_of: Callable[[IntArray], int] | None = None,
) -> Iterator[tuple[str, IntArray]]:
    """Yield name and order of every ordering, then of random runs.

    `seed`: seed of the random runs; the seed of each run is part of its name. `random_runs`: number
    of random runs (default: :data:`RANDOM_RUNS`, fewer on large graphs). `peak_of`: function that
    measures the peak memory of an order, for callers that cache peaks.
    """
    measure = partial(peak_memory, graph) if peak_of is None else peak_of
    random = ("lpmf_random", "lpmf_backward_random")
    known = (*PROMISING_ORDERINGS, *COMPOSITE_ORDERINGS, *random)
    # Composites would run their parts a second time, and random runs follow below.
    rest = [name for name in OWN_ORDERINGS if name not in known]
    best: int | None = None
    for name in (*PROMISING_ORDERINGS, *rest):
        try:
            order = OWN_ORDERINGS[name](graph, seed)
            peak = measure(order)
        except UnsupportedVersionError:
            raise
        except Exception as error:
            # A failure must only cost a warm start.
            _LOG.warning("ordering %s failed on %s: %r", name, graph.name, error)
            continue
        best = peak if best is None else min(best, peak)
        yield name, order
    if random_runs is None:
        random_runs = min(RANDOM_RUNS, RANDOM_WORK // max(1, len(graph.ops)))
    for run in range(random_runs):
        try:
            name, order = _random_order(graph, seed, run, best or 0)
            # Later random runs aim below the best peak so far.
            best = min(best or 0, measure(order))
        except UnsupportedVersionError:
            raise
        except Exception as error:
            _LOG.warning("random run %d failed on %s: %r", run, graph.name, error)
            continue
        yield name, order


def packing_turn(buffers: int) -> list[str]:
    """Return the names of all packings worth running for this number of buffers.

    Promising ones come first, the baseline and the slowest one last. Those of :data:`DOMINATED` are
    skipped for many buffers.
    """
    last = ("naive", "hill_climb")
    rest = [name for name in OWN_PACKINGS if name not in (*PROMISING_PACKINGS, *last)]
    turn = (*PROMISING_PACKINGS, *rest, *last)
    left_out = packings_left_out(buffers)
    return [name for name in turn if name not in left_out]


def packings_left_out(buffers: int) -> dict[str, str]:
    """Return the packings not worth running for this number of buffers, with the reasons."""
    return DOMINATED if buffers >= MANY_BUFFERS else {}


def candidate_offsets(
    problem: PackingProblem, pools: ByPool = ONE_POOL
) -> Iterator[tuple[str, IntArray]]:
    """Yield name and offsets of the packings worth trying.

    With several pools, each pool keeps its best packing so far.
    """
    reduced = Reduced(problem, pools, Groups())
    best: list[IntArray | None] = [None] * len(reduced.parts)
    for name in PROMISING_PACKINGS if problem.is_in_range else ():
        try:
            packed = [OWN_PACKINGS[name](part) for part in reduced.parts]
        except UnsupportedVersionError:
            raise
        except GraphError:
            # It finds no valid packing, as it may where sizes are huge.
            continue
        except Exception as error:
            _LOG.warning("packing %s failed on %s: %r", name, problem.name, error)
            continue
        if len(pools) > 1:
            rows = zip(reduced.parts, best, packed, strict=True)
            # Pools are independent, so the best packings of all of them combine.
            best[:] = packed = [_smaller(part, known, new) for part, known, new in rows]
        yield name, reduced.lift(packed)


def _smaller(problem: PackingProblem, known: IntArray | None, new: IntArray) -> IntArray:
    """Return the offsets of the smaller slab, the known ones if both are equal."""
    if known is None or problem.slab_size(new) < problem.slab_size(known):
        return new
    return known


def pack_apart(problem: PackingProblem, pools: ByPool, packing: Packing) -> IntArray:
    """Return the offsets of a packing that is applied to each pool separately.

    Packings need not handle groups that share an offset: each group is passed as one buffer.
    """
    reduced = Reduced(problem, pools, Groups())
    return reduced.lift([np.asarray(packing(part)) for part in reduced.parts])


def _random_order(graph: Graph, seed: int, run: int, best: int) -> tuple[str, IntArray]:
    """Return name and order of a random run; half of the runs aim for a peak below `best`."""
    ordering = (lpmf_backward_random, lpmf_random)[run % 2]
    own_seed = seed + run // 2 + 1
    # Every second seed concentrates on staying below the best peak, the others explore.
    bound = max(0, best - 1) if own_seed % 2 else 0
    return f"{ordering.__name__}:{own_seed}", ordering(graph, own_seed, bound=bound)
