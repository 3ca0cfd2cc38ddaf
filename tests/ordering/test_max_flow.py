"""Maximum flows against the least cut of all, from both ends, up to the largest capacities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from optsched.ordering.kernels.max_flow import (
    UNBOUNDED,
    Arcs,
    add_arc,
    empty_arcs,
    make_bench,
    mark_side,
    max_flow,
    send,
    take_back,
)

Network = Sequence[tuple[int, int, int]]
"""Tail, head and capacity of each arc."""

FORMS = {"reference": max_flow, "compiled": max_flow.compiled}


def arcs_of(nodes: int, network: Network) -> Arcs:
    arcs = empty_arcs(nodes, len(network))
    e = 0
    for tail, head, capacity in network:
        e = add_arc(arcs, e, tail, head, capacity)
    return arcs


def least_cut(nodes: int, network: Network) -> int:
    """Capacity of the least cut between node 0 and the last one, by all of them."""
    return min(
        sum(c for tail, head, c in network if side >> tail & 1 and not side >> head & 1)
        for side in range(1, 1 << nodes - 1, 2)
    )


def random_network(rng: np.random.Generator, most: int) -> tuple[int, Network]:
    """Loops, arcs both ways, several of one kind, arcs into the source and out of the sink."""
    nodes = int(rng.integers(2, 9))
    pairs = rng.integers(0, nodes, (int(rng.integers(0, 4 * nodes)), 2)).tolist()
    scale = max(1, most // max(1, len(pairs)))
    return nodes, [(u, v, int(rng.integers(0, scale, endpoint=True))) for u, v in pairs if u != v]


def check_residual(nodes: int, network: Network, arcs: Arcs, sent: int) -> None:
    """The flow is within the capacities, and adds up at each node."""
    balance = [0] * nodes
    for i, (tail, head, capacity) in enumerate(network):
        flow = capacity - int(arcs.room[2 * i])
        assert 0 <= flow <= capacity
        assert int(arcs.room[2 * i + 1]) == flow
        balance[tail] -= flow
        balance[head] += flow
    assert balance[0] == -sent
    assert balance[-1] == sent
    assert not any(balance[1:-1])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("most", [4, 1_000, 2**62])
def test_a_largest_flow_is_the_least_cut(form: str, most: int) -> None:
    rng = np.random.default_rng(most % 97)
    for _ in range(200):
        nodes, network = random_network(rng, most)
        arcs = arcs_of(nodes, network)
        sent = int(FORMS[form](arcs, 0, nodes - 1, UNBOUNDED, UNBOUNDED))
        assert sent == least_cut(nodes, network)
        check_residual(nodes, network, arcs, sent)
        for backwards, node in ((0, 0), (1, nodes - 1)):
            side = mark_side(arcs, node, backwards)
            inside = ~side if backwards else side
            assert sent == sum(c for u, v, c in network if inside[u] and not inside[v])


@pytest.mark.parametrize("from_sink", [0, 1])
def test_a_bench_serves_many_flows_from_either_end(from_sink: int) -> None:
    rng = np.random.default_rng(5)
    bench = make_bench(9, 0)
    for _ in range(300):
        nodes, network = random_network(rng, 1_000)
        arcs = arcs_of(nodes, network)
        sent = int(send(arcs, bench, 0, nodes - 1, UNBOUNDED, from_sink))
        assert sent == least_cut(nodes, network)
        check_residual(nodes, network, arcs, sent)
        assert (bench.level == -1).all()


@pytest.mark.parametrize("from_sink", [0, 1])
def test_it_ends_once_more_than_enough_is_sent(from_sink: int) -> None:
    rng = np.random.default_rng(6)
    short = 0
    for _ in range(200):
        nodes, network = random_network(rng, 1_000)
        most, enough = least_cut(nodes, network), int(rng.integers(-1, 8))
        arcs = arcs_of(nodes, network)
        sent = int(send(arcs, make_bench(nodes, 0), 0, nodes - 1, enough, from_sink))
        check_residual(nodes, network, arcs, sent)
        assert sent > enough or sent == most
        short += sent < most
    assert short > 10


@pytest.mark.parametrize("from_sink", [0, 1])
def test_it_ends_after_so_much_work_with_a_flow(from_sink: int) -> None:
    rng = np.random.default_rng(8)
    short = 0
    for _ in range(200):
        nodes, network = random_network(rng, 1_000)
        arcs, bench = arcs_of(nodes, network), make_bench(nodes, 0)
        bench.left[0] = int(rng.integers(0, 12))
        sent = int(send(arcs, bench, 0, nodes - 1, UNBOUNDED, from_sink))
        check_residual(nodes, network, arcs, sent)
        assert (bench.level == -1).all()
        most = least_cut(nodes, network)
        assert (sent == most) != mark_side(arcs, 0, 0)[nodes - 1]
        short += sent < most
    assert short > 20


@pytest.mark.parametrize("room", [0, 4, 1_000])
def test_what_was_sent_is_taken_back(room: int) -> None:
    rng = np.random.default_rng(7)
    outgrown = 0
    for _ in range(200):
        nodes, network = random_network(rng, 1_000)
        arcs, bench = arcs_of(nodes, network), make_bench(nodes, room)
        before = arcs.room.copy()
        for source, sink in ((0, nodes - 1), (nodes - 1, 0)):
            send(arcs, bench, source, sink, UNBOUNDED, 0)
            outgrown += int(bench.logged[0] < 0)
            take_back(arcs, bench, before)
            assert (arcs.room == before).all()
            assert bench.logged[0] == 0
    assert (outgrown > 0) == (room < 1_000)


def test_arcs_without_capacity_stay_so() -> None:
    """All that ever flows, 2**62, through arcs of no capacity, and back through half of them."""
    network = [
        (0, 1, 2**62),
        (1, 2, UNBOUNDED),
        (2, 3, UNBOUNDED),
        (3, 1, UNBOUNDED),
        (3, 4, 2**62),
    ]
    for form in FORMS.values():
        arcs = arcs_of(5, network)
        assert int(form(arcs, 0, 4, UNBOUNDED, UNBOUNDED)) == 2**62
        assert int(arcs.room[2]) == UNBOUNDED - 2**62
        assert int(arcs.room[6]) == UNBOUNDED
