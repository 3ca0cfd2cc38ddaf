"""The generator itself: valid, repeatable, and using every feature it promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from optsched.check.plan import check_order
from optsched.model.elements import InputPolicy, OutputPolicy
from optsched.model.graph import Graph
from tests.support.generators import FEATURES, PLAIN, PLANNABLE, graphs, random_graph, random_order


def features_of(graph: Graph) -> set[str]:
    """Name the features that a graph shows ("shuffled" is invisible)."""
    found = set()
    for op in graph.ops:
        found |= {"control"} if op.control else set()
        found |= {"uses"} if op.uses else set()
        found |= {"workspace"} if op.workspace is not None else set()
        found |= {"multi"} if len(op.writes) > 2 else set()
    for buffer in graph.buffers:
        found |= {"alignment"} if buffer.alignment > 1 else set()
        found |= {"births"} if buffer.birth is not None else set()
        found |= {"external"} if buffer.external else set()
        found |= {"inputs"} if buffer.input is not None else set()
        found |= {"mutation"} if buffer.mutates else set()
        found |= {"pins"} if buffer.pin is not None else set()
        found |= {"pools"} if buffer.pool else set()
        found |= {"views"} if buffer.alias_of is not None and not buffer.mutates else set()
        found |= {"zeros"} if not buffer.size and buffer.alias_of is None else set()
    return found | ({"inplace"} if graph.inplace_candidates else set())


def test_all_features_occur_and_no_other() -> None:
    rng = np.random.default_rng(1)
    seen = set().union(*(features_of(random_graph(rng, 20, features=FEATURES)) for _ in range(50)))
    assert seen == FEATURES - {"shuffled"}
    assert features_of(random_graph(rng, 50, features=PLAIN)) == set()
    with pytest.raises(ValueError, match="unknown features"):
        random_graph(rng, features={"viwes"})


def test_policies_all_occur() -> None:
    rng = np.random.default_rng(2)
    buffers = [b for _ in range(100) for b in random_graph(rng).buffers]
    # Constants and scratch have models of their own: `tests/model/test_regions.py`.
    apart = {InputPolicy.CONSTANT, InputPolicy.SCRATCH}
    assert {b.input for b in buffers} == {None, *InputPolicy} - apart
    assert {b.output for b in buffers} == {None, *OutputPolicy}
    assert any(b.input and b.output for b in buffers)


@pytest.mark.parametrize("seed", range(20))
def test_program_order_and_random_orders_are_valid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 30)
    assert len(graph.ops) == 30
    check_order(graph, range(30))
    shuffled = random_graph(rng, 30, features=PLANNABLE | {"shuffled"})
    check_order(shuffled, random_order(rng, shuffled))


def test_same_seed_same_graph() -> None:
    one, two = (random_graph(np.random.default_rng(7), 40) for _ in range(2))
    assert one == two


@settings(max_examples=50, deadline=None)
@given(graphs(features=FEATURES))
def test_strategy_makes_valid_graphs(graph: Graph) -> None:
    assert len(graph.ops) <= 8
