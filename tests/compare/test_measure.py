"""One graph: figures by hand, and methods that fail are rows."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heuristics
from heuristics import ORDERINGS
from optsched.check.plan import check_plan
from optsched.compare import Comparison, Kind, Trouble, compare_methods, task
from optsched.compare.measure import MethodRunner
from optsched.compare.methods import INDUCTOR, parse_methods, with_reference
from optsched.compare.rows import Measured, was_interrupted
from optsched.compare.task import Started, measure_all
from optsched.errors import UsageError
from optsched.formats import read_graph, write_plan
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.runtime.limits import Limits, Proof
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.status import Status
from tests.support.families.small import chain, diamond, two_towers

ROOT = Path(__file__).resolve().parents[2]
FAST = Limits(seconds=10.0)


def figures(comparison: Comparison, method: str) -> tuple[int, int, float, float]:
    row = comparison.row(method)
    assert row is not None
    return row.peak, row.slab, row.peak_excess, row.excess


def test_figures_of_a_graph_solved_by_hand() -> None:
    # Orders of the diamond: left first has 20 live bytes, right first 18, the least.
    found = compare_methods(diamond(), methods=["program", "naive", "program+naive"], limits=FAST)
    assert figures(found, "program") == (20, 20, 20 / 18 - 1, 20 / 18 - 1)
    assert figures(found, "naive")[0] == 18
    row = found.row("program+naive")
    assert row is not None
    assert (row.kind, row.peak, row.fragmentation) == (Kind.PLAN, 20, row.slab - 20)
    assert row.excess == row.slab / 18 - 1
    ours = found.row("optsched")
    assert ours is not None
    assert (ours.status, ours.proof, ours.excess) == (Status.OPTIMAL, Proof.JOINT, 0)
    assert all(row.against_optimum for row in found.rows)
    assert (found.peak_bound, found.slab_bound, found.best_peak, found.best_slab) == (18,) * 4


def test_rows_carry_the_order_that_was_measured() -> None:
    graph = two_towers()
    found = compare_methods(graph, methods=["lpmf", "bfs+skyline", "naive"], limits=FAST)
    assert len(found.rows) == 4
    for row in found.rows:
        assert peak_memory(graph, row.order) == row.peak, row.method
    lpmf = found.row("lpmf")
    assert lpmf is not None
    assert list(lpmf.order) == ORDERINGS["lpmf"](graph, 0).tolist()
    assert found.result.plan is not None
    assert next(row for row in found.rows if row.method == "naive").order == found.result.plan.order


def test_rows_keep_the_order_asked_for() -> None:
    asked = ["optsched", "naive", "bfs", "cpsat:5"]
    found = compare_methods(two_towers(), methods=asked, limits=FAST)
    assert [row.method for row in found.rows] == asked


def test_a_crash_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(graph: Graph, seed: int) -> None:
        raise ZeroDivisionError("three\nlines\nlong")

    monkeypatch.setitem(heuristics.ORDERINGS, "bfs", crash)  # type: ignore[arg-type]
    found = compare_methods(chain(), methods=["bfs", "bfs+naive", "lpmf"], limits=FAST)
    assert [row.method for row in found.rows] == ["lpmf", "optsched"]
    assert [f.method for f in found.failed] == ["bfs", "bfs+naive"]
    assert {f.trouble for f in found.failed} == {Trouble.FAILED}
    assert found.failed[0].reason == "ZeroDivisionError: three lines long"


def test_a_function_named_as_orders_of_files_are_is_called_all_the_same() -> None:
    def recorded_elsewhere(graph: Graph, seed: int) -> range:
        return range(len(graph.ops))

    found = compare_methods(diamond(), methods=["program", recorded_elsewhere], limits=FAST)
    assert figures(found, "recorded_elsewhere") == figures(found, "program")


def test_a_function_is_a_method() -> None:
    def backwards(graph: Graph, seed: int) -> list[int]:
        return list(ORDERINGS["program"](graph, seed))[::-1]

    def as_written(graph: Graph, seed: int) -> Iterator[np.int32]:
        return iter(np.arange(len(graph.ops), dtype=np.int32))

    def crashing(graph: Graph, seed: int) -> list[int]:
        raise MemoryError("all of it")

    def leaving(graph: Graph, seed: int) -> list[int]:
        sys.exit(3)

    def spoiling(graph: Graph, seed: int) -> list[int]:
        graph.arrays.size[:] = 0
        return list(range(len(graph.ops)))

    def of_names(graph: Graph, seed: int) -> list[str]:
        return [op.name for op in graph.ops]

    def endless(graph: Graph, seed: int) -> list[int]:
        time.sleep(600)
        return []

    own: list[Any] = [as_written, backwards, crashing, leaving, spoiling, of_names, endless]
    limits = Limits(seconds=0.5)
    found = compare_methods(chain(), methods=[*own, "lpmf"], limits=limits, grace=0.1)
    ran = ["as_written", "spoiling", "of_names", "lpmf", "optsched"]
    assert [row.method for row in found.rows] == ran
    assert figures(found, "as_written") == figures(found, "of_names")
    assert figures(found, "as_written") == figures(found, "spoiling")
    assert figures(found, "as_written") == figures(
        compare_methods(chain(), methods=["program"]), "program"
    )
    troubles = [(f.method, f.trouble, f.reason) for f in found.failed]
    assert troubles == [
        ("backwards", Trouble.REFUSED, troubles[0][2]),
        ("crashing", Trouble.FAILED, "MemoryError: all of it"),
        ("leaving", Trouble.FAILED, "SystemExit: 3"),
        ("endless", Trouble.TIMED_OUT, "not done after 0.6 s"),
    ]
    for twice in ([backwards, backwards], [named("lpmf", backwards)]):
        with pytest.raises(UsageError, match=r"two functions are named|already exists"):
            compare_methods(chain(), methods=twice)


def named(name: str, function: Any) -> Any:
    """Return a function under another name."""

    def same(graph: Graph, seed: int) -> Any:
        return function(graph, seed)

    same.__name__ = name
    return same


def test_a_method_interrupted_before_its_first_plan_has_not_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*args: object, **kwargs: object) -> Result:
        raise KeyboardInterrupt

    monkeypatch.setattr("optsched.solver.stages.candidate_orders", interrupted)
    told: list[object] = []
    methods, reference = with_reference(parse_methods(["optsched", "cpsat:5"]))
    measure_all(MethodRunner(chain(), Limits(seconds=2)), methods, reference, told.append)
    # The next method is not started either.
    (outcome,) = (x for x in told if not isinstance(x, Started))
    # The program's own order is its plan.
    assert isinstance(outcome, Measured)
    assert was_interrupted(outcome)


def test_an_order_that_breaks_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    backwards = lambda graph, seed: ORDERINGS["program"](graph, seed)[::-1]  # noqa: E731
    monkeypatch.setitem(heuristics.ORDERINGS, "dfs", backwards)
    found = compare_methods(chain(), methods=["dfs"], limits=FAST)
    assert [(f.method, f.trouble) for f in found.failed] == [("dfs", Trouble.REFUSED)]


def test_where_our_own_method_fails_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*args: object, **options: object) -> None:
        raise RuntimeError("lost")

    monkeypatch.setattr("optsched.compare.measure.solve", crash)
    found = compare_methods(chain(), methods=["lpmf", "naive"], limits=FAST)
    assert [row.method for row in found.rows] == ["lpmf"]
    troubles = {f.method: f.trouble for f in found.failed}
    assert troubles == {"naive": Trouble.ABSENT, "optsched": Trouble.FAILED}
    # The simple bound of the graph is the bound then, as for files.
    assert all(row.against_optimum for row in found.rows)
    with pytest.raises(
        UsageError, match=r"no method found a plan for graph 'chain': .*RuntimeError: lost"
    ):
        compare_methods(chain(), methods=["optsched"], limits=FAST)


def test_a_plan_in_other_pools_is_refused_and_one_in_renamed_pools_is_not(tmp_path: Path) -> None:
    graph = diamond()
    fast = tuple(replace(x, pool="fast" if x.name in "ay" else "") for x in graph.buffers)
    pooled = replace(graph, buffers=fast)
    plan = solve(graph).plan
    assert plan is not None
    path = tmp_path / "plan.json"
    write_plan(replace(plan, pools=("last",) * len(graph.buffers)), path, graph)
    ((other,), (renamed, *_)) = (
        compare_methods(pooled, methods=[f"plan:{path}"], limits=FAST).failed,
        compare_methods(graph, methods=[f"plan:{path}"], limits=FAST).rows,
    )
    assert other.trouble is Trouble.REFUSED
    assert "other pools" in other.reason
    assert renamed.slab == 18


def test_plans_from_files_and_folders(tmp_path: Path) -> None:
    graph, other = diamond(), chain()
    plan = solve(graph, limits=FAST).plan
    assert plan is not None
    write_plan(plan, tmp_path / "diamond.json", graph)
    runner = MethodRunner(graph, FAST)
    for path in (tmp_path / "diamond.json", tmp_path):
        (method,) = parse_methods([f"mine={path}"])
        found = runner.measure(method)
        checked = check_plan(graph, plan)
        assert (found.peak, found.slab) == (checked.peak, checked.slab)  # type: ignore[union-attr]
    lost = MethodRunner(other, FAST).measure(method)
    assert lost.trouble is Trouble.ABSENT  # type: ignore[union-attr]


def test_a_tampered_plan_is_refused(tmp_path: Path) -> None:
    graph, path = diamond(), tmp_path / "p.json"
    plan = solve(graph, limits=FAST).plan
    assert plan is not None
    write_plan(plan, path, graph)
    record = json.loads(path.read_text())
    record["offsets"]["a"] = record["offsets"]["b"]
    path.write_text(json.dumps(record))
    found = compare_methods(graph, methods=[f"mine={path}"], limits=FAST)
    assert found.failed[0].trouble is Trouble.REFUSED
    assert "overlap" in found.failed[0].reason


def test_recorded_orders_have_the_peaks_that_inductor_wrote_down() -> None:
    path = ROOT / "instances" / "inductor" / "alexnet_bs128.bwd.json.gz"
    recorded = json.loads(gzip.decompress(path.read_bytes()))["extra"]
    runner = MethodRunner(read_graph(path), FAST)
    for method in parse_methods(["recorded", *INDUCTOR]):
        name = method.name.partition(":")[2] or recorded["chosen"]
        found = runner.measure(method)
        assert found.peak == recorded["peaks"][name], method.name  # type: ignore[union-attr]


def test_orders_by_name_are_read_and_wrong_ones_refused(tmp_path: Path) -> None:
    nodes = [{"name": n, "buffer_names": [n]} for n in "ab"]
    buffers = [
        {
            "name": name,
            "size_alloc": 4,
            "size_free": 4,
            "is_input": False,
            "is_output": name == "b",
            "deps": deps,
        }
        for name, deps in (("a", []), ("b", ["a"]))
    ]
    path = tmp_path / "g.json"
    (method,) = parse_methods(["recorded"])
    for order, wanted in ((["a", "b"], None), (["b", "a"], "refused"), (["a", "c"], "failed")):
        document = {"nodes": nodes, "buffers": buffers, "extra": {"reference_order": order}}
        path.write_text(json.dumps(document))
        found = MethodRunner(read_graph(path), FAST).measure(method)
        assert getattr(found, "trouble", None) == wanted


def test_several_graphs_make_a_study_of_the_same_comparisons() -> None:
    graphs = [chain(), diamond(), chain()]
    study = compare_methods(graphs, methods=["lpmf", "greedy_by_size"], limits=FAST)
    assert [c.graph.name for c in study.comparisons] == ["chain", "diamond", "chain.2"]
    for graph, found in zip(graphs, study.comparisons, strict=True):
        alone = compare_methods(graph, methods=["lpmf", "greedy_by_size"], limits=FAST)
        for name in ("lpmf", "greedy_by_size", "optsched"):
            assert figures(found, name) == figures(alone, name)
    assert not study.skipped


def test_a_graph_without_a_plan_does_not_lose_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(runner: MethodRunner, *rest: Any) -> None:
        if runner.graph.name != "chain":
            measure_all(runner, *rest)

    monkeypatch.setattr(task, "measure_all", measure)
    study = compare_methods([chain(), diamond()], methods=["lpmf"], limits=FAST)
    assert [c.graph.name for c in study.comparisons] == ["diamond"]
    assert [skipped.path for skipped in study.skipped] == ["chain"]


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one graph"):
        compare_methods([])
    with pytest.raises(UsageError, match="compare_methods wants a Graph or Module"):
        compare_methods([diamond(), "graph.json"])


def test_a_missing_row_says_why() -> None:
    found = compare_methods(diamond(), methods=["lpmf", "bfs"], time_limit=5)
    with pytest.raises(UsageError, match=r"method .lmfp. was not compared: did you mean .lpmf."):
        found.row("lmfp")
    assert found.find_row("lmfp") is None
