"""Any result is accepted where a graph or an order is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optsched
from optsched import GraphBuilder, Module, PackingProblem
from optsched.cli import main
from optsched.errors import UsageError
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.fusion.search import search_fusion
from tests.support.brute_fusion import random_fused
from tests.support.brute_recompute import training_graph
from tests.support.families.small import chain, diamond
from tests.support.row_maps import banded

STEP = training_graph(np.random.default_rng(3), rich=False)
MODULE = Module("m", {"d": diamond()}, "d")
RESULTS: dict[str, Callable[[], Any]] = {
    "plan": lambda: optsched.solve(diamond(), inplace=True),
    "module": lambda: optsched.solve_module(MODULE),
    "repeats": lambda: optsched.recompute(STEP, 29),
    "tiling": lambda: optsched.tile(banded(), extra=1.0, objective="head", time_limit=5),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_stands_for_its_graph_and_plan(kind: str, tmp_path: Path) -> None:
    result = RESULTS[kind]()
    graph, plan = result.graph_and_plan
    checked = optsched.check_plan(result)
    assert checked == optsched.check_plan(graph, plan) == optsched.check_plan(graph, result)
    assert optsched.peak_memory(result) == optsched.peak_memory(graph, plan) == checked.peak
    assert optsched.timeline(result).running.max() == checked.peak
    assert (optsched.live_ranges(graph, result) == optsched.live_ranges(graph, plan.order)).all()
    bound = optsched.explain(result).bound
    assert bound == optsched.solve(result).peak_bound <= checked.peak
    assert optsched.certify(result).certificate.bound == bound
    page = tmp_path / "page.html"
    optsched.report(result, page)
    assert graph.name in page.read_text()
    with pytest.raises(optsched.OptschedError, match="claims a peak"):
        optsched.check_plan(result, peak=checked.peak + 1)


def test_a_certificate_of_a_result_has_its_order_rules() -> None:
    graph = diamond()
    ruled = optsched.solve(graph, order_rules=optsched.OrderRules(groups=[("left", "right")]))
    written = optsched.certify(ruled)
    assert written.certificate.rules == ruled.order_rules
    assert written.certificate.bound == ruled.peak_bound > optsched.solve(graph).peak_bound


def test_a_split_is_explained_as_the_graph_of_its_kernels() -> None:
    fused = random_fused(np.random.default_rng(5))
    result = search_fusion(fused, Clock.of(Limits(seconds=5.0)))
    assert optsched.explain(result).bound <= result.best.peak
    assert optsched.peak_memory(result.graph_and_plan.graph, range(len(result.best.groups))) == (
        result.best.peak
    )


@pytest.mark.parametrize("name", ["explain", "certify", "check_plan", "timeline", "peak_memory"])
def test_what_has_no_plan_says_so(name: str) -> None:
    function = getattr(optsched, name)
    packing = optsched.pack(PackingProblem(size=[8, 4], start=[0, 2], end=[4, 6]))
    with pytest.raises(UsageError, match="no ops to order"):
        function(packing)
    refuted = replace(optsched.solve(diamond(), capacity=3), plan=None)
    if name in ("explain", "certify"):
        assert function(refuted)
    else:
        with pytest.raises(UsageError, match=r"no plan|plan is missing"):
            function(refuted)
        with pytest.raises(UsageError, match=r"plan is missing|give an order"):
            function(diamond())


def test_a_result_of_another_graph_is_refused() -> None:
    with pytest.raises(optsched.OptschedError):
        optsched.timeline(chain(), optsched.solve(diamond()))


@pytest.mark.parametrize("kind", ["repeats", "tiling", "graph", "explanation", "hunt"])
def test_notebooks_show_words(kind: str) -> None:
    others: dict[str, Callable[[], Any]] = {
        "graph": diamond,
        "explanation": lambda: optsched.explain(diamond()),
        "hunt": lambda: optsched.hunt("lpmf", max_ops=5, max_tries=2000, time_limit=None),
    }
    thing = (RESULTS | others)[kind]()
    text, html = thing.summary(), thing._repr_html_()
    rest = text.splitlines()[1:]
    assert html.startswith("<div class=optsched>")
    assert all(line.strip().replace("'", "&#x27;").replace(">", "&gt;") in html for line in rest)
    assert ("<svg" in html) == (kind in ("tiling", "hunt"))


def test_words_of_a_graph_are_safe_in_a_page() -> None:
    build = GraphBuilder("<script>")
    build.op("<b>", writes={"x": 4})
    graph = build.build()
    for thing in (graph, optsched.explain(graph)):
        assert "<script>" not in thing._repr_html_()
        assert "<b>x" not in thing._repr_html_()


def test_the_text_of_a_result_is_one_short_line(tmp_path: Path) -> None:
    results = [make() for make in RESULTS.values()]
    results += [
        optsched.recompute(STEP, 1),
        optsched.tune(diamond(), tmp_path / "plans.store", work=1000, jobs=0),
        optsched.compare_methods([diamond()], methods="lpmf", time_limit=5),
    ]
    for text in map(repr, results):
        assert "\n" not in text
        assert len(text) < 160, text
    assert repr(results[-3]) == "RecomputeResult(infeasible, no plan, within 1 bytes)"
    assert repr(results[-2]) == "Fleet(1 graph: 1 proved; 2 bytes saved)"
    assert repr(results[-1]) == "Study(1 graph, 0 skipped, 2 methods)"


def test_repeats_are_written_as_a_plan(tmp_path: Path) -> None:
    graph, plan = tmp_path / "g.json", tmp_path / "p.json"
    step = training_graph(np.random.default_rng(0), rich=False)
    optsched.write_graph(step, graph)
    result = optsched.recompute(step, 25)
    assert result.repeats
    optsched.write_plan(result, plan)
    assert main(["check", str(graph), str(plan), "--peak", "25"]) == 0
    assert main(["check", str(graph), str(plan), "--peak", "24"]) == 1
    with pytest.raises(UsageError, match="no plan: infeasible"):
        optsched.write_plan(optsched.recompute(step, 1), plan)


@pytest.mark.parametrize("name", ["recompute", "compare_methods", "report", "check_plan", "pack"])
def test_a_path_in_place_of_a_graph_names_its_reader(name: str) -> None:
    more = {"recompute": [29], "report": ["x.html"]}.get(name, [])
    reader = "read_packing" if name == "pack" else "read_graph"
    with pytest.raises(UsageError, match=f"{name} wants .*'g.json': read the file with {reader}"):
        getattr(optsched, name)("g.json", *more)
