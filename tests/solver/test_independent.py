"""Engines as second opinions, without our reductions and bounds; features that they lack."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched import solve
from optsched.errors import GraphError, UsageError
from optsched.formats import read_graph
from optsched.model.builder import GraphBuilder
from optsched.runtime.limits import Proof
from optsched.solver.status import Status
from tests.support.commands import Cli

LLAMA = Path(__file__).parents[2] / "instances" / "inductor" / "llama_2l_bs1.bwd.json.gz"


@pytest.mark.parametrize("engine", ["cpsat", "milp"])
def test_an_independent_engine_claims_what_the_search_proves(engine: str) -> None:
    graph = read_graph(LLAMA)
    result = solve(graph, engine=engine, independent=True, time_limit=60)
    assert result.peak == 3_554_992_128
    assert Proof.CLAIMED in (result.peak_proof, result.slab_proof)
    assert (result.peak_bound, result.status) == (0, Status.FEASIBLE)
    assert solve(graph, time_limit=60).peak_bound == 3_554_992_128


def test_other_engines_cannot_be_independent() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4})
    with pytest.raises(UsageError, match="independent needs engine cpsat or milp, got 'auto'"):
        solve(build.build(), independent=True)


@pytest.mark.parametrize("engine", ["cpsat", "milp"])
def test_features_that_a_model_lacks_are_named(engine: str) -> None:
    build = GraphBuilder()
    for name in "abc":
        build.op(name, writes={name * 2: 4})
    graph = build.build()
    with pytest.raises(UsageError, match="does not limit moved ops"):
        solve(graph, engine=engine, max_moved=0)


@pytest.mark.parametrize("engine", ["cpsat", "milp"])
def test_streams_are_refused(engine: str) -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4}, stream="one")
    build.op("b", writes={"y": 4}, stream="two")
    with pytest.raises((UsageError, GraphError), match="stream"):
        solve(build.build(), engine=engine, independent=True)


def test_the_option_of_the_command(cli: Cli) -> None:
    assert "claimed: by a solver, not checked" in cli(
        "solve", LLAMA, "--engine", "cpsat", "--independent", code=3
    )
    assert "independent needs engine cpsat or milp" in cli.error("solve", LLAMA, "--independent")
