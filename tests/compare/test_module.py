"""Methods on modules: every computation is ordered and packed, the whole is measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from optsched import Graph, compare_methods, solve_module, write_graph, write_module
from optsched.formats import write_module_plan
from tests.model.test_module import three
from tests.solver.test_module import nested
from tests.support.commands import Cli
from tests.support.module_oracle import random_module

SCAN = Path(__file__).parents[2] / "instances" / "hlo" / "scan-module.txt"


def late(graph: Graph, seed: int = 0) -> list[int]:
    """Run what is ready and comes last in the list."""
    done: list[int] = []
    while len(done) < len(graph.ops):
        ready = [
            v
            for v in range(len(graph.ops))
            if v not in done and set(graph.predecessors[v]) <= set(done)
        ]
        done.append(max(ready))
    return done


def test_a_method_orders_every_computation_by_hand() -> None:
    """Run late, `wide` needs 11 bytes instead of 9, and so does each that calls it, in turn."""
    found = compare_methods(nested(), methods=["program", late, "greedy_by_size", "lpmf"])
    rows = {row.method: row for row in found.rows}
    assert rows["program"].peak == 28
    assert (rows["late"].peak, rows["late"].excess) == (30, 30 / 28 - 1)
    assert rows["greedy_by_size"].slab == 28
    assert (found.best_peak, found.peak_bound, found.slab_bound) == (28, 28, 28)
    assert rows["optsched"].status == "optimal"


def test_no_method_is_below_the_optimum() -> None:
    rng = np.random.default_rng(2)
    methods = ["lpmf", "dfs", "xla_default", "skyline", "bfs+greedy_by_size", "optsched"]
    for _ in range(15):
        found = compare_methods(random_module(rng), methods=methods)
        assert not found.failed
        for row in found.rows:
            assert row.peak >= found.peak_bound
            assert row.slab >= found.slab_bound


def test_modules_and_graphs_are_compared_in_one_study(tmp_path: Path, cli: Cli) -> None:
    module = three()
    file, journal = tmp_path / "three.json", str(tmp_path / "journal")
    write_module(module, file)
    found = solve_module(module)
    plan = tmp_path / "plan.json"
    write_module_plan(found.plans or {}, plan, module)
    report = str(tmp_path / "report.html")
    options = ["--methods", "program,xla,optsched", "--plan", f"mine={plan}", "--resume", journal]
    for _ in range(2):
        rows = {
            x["method"]: x for x in cli.json("compare", file, *options, "--report", report)["rows"]
        }
        assert [rows[x]["peak"] for x in ("program", "mine", "optsched")] == [21] * 3
        assert "records no order" in rows["xla"]["reason"]


def test_xlas_own_order_is_that_of_the_text(cli: Cli) -> None:
    peaks = {
        x["method"]: x["peak"]
        for x in cli.json("compare", SCAN, "--methods", "xla,program")["rows"]
    }
    assert peaks["xla"] == peaks["program"] >= peaks["optsched"]


def test_order_rules_are_for_single_graphs(tmp_path: Path, cli: Cli) -> None:
    write_graph(nested().graphs["wide"], tmp_path / "wide.json")
    options = ["--methods", "program", "--json", "--first", "other"]
    rows = {
        x["method"]: x["peak"]
        for x in json.loads(cli("compare", tmp_path / "wide.json", *options))["rows"]
    }
    assert rows["optsched"] == 11
    assert "order rules do not apply to a file with several computations" in cli.error(
        "compare", SCAN, *options
    )
