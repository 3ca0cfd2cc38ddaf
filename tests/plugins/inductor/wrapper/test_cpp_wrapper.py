"""Results of several tensors in a C++ wrapper: no tuple holds them, so each goes on its own."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from optsched.model.liveness import peak_memory
from optsched.plugins.inductor.orders.runtime_graph import build_runtime_graph
from optsched.plugins.inductor.wrapper.facts import (
    Allocation,
    ExternCall,
    Member,
    Order,
    Returned,
    WrapperBuffer,
    WrapperFacts,
    WrapperNode,
    is_valid_order,
)
from optsched.plugins.inductor.wrapper.simulate import simulate

READ = 3
"""Members that a node reads; one more is read by none."""


def several(seed: int) -> tuple[WrapperFacts, list[int]]:
    """A call returns four tensors, and a kernel each reads three of them; sizes are random."""
    sizes = [random.Random(seed).randrange(1, 100) for _ in range(READ + 1)]
    names = [f"m{i}" for i in range(READ)]
    members = [Member(name, size) for name, size in zip(names, sizes, strict=False)]
    call = ExternCall(Returned.TUPLE, "call", members=(*members, Member("call[3]", sizes[READ])))
    buffers = {"call": WrapperBuffer("call", 0, Allocation.NONE)}
    nodes = [node("call", frozenset({"call"}), (), call)]
    for name, size in zip(names, sizes, strict=False):
        buffers[name] = WrapperBuffer(name, size, Allocation.NONE)
        member = ExternCall(Returned.MEMBER, name, parent="call")
        nodes.append(node(name, frozenset({"call", name}), (0,), member))
    for i, name in enumerate(names):
        nodes.append(node(f"reads {name}", frozenset({name}), (1 + i,), None))
    facts = WrapperFacts(
        nodes=tuple(nodes),
        buffers=buffers,
        inputs=(),
        outputs=frozenset(),
        local=frozenset(),
        graph_inputs=frozenset(),
        estimate=(),
        max_arguments=-1,
        tuples=False,
    )
    return facts, sizes


def node(
    name: str, used: frozenset[str], before: tuple[int, ...], call: ExternCall | None
) -> WrapperNode:
    outputs = (call.name,) if call else ()
    arguments = frozenset() if call else used
    return WrapperNode(name, used, (), outputs, frozenset(before), call, arguments=arguments)


def least_and_timeline(sizes: list[int], order: Order) -> list[int]:
    """Live bytes after each node: a member goes with its reader, the fourth never."""
    gone = {1 + READ + i: sizes[i] for i in range(READ)}
    live = [sum(sizes)]
    for v in order[1:]:
        live.append(live[-1] - gone.get(v, 0))
    return live


@pytest.mark.parametrize("seed", range(10))
def test_each_member_goes_after_its_last_use_in_every_order(seed: int) -> None:
    facts, sizes = several(seed)
    orders = [o for o in itertools.permutations(range(1 + 2 * READ)) if is_valid_order(facts, o)]
    assert len(orders) == 90
    for order in orders:
        found = simulate(facts, order, reuse=False, timeline=True)
        after = dict(zip((v for v in order), least_and_timeline(sizes, order), strict=True))
        assert (found.peak, found.end) == (sum(sizes), sizes[READ])
        for i in range(READ):
            reader = 1 + READ + i
            (freed,) = (live for line, live in found.timeline if line == f"free m{i}")
            assert freed == after[reader]
        # In Python the tuple holds all members until the last one is unpacked.
        assert simulate(replace(facts, tuples=True), order, reuse=False).end == 0


@pytest.mark.parametrize("seed", range(10))
def test_the_graph_of_the_solver_says_the_same(seed: int) -> None:
    facts, sizes = several(seed)
    runtime = build_runtime_graph(facts, "several")
    kept = {b.name for b in runtime.graph.buffers if b.output is not None}
    order = runtime.op_order(tuple(range(len(facts.nodes))))
    assert peak_memory(runtime.graph, order) == sum(sizes)
    assert "call[3]" in kept
    assert not kept & {f"m{i}" for i in range(READ)}
