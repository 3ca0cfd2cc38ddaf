"""Fits: the cheapest measure by which a graph meets a capacity, or the reason against it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optsched import Graph, GraphBuilder, fits, peak_memory, recompute, solve, write_graph
from optsched.cli import main
from optsched.errors import UsageError
from tests.support.brute import least_peak
from tests.support.commands import Cli
from tests.support.generators import random_graph


def step() -> Graph:
    build = GraphBuilder("step", cost_unit="us")
    build.input("x", 8, "excluded")
    build.input("tangents_1", 0, "excluded")
    build.op("widen", reads=["x"], writes={"a": 60}, cost=10)
    build.op("gelu", reads=["a"], writes={"b": 60}, cost=1)
    build.op("narrow", reads=["b"], writes={"c": 8}, cost=10)
    build.op("loss", reads=["c"], writes={"l": 4}, cost=5)
    build.output("l")
    build.op("narrow_back", reads=["c", "b", "tangents_1"], writes={"gb": 60}, cost=20)
    build.op("gelu_back", reads=["gb", "a"], writes={"ga": 60}, cost=2)
    build.op("widen_back", reads=["ga", "x"], writes={"gw": 16}, cost=20)
    build.output("gw")
    return build.build()


def test_each_measure_is_the_answer_where_it_is_the_cheapest() -> None:
    graph = step()
    least = solve(graph, objective="peak").peak
    own = peak_memory(graph, [op.name for op in graph.ops])
    assert own > least
    assert fits(graph, own).way == "as it is"
    assert fits(graph, least).way == "another order"
    repeated = fits(graph, least - 1)
    planned = recompute(graph, peak=least - 1)
    assert (repeated.way, repeated.bytes) == ("repeats", planned.peak)
    assert repeated.extra == planned.extra / planned.total
    refused = fits(graph, 100)
    assert refused.fits is False
    assert not refused
    assert str(refused).startswith("no: no order and no repeats of forward ops help; op ")


def test_answers_are_true_on_random_graphs() -> None:
    for seed in range(60):
        graph = random_graph(np.random.default_rng(seed), 6)
        least = solve(graph).slab
        assert fits(graph, least).fits is True
        below = fits(graph, least - 1)
        assert below.fits is False
        assert f"needs less than {least:,} bytes" in below.reason
        assert least >= least_peak(graph)


def test_the_command_answers_by_line_and_exit_code(tmp_path: Path, cli: Cli) -> None:
    path = str(tmp_path / "step.json")
    write_graph(step(), path)
    assert cli("fits", path, "1KiB").startswith("yes, as it is: ")
    record = cli.json("fits", path, "100", code=4)
    assert (record["fits"], record["way"], record["capacity"]) == (False, "", 100)
    assert main(["fits", path, "lots"]) == 2


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="give a capacity"):
        fits(step())
    with pytest.raises(UsageError, match="a graph has no batch"):
        fits(step(), 5, 8)
