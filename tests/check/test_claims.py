"""A plan file's claims: each that can be refuted is, and what nothing shows is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optsched.check.claims import check_claims, unverified
from optsched.cli import main
from optsched.errors import PlanError
from optsched.formats import write_graph
from optsched.formats.native_plan import plan_document, read_plan_document
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.pools import Pool
from optsched.model.question import Question
from optsched.reports.results import plan_record, trace_rows
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from tests.support.commands import Cli
from tests.support.generators import random_graph

REPRO = Path(__file__).parents[3] / "shared" / "instances" / "repro"


def graph() -> Graph:
    """`a` and `b` make 4 bytes each that `c` reads; `d` makes 8 that nobody does."""
    build = GraphBuilder("claims")
    build.op("a", writes={"x": 4})
    build.op("b", writes={"y": 4})
    build.op("c", reads=["x", "y"], writes={"z": 4})
    build.op("d", writes={"w": 8})
    return build.build()


PLAN = Plan((0, 1, 3, 2), (0, 4, 8, 8))
"""With 16 bytes live while `d` runs: 12 are enough where it runs last."""
TRUE: dict[str, Any] = {"graph": "claims", "peak": 16, "slab": 16}


def event(incumbent: int | None, bound: int) -> dict[str, Any]:
    return {"microseconds": 1, "incumbent": incumbent, "bound": bound, "source": "a test"}


LIES: dict[str, tuple[Mapping[str, Any], str]] = {
    "peak": ({"peak": 15}, "claims a peak of 15"),
    "slab": ({"slab": 17}, "claims a slab of 17"),
    "slabs": ({"slabs": {"": 12}}, "claims a slab in pool '' of 12"),
    "capacities": ({"capacities": {"": 15}}, "exceeds its capacity of 15"),
    "graph": ({"graph": "another"}, "of graph 'another', this is 'claims'"),
    "model": ({"memory_model": "anything"}, "the memory model 'anything', the graph 'default'"),
    "objective": ({"objective": "banana"}, "objective 'banana', which is not one of slab, peak"),
    "peak proof": (
        {"peak_bound": 16, "peak_proof": "L9"},
        "peak_proof 'L9', which is not one of L1",
    ),
    "slab proof": ({"slab_bound": 16, "slab_proof": ""}, "slab_proof '', which is not one of L1"),
    "bound above the peak": ({"peak_bound": 999999}, "no peak is below 999999 bytes, its own is"),
    "bound above the slab": ({"slab_bound": 17}, "no slab is below 17 bytes, its own is 16"),
    "bound above the listed order's": ({"peak_bound": 13}, "ops as they are listed is 12"),
    "proof without a bound": ({"slab_proof": "L4"}, r"packing search \(L4\) for .* with no bound"),
    "proof of another value": (
        {"peak_bound": 12, "peak_proof": "L3"},
        r"order search \(L3\) for its peak of 16 bytes, with a bound of 12",
    ),
    "joint proof above the peak's bound": (
        {"peak_bound": 12, "slab_bound": 16, "slab_proof": "L5"},
        "slab of 16 bytes is proved by a peak bound of 12",
    ),
    "trace above the plan": ({"trace": [event(16, 12), event(16, 17)]}, "number 1: a bound of 17"),
    "trace below the bound": (
        {"slab_bound": 16, "trace": [event(None, 2), event(15, 12)]},
        "number 1: a plan of 15 bytes, below the bound of 16",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_refused(lie: str) -> None:
    claims, reason = LIES[lie]
    with pytest.raises(PlanError, match=reason):
        check_claims(Question(graph()), PLAN, TRUE | claims)


def test_what_may_be_so_passes_and_is_named() -> None:
    said = {"peak_bound": 12, "slab_bound": 16, "slab_proof": "L4", "objective": "peak"}
    claims = TRUE | said | {"trace": [event(None, 0), event(16, 12)]}
    checked = check_claims(Question(graph()), PLAN, claims)
    assert (checked.peak, checked.slab) == (16, 16)
    assert [str(claim) for claim in unverified(claims)] == [
        "no peak below 12 bytes",
        "no slab below 16 bytes by packing search (L4)",
    ]
    # A verified bound on every peak is one on every slab.
    assert [claim.what for claim in unverified(claims, 12)] == ["slab"]
    assert not unverified(claims, 16)
    assert not unverified(TRUE)
    # A solver's word may be of a value above every proved bound.
    assert check_claims(Question(graph()), PLAN, TRUE | {"peak_bound": 12, "peak_proof": "claimed"})


def test_a_graph_from_a_pipe_has_no_name_to_compare() -> None:
    assert check_claims(Question(graph()), PLAN, TRUE | {"graph": "stdin"})


def test_slab_of_the_listed_ops_refutes_a_bound_too() -> None:
    far = Plan(PLAN.order, (0, 4, 100, 100))
    claims = TRUE | {"slab": 108, "slab_bound": 21}
    with pytest.raises(PlanError, match=r"no slab is below 21 bytes, .* listed is 20"):
        check_claims(Question(graph()), far, claims)
    assert check_claims(Question(graph()), far, claims | {"slab_bound": 20}).slab == 108


def test_command_names_what_was_not_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    files = {name: str(tmp_path / name) for name in ("graph", "plan", "proof")}
    write_graph(graph(), files["graph"])
    command = ["solve", files["graph"], "-o", files["plan"], "--certificate", files["proof"]]
    cli(*command)
    out = cli("check", files["graph"], files["plan"])
    assert "not verified: no peak below 12 bytes by order bound (L2), no slab below" in out
    assert main(["check", files["graph"], files["plan"], "--json"]) == 0
    expected = {"peak": {"bound": 12, "proof": "L2"}, "slab": {"bound": 12, "proof": "L5"}}
    assert json.loads(capsys.readouterr().out)["unverified"] == expected
    assert "not verified" not in cli("check", files["graph"], files["plan"], files["proof"])


def test_report_draws_no_plan_whose_claims_are_refuted(tmp_path: Path, cli: Cli) -> None:
    document = plan_document(graph(), PLAN, {"trace": [event(16, 17)]})
    paths = [str(tmp_path / name) for name in ("graph.json", "plan.json", "trace.json")]
    write_graph(graph(), paths[0])
    Path(paths[1]).write_text(json.dumps(document))
    assert "a bound of 17 bytes, this plan has 16" in cli.error(
        "report", *paths[:2], "--trace", paths[2]
    )
    assert not Path(paths[2]).exists()


def test_what_solve_writes_is_never_refused() -> None:
    rng = np.random.default_rng(4)
    written = 0
    for objective, inplace, capacity in product(("slab", "peak"), (False, True), (False, True)):
        for number in range(4):
            made = random_graph(rng, int(rng.integers(2, 9)), features=("inputs", "views", "pools"))
            made = made.with_inplace() if inplace else made
            limits = Limits(seconds=3)
            if number % 2:
                names = sorted({buffer.pool for buffer in made.buffers if not buffer.external})
                pools = [Pool(name, 40 if capacity else None) for name in names]
                found = solve(made, pools=[*pools, Pool("more", None)], limits=limits)
                result, record = found, plan_record(found)
            else:
                result = solve(
                    made, objective=objective, capacity=40 if capacity else None, limits=limits
                )
                record = plan_record(result)
            if result.plan is None:
                continue
            record["trace"] = trace_rows(result.trace)
            document = plan_document(made, result.plan, record)
            check_claims(Question(made), *read_plan_document(made, document))
            written += 1
    assert written > 20


@pytest.mark.skipif(not REPRO.is_dir(), reason="needs the shared instances")
def test_lies_of_the_repro_files(cli: Cli) -> None:
    files = [str(REPRO / f"claim_{kind}.json") for kind in "gp"]
    assert "of graph 'another'" in cli.error("check", *files, code=1)
