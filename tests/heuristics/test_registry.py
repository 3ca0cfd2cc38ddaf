"""Registered methods can be compared by name; what `solve` tries is a list of its own."""

from __future__ import annotations

import importlib.metadata
import logging
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from heuristics import (
    ORDERINGS,
    PACKINGS,
    load_plugins,
    portfolio,
    register_ordering,
    register_packing,
)
from optsched.api import hunt
from optsched.compare import compare_methods
from optsched.compare.methods import parse_methods
from optsched.errors import UsageError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.runtime.limits import Limits
from optsched.solver.pack import pack
from optsched.solver.pipeline import solve
from tests.support.families.small import diamond
from tests.support.generators import random_graph
from tests.support.registries import registries_kept


@pytest.fixture(autouse=True)
def _registries() -> Iterator[None]:
    with registries_kept():
        yield
    load_plugins.cache_clear()


def test_a_decorated_function_is_a_method_by_its_name() -> None:
    @register_ordering("mine")
    def mine(graph: Graph, seed: int = 0) -> IntArray:
        return np.arange(len(graph.ops))

    @register_packing("stacked")
    def stacked(problem: PackingProblem) -> IntArray:
        return np.cumsum(problem.size) - problem.size

    assert ORDERINGS["mine"] is mine
    assert PACKINGS["stacked"] is stacked
    assert [method.name for method in parse_methods(["mine", "mine+stacked"])] == [
        "mine",
        "mine+stacked",
    ]


@pytest.mark.parametrize("name", ["lpmf", "skyline", "", " ", "a+b", "plan:x", "a*"])
def test_a_name_that_is_taken_or_means_something_else_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        register_ordering(name)(ORDERINGS["program"])


def test_without_parentheses_the_name_is_that_of_the_function() -> None:
    @register_ordering
    def listed(graph: Graph, seed: int) -> range:
        return range(len(graph.ops))

    @register_packing()
    def in_a_row(problem: PackingProblem) -> list[int]:
        return [int(x) for x in np.cumsum(problem.size) - problem.size]

    assert ORDERINGS["listed"] is listed
    assert PACKINGS["in_a_row"] is in_a_row
    found = compare_methods(diamond(), methods=["listed+in_a_row"], time_limit=5)
    assert found.find_row("listed+in_a_row") is not None


def test_a_function_that_is_defined_again_replaces_itself_and_no_other() -> None:
    def cell(module: str) -> Any:
        def mine(graph: Graph, seed: int) -> range:
            return range(len(graph.ops))

        mine.__module__ = module
        return mine

    for _ in range(2):
        newest = register_ordering(cell("__main__"))
    assert ORDERINGS["mine"] is newest
    with pytest.raises(
        UsageError, match=r"'mine' is already registered \(__main__.*del heuristics.ORD"
    ):
        register_ordering(cell("elsewhere"))
    with pytest.raises(UsageError, match=r"del heuristics.ORDERINGS\['mine'\]"):
        register_packing("mine")(cell("__main__"))
    del ORDERINGS["mine"]
    assert register_ordering(cell("elsewhere")) is ORDERINGS["mine"]


@pytest.mark.parametrize("wrong", [3, ["lpmf"]])
def test_what_is_no_name_or_function_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="invalid method name"):
        register_ordering(wrong)(ORDERINGS["program"])
    with pytest.raises(UsageError, match="a method must be a function"):
        register_ordering("mine")(wrong)


def test_solve_and_pack_never_call_what_is_registered() -> None:
    called: list[str] = []

    @register_ordering("slow_and_wrong")
    def slow(graph: Graph, seed: int = 0) -> IntArray:
        called.append("slow_and_wrong")
        time.sleep(30)
        raise RuntimeError

    @register_packing("wrong")
    def wrong(problem: PackingProblem) -> IntArray:
        called.append("wrong")
        raise RuntimeError

    graph = random_graph(np.random.default_rng(2), 12)
    problem, _ = packing_problem(graph, ORDERINGS["program"](graph, 0))
    assert solve(graph, limits=Limits(seconds=1)).plan is not None
    assert pack(problem, limits=Limits(seconds=1)).offsets is not None
    assert called == []


def test_a_heuristic_of_our_own_that_fails_is_logged_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*arguments: object) -> IntArray:
        raise ZeroDivisionError

    first = portfolio.PROMISING_ORDERINGS[0], portfolio.PROMISING_PACKINGS[0]
    monkeypatch.setattr(portfolio, "OWN_ORDERINGS", {**ORDERINGS, first[0]: fails})
    monkeypatch.setattr(portfolio, "OWN_PACKINGS", {**PACKINGS, first[1]: fails})
    graph = random_graph(np.random.default_rng(3), 12)
    with caplog.at_level(logging.WARNING):
        result = solve(graph, engine="heuristics")
    assert result.plan is not None
    assert {record.args[0] for record in caplog.records if record.args} == set(first)


def test_a_random_run_that_fails_is_logged_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = portfolio._random_order

    def fails_at_first(graph: Graph, seed: int, run: int, best: int) -> tuple[str, IntArray]:
        if run == 0:
            raise ZeroDivisionError
        return made(graph, seed, run, best)

    monkeypatch.setattr(portfolio, "_random_order", fails_at_first)
    graph = random_graph(np.random.default_rng(3), 12)
    with caplog.at_level(logging.WARNING):
        found = [name for name, _ in portfolio.candidate_orders(graph, random_runs=3)]
    assert sum(":" in name for name in found) == 2
    assert "random run 0 failed" in caplog.text


def test_entry_points_are_methods_and_a_broken_one_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise ImportError("no such module")

    found = {
        "optsched.orderings": [SimpleNamespace(name="theirs", load=lambda: ORDERINGS["bfs"])],
        "optsched.packings": [SimpleNamespace(name="broken", load=broken)],
    }
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found[group])
    load_plugins.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert [method.name for method in parse_methods(["theirs"])] == ["theirs"]
    assert "broken" in caplog.text
    assert "broken" not in PACKINGS


def test_a_packing_of_ones_own_may_return_a_list_to_a_hunt_as_well() -> None:
    @register_packing
    def in_a_row(problem: PackingProblem) -> list[int]:
        return [int(x) for x in np.cumsum(problem.size) - problem.size]

    found = hunt("in_a_row", max_ops=3, max_bytes=4, max_tries=30)
    assert found.counterexample is not None
