"""Views of views, views that outlive their base, mutation chains and in-place, in every engine.

    python -m tests.fuzz views --count 2000 --seed 0

Random graphs of up to five ops that name old buffers rather than make new ones: most ops write a
view of a view or overwrite what they read, views are graph outputs whose base is not, inputs are
viewed and overwritten, and in-place candidates are named by views. Half of them are in-place. The
optimum of peak and slab, over all orders, offsets and choices of pairs, is compared with the
search of orders, `solve`, CP-SAT and the MILP; bounds are to lie below it; each plan is checked and
replayed, and the certificate of its peak is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from optsched.certificate import certify_peak
from optsched.check.certificate import check_certificate
from optsched.check.plan import check_order, check_plan
from optsched.check.replay import replay_plan
from optsched.errors import GraphError
from optsched.joint.cpsat import solve_joint
from optsched.joint.milp import solve_order_milp
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.ordering import solve_order
from optsched.ordering.bound.closure import closure_bound
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.runtime.limits import Limits, Objective
from optsched.solver.pipeline import solve
from tests.support.brute import least_peak, least_slab_of, orders, peak_inplace
from tests.support.generators import random_order

LIMITS = Limits(60.0)
MAX_ROOTS = 6


def main(count: int = 2_000, seed: int = 0, *, models: int = 4) -> int:
    compared, wrong = fuzz(count, seed, models)
    for line in wrong:
        print(line)
    print(f"{compared} graphs compared, {len(wrong)} wrong")
    return 1 if wrong else 0


def fuzz(graphs: int, seed: int, models: int = 4) -> tuple[int, list[str]]:
    """Return the number of graphs compared, and the faults."""
    compared, wrong, number = 0, [], 0
    while compared < graphs:
        rng = np.random.default_rng([seed, number])
        number += 1
        graph = some_graph(rng)
        if graph is None:
            continue
        compared += 1
        for said in differences(rng, graph, models=compared % models == 0):
            wrong.append(f"graph {number - 1} of seed {seed}: {said}")
    return compared, wrong


def some_graph(rng: np.random.Generator) -> Graph | None:
    """Make a graph in which most names are views; None where its mutations contradict."""
    buffers: list[Buffer] = []
    for i in range(rng.integers(1, 3)):
        policy = InputPolicy(str(rng.choice(["freed", "freed", "kept", "excluded"])))
        buffers.append(Buffer(f"in{i}", int(rng.integers(1, 7)), input=policy))
    ops: list[Op] = []
    pairs: list[tuple[int, int, int]] = []
    for v in range(rng.integers(1, 6)):
        reads = sorted({int(b) for b in rng.integers(len(buffers), size=rng.integers(1, 3))})
        kind = rng.random()
        if kind < 0.6:
            mutates = bool(rng.random() < 0.5)
            buffers.append(Buffer(f"v{v}", 0, alias_of=reads[-1], mutates=mutates))
        else:
            size = _size_like(rng, buffers, reads[0])
            buffers.append(Buffer(f"b{v}", size))
            pairs += [(v, len(buffers) - 1, b) for b in reads]
        # An op may use any earlier name, also an old view of bytes that were overwritten since.
        uses = tuple(b for b in range(len(buffers) - 1) if rng.random() < 0.1)
        ops.append(Op(f"op{v}", tuple(reads), uses, writes=(len(buffers) - 1,)))
    for b, buffer in enumerate(buffers):
        if rng.random() < 0.25 and buffer.input is not InputPolicy.EXCLUDED:
            buffers[b] = replace(buffer, output=OutputPolicy.LIVE)
    try:
        graph = Graph("views", tuple(ops), tuple(buffers), tuple(pairs))
    except GraphError:
        return None
    return graph.with_inplace() if rng.random() < 0.5 else graph


def _size_like(rng: np.random.Generator, buffers: list[Buffer], source: int) -> int:
    """As large as what a name stands for, most of the time."""
    root = source
    while (parent := buffers[root].alias_of) is not None:
        root = parent
    return buffers[root].size if rng.random() < 0.7 else int(rng.integers(1, 7))


def differences(rng: np.random.Generator, graph: Graph, *, models: bool) -> Iterator[str]:
    """Yield what is wrong of one graph."""
    # Three ways to count a peak: by definition, by the checker, by the search's arrays.
    for order in orders(graph):
        right = peak_inplace(graph, order)
        if not right == check_order(graph, order) == peak_memory(graph, order):
            yield f"order {order} has a peak of {right}"
    peak = least_peak(graph)
    start = random_order(rng, graph)
    for bound in (peak_lower_bound(graph, [start]).value, closure_bound(graph).value):
        if bound > peak:
            yield f"bound {bound} above the least peak {peak}"
    found = solve_order(graph, warm_start=start)
    if (found.peak, found.bound) != (peak, peak):
        yield f"least peak {peak}, the search of orders says {found}"
    slab = least_slab_of(graph) or 0
    result = solve(graph)
    if result.plan is None or (result.slab, result.slab_bound) != (slab, slab):
        yield f"least slab {slab}, solve says {result}"
    else:
        check_plan(graph, result.plan, slab=slab)
        replay_plan(graph, result.plan)
    written = certify_peak(graph, list(found.order), peak, limits=LIMITS)
    if written.missing or written.certificate.bound != peak:
        yield f"certificate of {peak}: {written.missing}"
    else:
        check_certificate(graph, written.certificate)
    if models:
        yield from _model_differences(graph, peak, slab)


def _model_differences(graph: Graph, peak: int, slab: int) -> Iterator[str]:
    """Yield what the two models have wrong."""
    for objective, least in ((Objective.SLAB, slab), (Objective.PEAK, peak)):
        joint = solve_joint(graph, objective=objective, limits=LIMITS)
        if (joint.value, joint.bound) != (least, least) or joint.plan is None:
            yield f"least {objective} {least}, CP-SAT says {joint}"
        else:
            check_plan(graph, joint.plan, **{objective.value: least})
    milp = solve_order_milp(graph, limits=LIMITS)
    if (milp.value, milp.bound) != (peak, peak):
        yield f"least peak {peak}, the MILP says {milp}"
