"""In-place through solve() and the command line: named in every result, proved, checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optsched.check.plan import check_plan
from optsched.compare import compare_methods
from optsched.errors import UsageError
from optsched.formats import write_graph
from optsched.joint.cpsat import solve_joint
from optsched.joint.milp import solve_order_milp
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.runtime.limits import Limits, Proof
from optsched.solver.known import Known
from optsched.solver.pipeline import solve
from optsched.solver.schedule import Engine
from tests.model.test_inplace import chain, more_candidates
from tests.support.brute import least_peak
from tests.support.commands import Cli
from tests.support.generators import PLANNABLE, random_graph


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "chain.json"
    write_graph(chain().build(), path)
    return str(path)


def test_solve_proves_the_least_peak_and_packs_into_it() -> None:
    rng = np.random.default_rng(12)
    joint = 0
    for _ in range(60):
        made = random_graph(rng, int(rng.integers(1, 9)), features=PLANNABLE | {"shuffled"})
        graph = more_candidates(rng, made).with_inplace()
        result = solve(graph, limits=Limits(seconds=5.0))
        assert result.peak == result.peak_bound == least_peak(graph)
        assert result.plan is not None
        checked = check_plan(graph, result.plan, peak=result.peak, slab=result.slab)
        assert checked.slab >= result.peak_bound
        joint += result.slab_proof is Proof.JOINT
    assert joint > 50


def test_command_line(graph: str, tmp_path: Path, cli: Cli) -> None:
    plan = str(tmp_path / "plan.json")
    record = cli.json("solve", graph, "--inplace", "-o", plan)
    assert (record["peak"], record["slab"], record["slab_proof"]) == (8, 8, "L5")
    assert record["memory_model"] == "default; in-place"
    assert "valid: peak 8 bytes, slab 8 bytes" in cli("check", graph, plan, "--inplace")
    assert "--inplace" in cli.error("check", graph, plan)
    record = cli.json("solve", graph)
    assert (record["peak"], record["memory_model"]) == (16, "default")


def test_info_and_compare_name_the_model(graph: str, cli: Cli) -> None:
    record = cli.json("info", graph, "--inplace")
    assert (record["memory_model"], record["program_order_peak"]) == ("default; in-place", 8)
    assert (record["inplace_candidates"], record["inplace_pairs"]) == (2, 2)
    assert "2 candidates, 2 admissible pairs" in cli("info", graph)
    record = cli.json("compare", graph, "--inplace")
    (instance,) = record["graphs"]
    assert instance["memory_model"] == "default; in-place"
    assert {row["peak"] for row in record["rows"]} == {8}


def test_methods_are_packed_with_pairs() -> None:
    comparison = compare_methods(chain().build().with_inplace())
    assert all(row.peak == row.slab == 8 for row in comparison.rows if row.method != "naive")


def test_the_models_are_a_second_opinion() -> None:
    built: Graph = chain().build().with_inplace()
    for engine in (Engine.CPSAT, Engine.MILP):
        result = solve(built, engine=engine)
        assert (result.peak, result.slab) == (8, 8)
    joint, milp = solve_joint(built), solve_order_milp(built)
    assert (joint.value, joint.bound, milp.value, milp.bound) == (8, 8, 8, 8)


def test_certificate_and_explanation_from_the_command_line(
    graph: str, tmp_path: Path, cli: Cli
) -> None:
    plan, proof = str(tmp_path / "plan.json"), str(tmp_path / "proof.json")
    cli("solve", graph, "--inplace", "-o", plan, "--certificate", proof)
    assert "no order below 8 bytes, the peak is minimal" in cli(
        "check", graph, plan, proof, "--inplace"
    )
    assert "no order has a peak below 8 bytes" in cli("explain", graph, "--inplace")
    assert "no order has a peak below 16 bytes" in cli("explain", graph)


def test_an_op_that_writes_in_place_in_too_many_ways_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Else the first order and bound settle it, which look at one order at a time.
    monkeypatch.setattr(Known, "order_done", lambda _: False)
    monkeypatch.setattr(Known, "done", lambda _: False)
    build = GraphBuilder("fused")
    count = 11
    for i in range(count):
        build.op(f"make{i}", writes={f"x{i}": 2**i})
        build.op(f"keep{i}", reads=[f"x{i}"])
    made = {f"y{i}": 2**i for i in range(count)}
    build.op("all", reads=[f"x{i}" for i in range(count)], writes=made)
    for i in range(count):
        build.inplace("all", f"y{i}", f"x{i}")
        build.output(f"y{i}")
    with pytest.raises(UsageError, match="fused: op 'all': in-place: op number 22 has over 1000"):
        solve(build.build(), inplace=True)
