"""Mutations keep the order in which the graph was lowered, also against nodes' dependencies."""

from __future__ import annotations

import random
from collections.abc import Callable
from graphlib import TopologicalSorter
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import ir  # noqa: E402
from torch._inductor.virtualized import V  # noqa: E402

from optsched.plugins.inductor.reading.guards import (  # noqa: E402
    draws_numbers,
    find_draws,
    find_guards,
    settle_conflicts,
)
from tests.support.compiled_pairs import run_pair  # noqa: E402


def inner(name: str, reads: str = "", mutates: str = "", op: Any = None) -> Any:
    """A node of the scheduler, as far as guards look at it."""
    output = SimpleNamespace(get_name=lambda: f"{name}'", get_mutations=lambda: [*mutates])
    return SimpleNamespace(
        node=SimpleNamespace(op_overload=op),
        get_name=lambda: name,
        get_outputs=lambda: [output],
        read_writes=SimpleNamespace(reads=[SimpleNamespace(name=b) for b in reads], writes=[]),
    )


def fused(*nodes: Any) -> Any:
    return SimpleNamespace(get_nodes=lambda: nodes)


def guards(
    lowered: str,
    nodes: list[Any],
    find: Callable[[list[Any]], list[frozenset[int]]] = find_guards,
) -> list[frozenset[int]]:
    graph = SimpleNamespace(
        operations=[SimpleNamespace(get_operation_name=lambda name=name: name) for name in lowered],
        name_to_buffer={},
        scheduler=SimpleNamespace(mutation_real_name={}),
    )
    with V.set_graph_handler(graph):
        return find(nodes)


def test_a_reader_that_was_lowered_after_the_mutation_runs_after_it() -> None:
    """Op `m` overwrites `x`; op `r` reads it, comes later, and stands first nevertheless."""
    nodes = [fused(inner("r", reads="x")), fused(inner("m", mutates="x"))]
    assert guards("mr", nodes) == [{1}, set()]
    assert guards("rm", nodes) == [set(), {0}]


def test_readers_between_two_mutations_stay_between_them() -> None:
    nodes = [
        fused(inner("m", mutates="x")),
        fused(inner("r", reads="x")),
        fused(inner("s", reads="x"), inner("t", reads="y")),
        fused(inner("n", mutates="x")),
        fused(inner("u", reads="x")),
    ]
    assert guards("mrstnu", nodes) == [set(), {0}, {0}, {0, 1, 2}, {3}]


@pytest.mark.parametrize("seed", range(200))
def test_conflicts_leave_an_order_that_keeps_all_other_guards(seed: int) -> None:
    """Against the definition: what is on no cycle stays, what is on one goes by position."""
    draw = random.Random(seed)
    count = draw.randint(2, 7)
    known = [frozenset(u for u in range(v) if draw.random() < 0.2) for v in range(count)]
    wanted = [
        frozenset(u for u in range(count) if u != v and draw.random() < 0.2) for v in range(count)
    ]
    settled = settle_conflicts(wanted, known)
    before = [a | b for a, b in zip(settled, known, strict=True)]
    list(TopologicalSorter(dict(enumerate(before))).static_order())
    reach = _reachable([a | b for a, b in zip(wanted, known, strict=True)])
    for v, nodes in enumerate(wanted):
        for u in nodes:
            if (v, u) in reach:
                assert min(u, v) in settled[max(u, v)]
            else:
                assert u in settled[v]


def _reachable(before: list[frozenset[int]]) -> set[tuple[int, int]]:
    """Pairs whose first node has to run before the second."""
    found = {(u, v) for v, nodes in enumerate(before) for u in nodes}
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


def test_a_kernel_on_both_sides_of_a_mutation_stays_where_inductor_has_it() -> None:
    both = fused(inner("r", reads="x"), inner("s", reads="x"))
    change = fused(inner("m", mutates="x"))
    nothing = [frozenset[int]()] * 2
    assert guards("rms", [both, change]) == [{1}, {0}]
    assert settle_conflicts(guards("rms", [both, change]), nothing) == [set(), {0}]
    assert settle_conflicts(guards("rms", [change, both]), nothing) == [set(), {0}]


def test_random_numbers_are_drawn_in_the_order_of_the_program() -> None:
    draw = torch.ops.aten.bernoulli.p
    nodes = [fused(inner("s", op=draw)), fused(inner("r", op=draw)), fused(inner("t"))]
    assert guards("rst", nodes, find_draws) == [{1}, set(), set()]
    # Inductor's own order may draw other numbers: no guard of a mutation forbids it.
    assert guards("rst", nodes) == [set()] * 3


@pytest.mark.parametrize(("dropout", "draws"), [(0.0, False), (0.1, True)])
def test_attention_draws_numbers_for_dropout_only(dropout: float, draws: bool) -> None:
    op = torch.ops.aten._scaled_dot_product_flash_attention.default
    target = object.__new__(ir.FallbackKernel)
    given = {
        "op_overload": op,
        "inputs": ["q", "k", "v"],
        "constant_args": [dropout],
        "kwargs": {},
        "unflatten_args": lambda inputs, constants: ([*inputs, *constants], {}),
    }
    for name, value in given.items():
        object.__setattr__(target, name, value)
    assert draws_numbers(target) is draws
    assert draws_numbers(SimpleNamespace(op_overload=torch.ops.aten.bernoulli.p))


def test_what_nobody_mutates_needs_no_guard() -> None:
    assert guards("rs", [fused(inner("r", reads="x")), fused(inner("s", reads="x"))]) == [set()] * 2


def test_a_random_module_needs_no_more_memory() -> None:
    """Three of Inductor's four orders of its backward graph read a buffer before it is filled."""
    pair = run_pair(5, kernels=False)
    assert pair.reordered
    for before, after in zip(pair.before, pair.after, strict=True):
        assert after.peak <= before.peak
