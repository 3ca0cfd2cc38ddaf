"""Precedences that tell when inputs can be overwritten, against enumeration of orders."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.ordering import inplace, solve_order
from optsched.ordering.availability import find_availability
from optsched.ordering.problem import build_problem
from tests.ordering.test_inplace import least_of, some_graph
from tests.support.brute import inplace_pairs, least_peak, orders


def available(graph: Graph, order: tuple[int, ...], v: int, source: int) -> bool:
    users = graph.arrays.user.row(source).tolist()
    return all(order.index(u) < order.index(v) for u in users if u != v)


def test_what_precedences_tell_holds_in_every_order() -> None:
    rng = np.random.default_rng(3)
    certain = never = 0
    for _ in range(80):
        graph = some_graph(rng, 7)
        every = list(orders(graph))
        for v in range(len(graph.ops)):
            inputs = sorted({source for u, _, source in inplace_pairs(graph) if u == v})
            known = find_availability(graph.arrays, v, inputs)
            met = {s: [available(graph, order, v, s) for order in every] for s in inputs}
            assert known.certain == {s for s in inputs if all(met[s])}
            assert known.never == {s for s in inputs if not any(met[s])}
            for source, others in known.implied.items():
                assert source in others
                for other in others:
                    assert all(b or not a for a, b in zip(met[source], met[other], strict=True))
            certain += len(known.certain)
            never += len(known.never)
    assert min(certain, never) > 5


def test_the_optimum_stays_with_and_without_precedences(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    fewer = 0
    for _ in range(120):
        graph = some_graph(rng, 7)
        ops, optimum = len(graph.ops), least_peak(graph)
        plain = build_problem(graph.arrays)
        with monkeypatch.context() as patch:
            patch.setattr(inplace, "FEW_INPUTS", 0)
            known = build_problem(graph.arrays)
            outcome = solve_order(graph)
        fewer += len(known.saving) < len(plain.saving)
        assert least_of(known, ops) == least_of(plain, ops) == optimum
        assert check_order(graph, outcome.order) == outcome.peak == outcome.bound == optimum
    assert fewer > 5


def fused(count: int, *, read_again: str) -> Graph:
    """A kernel that makes `count` sums of as many gradients, which other ops read as well."""
    build = GraphBuilder("fused")
    names = [f"g{i}" for i in range(count)]
    for name in names:
        build.op(f"make {name}", writes={name: 8})
    if read_again == "before":
        build.op("early", reads=names, writes={"e": 1})
    build.op("kernel", reads=[*names, *(["e"] if read_again == "before" else [])],
             writes={f"s{i}": 8 for i in range(count)})  # fmt: skip
    if read_again == "after":
        build.op("late", reads=[*names, "s0"])
    elif read_again == "together":
        build.op("other", reads=names)
    for i in range(count):
        for source in names[: i + 1]:
            build.inplace("kernel", f"s{i}", source)
    return build.build().with_inplace()


@pytest.mark.parametrize(("read_again", "ways"), [("after", 0), ("before", 0), ("together", 1)])
def test_a_kernel_of_dozens_of_buffers_has_few_ways_left(read_again: str, ways: int) -> None:
    """Without precedences it would have 2**24 sets of inputs to overwrite."""
    graph = fused(24, read_again=read_again)
    assert len(build_problem(graph.arrays).saving) == ways
    outcome = solve_order(graph)
    in_place = read_again != "after"
    assert (
        outcome.peak == outcome.bound == 24 * 8 * (1 if in_place else 2) + (read_again == "before")
    )
    assert check_order(graph, outcome.order) == outcome.peak
