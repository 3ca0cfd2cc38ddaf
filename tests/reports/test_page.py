"""The HTML as text: nothing from outside, nothing unescaped, every part there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.compare import compare_methods
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.order_rules import OrderRules
from optsched.reports.notebook import html
from optsched.reports.page import report_page
from optsched.reports.report import Report, make_report
from optsched.reports.sections import AT_MOST, left_out, live_table, trace_table, verdicts
from optsched.runtime.limits import Event
from optsched.solver.pipeline import solve
from optsched.solver.schedule import Engine
from tests.reports.conftest import naive_plan
from tests.reports.hostile import NAMES, hostile_graph
from tests.reports.reader import Reader
from tests.support.families.small import diamond


def solved(graph: Graph) -> Report:
    result = solve(graph)
    assert result.plan is not None
    return make_report(graph, result, [("plan", result.plan, ())])


def test_bounds_under_rules_say_so_in_every_part() -> None:
    graph = diamond()
    result = solve(graph, order_rules=OrderRules(first=("left",)))
    assert result.plan is not None
    page = Reader(report_page(make_report(graph, result, [("plan", result.plan, ())]))).text
    among = " among orders that run 'left' first"
    assert f"proven bound on the slab 20 B{among}" in page
    assert f"proven bound on the peak 20 B{among}" in page
    assert f"The minimum slab{among} is 20 bytes" in page


def test_a_long_search_says_how_much_of_it_is_listed() -> None:
    events = [Event(0.001 * i, None, 10, "bound") for i in range(AT_MOST + 1)]
    assert "301 events, the first 300 of them" in trace_table(events)
    assert "1 event<" in trace_table(events[:1])


def test_every_part_is_there(two_plans: Report) -> None:
    comparison = compare_methods(diamond(), methods=["lpmf", "greedy_by_size"])
    trace = [Event(0.001, None, 10, "bound"), Event(0.2, 18, 18, "search")]
    report = replace(two_plans, comparison=comparison, traces={"the search": trace})
    page = Reader(report_page(report))
    for words in (
        "diamond",
        "The slab of “after” is 6 B (25.0 %) smaller than that of “before”",
        "Buffers live at the peak",
        "18 bytes",
        "proven bound on the peak 18 B",
        "Distance of each method from the optimum",
        "lpmf",
        "Why no plan needs less",
        "L3 (order search): an exhaustive search found no order",
        "How the search went",
        "Memory model: default",
        "optsched 0",
    ):
        assert words in page.text
    assert page.loads == ["data:,"]


def test_a_page_loads_nothing(two_plans: Report) -> None:
    html = report_page(two_plans)
    assert "default-src 'none'" in html
    page = Reader(html)
    assert not [load for load in page.loads if not load.startswith("data:")]
    assert not {"link", "iframe", "object", "img"} & (set(page.tags) - {"link"})
    assert html.count("<link") == 1


def test_hostile_names_are_text() -> None:
    html = report_page(solved(hostile_graph()))
    html.encode()
    page = Reader(html)
    assert html.lower().count("<script") == html.lower().count("</script>") == 1
    assert "img" not in page.tags
    assert page.handlers == []
    assert NAMES[0] in page.text
    assert NAMES[1] in page.text
    assert "\x00" not in html
    assert "x" * 200 not in html


def test_a_plan_that_meets_no_bound_is_not_called_least() -> None:
    graph = diamond()
    result = solve(graph, engine=Engine.HEURISTICS)
    assert result.plan is not None
    open_result = replace(
        result, peak_bound=9, slab_bound=9, peak_proof=None, slab_proof=None, claimed_bound=18
    )
    report = make_report(graph, open_result, [("plan", naive_plan(graph), ())])
    text = Reader(report_page(report)).text
    assert "at most 62.5 % of it could be saved" in text
    assert "No slab is below 9 bytes" in text
    assert "claims a bound of 18 bytes, which was not checked" in text
    assert "The minimum" not in text
    assert "proved minimum" not in text


def test_a_files_plan_at_the_bound_is_least_even_if_the_search_found_none(
    two_plans: Report,
) -> None:
    worse = replace(two_plans.result, slab=20, slab_proof=None)
    lines = verdicts(worse, 18, 18)
    assert lines[1] == "The minimum slab is 18 bytes: a plan meets the proven bound."


def test_pools_have_a_picture_each() -> None:
    build = GraphBuilder("pools")
    build.op("a", writes={"fast": 8})
    build.op("b", reads=["fast"], writes={"slow": 16})
    build.op("c", reads=["slow"], writes={"y": 8})
    build.output("y")
    graph = build.build()
    buffers = [replace(x, pool="s" if x.name == "slow" else "f") for x in graph.buffers]
    report = solved(replace(graph, buffers=tuple(buffers)))
    assert [(slab.pool, slab.size) for slab in report.views[0].slabs] == [("f", 8), ("s", 16)]
    text = Reader(report_page(report)).text
    assert "in 2 slabs, together 24 B: no plan needs less" in text
    assert "Packed slab in pool s of 16 B" in text


def test_no_bound_on_slabs_is_said_of_plans_in_other_pools() -> None:
    graph = diamond()
    buffers = [replace(x, pool="fast" if x.name in "ay" else "") for x in graph.buffers]
    pooled = replace(graph, buffers=tuple(buffers))
    apart = solve(pooled)
    together = solve(graph).plan
    assert together is not None
    moved = replace(together, pools=("last",) * len(buffers))
    assert (apart.slab_bound, moved.slab(pooled)) == (24, 18)
    report = make_report(pooled, apart, [("moved", moved, ())])
    assert report.result.slab_bound == apart.peak_bound < 18
    assert "needs less (proved)" not in Reader(report_page(report)).text
    # Where all lie together as they name one pool, its name does not matter.
    assert moved.keeps_pools(graph)


def test_what_is_not_drawn_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    build = GraphBuilder("many")
    for number in range(60):
        build.op(f"op{number}", writes={f"b{number}": 100 - number})
    build.op("end", reads=[f"b{i}" for i in range(60)], writes={"y": 1})
    build.output("y")
    report = solved(build.build())
    (shown,) = report.views
    assert left_out(shown) == ""
    assert "The picture shows the 40 buffers" in left_out(shown, 40)
    assert "it leaves out 21 more" in left_out(shown, 40)
    found = solve(build.build(), time_limit=5)
    monkeypatch.setattr("optsched.reports.notebook.RECTANGLES", 40)
    assert "it leaves out 21 more" in html(found)
    monkeypatch.setattr("optsched.reports.sections.AT_MOST", 30)
    listed = live_table(shown)
    assert listed.count("data-buffer=") == 30
    assert "18 smaller ones (31 even smaller" in listed
    report_page(report)


def test_graphs_without_ops_or_bytes_have_a_page(caplog: pytest.LogCaptureFixture) -> None:
    build = GraphBuilder("still")
    build.input("x", 8, "kept")
    assert "still" in report_page(solved(build.build()))
    build = GraphBuilder("nothing")
    build.op("a")
    assert "nothing" in report_page(solved(build.build()))
    # A picture may be empty.
    assert not caplog.records
