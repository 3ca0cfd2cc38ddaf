"""Of the orders that need as little, the plugin runs one that moves fewest nodes."""

from __future__ import annotations

import itertools
import random

import pytest

from optsched.model.order_rules import moved_ops
from optsched.plugins.inductor.orders.candidates import with_fewest_moves
from optsched.plugins.inductor.orders.choice import Choice
from optsched.plugins.inductor.orders.runtime_graph import build_runtime_graph
from optsched.plugins.inductor.wrapper.facts import (
    Allocation,
    ExternCall,
    Returned,
    WrapperBuffer,
    WrapperFacts,
    WrapperNode,
    is_valid_order,
)
from optsched.plugins.inductor.wrapper.simulate import simulate

NODES = 6


def random_calls(seed: int) -> WrapperFacts:
    """Extern kernels; each reads some of the buffers of earlier ones."""
    draw = random.Random(seed)
    nodes = []
    for v in range(NODES):
        reads = frozenset(u for u in range(v) if draw.random() < 0.4)
        nodes.append(
            WrapperNode(
                name=f"op{v}",
                used=frozenset(f"b{u}" for u in (v, *reads)),
                definitions=(),
                outputs=(f"b{v}",),
                predecessors=reads,
                extern=ExternCall(Returned.TENSOR, f"b{v}", workspace=draw.choice((0, 0, 4))),
            )
        )
    return WrapperFacts(
        nodes=tuple(nodes),
        buffers={
            f"b{v}": WrapperBuffer(f"b{v}", draw.randint(1, 9), Allocation.NONE)
            for v in range(NODES)
        },
        inputs=(),
        outputs=frozenset({f"b{NODES - 1}"}),
        local=frozenset(),
        graph_inputs=frozenset(),
        estimate=(),
        max_arguments=500,
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_order_that_needs_as_little_moves_fewer(seed: int) -> None:
    facts = random_calls(seed)
    framework = tuple(range(NODES))
    orders = [o for o in itertools.permutations(framework) if is_valid_order(facts, o)]
    peaks = {order: simulate(facts, order, reuse=False).peak for order in orders}
    least = min(peaks.values())
    moved = {o: moved_ops(o, framework) for o in orders if peaks[o] == least}
    worst = max(moved, key=lambda order: moved[order])
    best = Choice("optimum", worst, False, least, moved[worst])
    found = with_fewest_moves(facts, build_runtime_graph(facts, "calls"), best, framework, 5.0)
    assert (found.moved, found.peak) == (min(moved.values()), least)
    assert found.moved == moved_ops(found.order, framework)
    assert peaks[found.order] == least


def test_without_time_the_order_stays() -> None:
    facts = random_calls(0)
    order = next(
        o for o in itertools.permutations(range(NODES)) if o[0] and is_valid_order(facts, o)
    )
    best = Choice("optimum", order, False, simulate(facts, order, reuse=False).peak, NODES)
    runtime = build_runtime_graph(facts, "calls")
    assert with_fewest_moves(facts, runtime, best, tuple(range(NODES)), 0.0) is best
