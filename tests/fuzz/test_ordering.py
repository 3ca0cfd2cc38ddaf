"""The study of odd graphs: its definition agrees with the tests' oracle, and mistakes are found."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from optsched.formats.native import read_graph_document
from optsched.model.graph import Graph
from optsched.ordering import OrderingRules, OrderOutcome, solve_order
from optsched.ordering.context import SearchContext
from optsched.ordering.problem import build_problem
from optsched.ordering.progress import NOTHING_DONE
from optsched.ordering.reduce import blocks as found_blocks
from optsched.runtime import kernel as kernels
from tests.fuzz.ordering import blocks, odd, stopped
from tests.support.block_graphs import block_document
from tests.support.brute import least_peak
from tests.support.definition import Document, Model
from tests.support.odd_graphs import odd_document


@pytest.fixture(autouse=True)
def reference_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzers change which problems compiled kernels are for; at the end it is put back."""
    monkeypatch.setattr(kernels.policy, "force", None)


def odd_graph(seed: int, ops: int = 8) -> tuple[Document, Graph]:
    document = odd_document(random.Random(seed), ops)
    return document, read_graph_document(document)


def test_the_definition_agrees_with_the_oracle_of_the_tests() -> None:
    helped = 0
    for seed in range(40):
        document, graph = odd_graph(seed)
        least = [Model(document, in_place=flag).least_peak(10_000) for flag in (False, True)]
        assert least == [least_peak(graph), least_peak(graph.with_inplace())]
        helped += least[0] != least[1]
    assert helped > 5


def test_nothing_is_wrong() -> None:
    counts: Counter[str] = Counter()
    for seed in range(12):
        document, graph = odd_graph(seed)
        if seed % 2:
            document = block_document(random.Random(seed), 10)
            graph = read_graph_document(document)
        assert list(odd.examine(random.Random(seed), graph, document, counts)) == []
    assert counts["runs"] == 12 * odd.RUNS
    assert counts["runs with identical blocks"] > 0
    assert counts["mutants refused"] > 0


def chain(name: str, left: int) -> tuple[list[Document], list[Document]]:
    """Return ops and buffers of a chain whose last op needs 100 bytes and leaves `left` of them."""
    made, passed, result = f"{name}0", f"{name}1", f"{name}2"
    ops: list[Document] = [
        {"name": f"make_{name}", "reads": [], "writes": [made], "control": []},
        {"name": f"pass_{name}", "reads": [made], "writes": [passed], "control": []},
        {"name": f"end_{name}", "reads": [passed], "writes": [result], "control": []},
    ]
    ops[2]["workspace"] = 92 - left
    kept = {"output": "live"} if left else {}
    sizes = {made: 8, passed: 8, result: left}
    return ops, [{"name": b, "size": n, **(kept if b == result else {})} for b, n in sizes.items()]


def two_chains(*, turned: bool) -> Document:
    """Return two chains that differ in the last op only; `low`, which leaves nothing, goes first.

    The first ops look identical until colors have been refined twice, yet they must not change
    places: if `make_high` runs before `end_low`, 108 bytes are live there instead of 100.
    """
    (ops, buffers), (more_ops, more_buffers) = chain("low", 0), chain("high", 50)
    ops += more_ops
    head = {"format": "optsched-graph/1", "name": "chains", "inplace": []}
    return {**head, "ops": ops[::-1] if turned else ops, "buffers": buffers + more_buffers}


RULES = [field.name for field in fields(OrderingRules)]
ONLY_SYMMETRY = OrderingRules(**{name: name == "symmetry" for name in RULES})


def mistakes_on_two_chains() -> list[str]:
    """Return the wrong answers of a search of states without other rules, for both listings."""
    found: list[str] = []
    for document in (two_chains(turned=False), two_chains(turned=True)):
        problem = build_problem(read_graph_document(document).arrays)
        optimum = Model(document, in_place=False).least_peak(10_000)
        assert optimum == 100
        for seed in range(4):
            context = SearchContext(problem, ONLY_SYMMETRY, blocks.SOON)
            found += blocks.search(random.Random(seed), context, optimum)
    return found


def test_blocks_that_are_not_verified_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_blocks, "MOST_ROUNDS", 1)
    assert mistakes_on_two_chains() == []
    monkeypatch.setattr(found_blocks._Sets, "may_swap", lambda *_: True)
    assert mistakes_on_two_chains()


def test_searches_of_identical_blocks_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_blocks, "MOST_ROUNDS", 1)
    rngs = [random.Random(seed) for seed in range(40)]
    assert [text for rng in rngs for text in blocks.examine(rng, Counter())] == []


def test_a_bound_that_is_too_high_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def boastful(graph: Graph, **settings: Any) -> OrderOutcome:
        found = solve_order(graph, **settings)
        worse = max(graph.arrays.initial, found.peak) + 1
        return replace(found, bound=worse)

    monkeypatch.setattr(odd, "solve_order", boastful)
    document, graph = odd_graph(0)
    assert list(odd.examine(random.Random(0), graph, document, Counter()))


def test_searches_that_are_stopped_and_gone_on_with_are_exact() -> None:
    counts: Counter[str] = Counter()
    rng, other = np.random.default_rng(1), NOTHING_DONE
    for number in range(12):
        other = stopped.examine(rng, stopped.some_graph(rng, number), other, counts)
    assert counts["graphs"] == 12
    assert counts["stops"] > 12
    assert counts["trees handed on"] > 12
    assert counts["parts at hand"] > 0
