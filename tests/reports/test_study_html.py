"""The report of a comparison: complete, self-contained, and safe from names."""

from __future__ import annotations

from dataclasses import replace

from optsched.compare import (
    Failed,
    Kind,
    Skipped,
    Study,
    StudySettings,
    Trouble,
    compare_methods,
    parse_methods,
)
from optsched.model.graph import Graph
from optsched.reports.study_files import study_html
from tests.reports.hostile import NAMES, hostile_graph
from tests.reports.reader import Reader
from tests.support.families.small import diamond, two_towers

METHODS = ("bfs", "greedy_by_size", "optsched")


def study(*graphs: Graph) -> Study:
    found = tuple(compare_methods(graph, methods=METHODS) for graph in graphs)
    methods = parse_methods(METHODS)
    skipped = (Skipped("odd.json", "no graph", bad=True),)
    return Study(methods, StudySettings(methods), found, skipped)


def test_every_part_is_there() -> None:
    done = study(diamond(), two_towers())
    failed = Failed("slow", Kind.ORDER, Trouble.TIMED_OUT, "after 9 s")
    first = replace(done.comparisons[0], failed=(failed,))
    done = replace(done, comparisons=(first, done.comparisons[1]))
    page = Reader(study_html(done))
    for words in (
        "2 graphs: minimum slab proved on 2",
        "Performance profile",
        "packers of best order, by slab",
        "odd.json: skipped: no graph",
        "diamond, slow: timed out: after 9 s",
        "The minimum slab is 18 B (18 bytes). L5",
    ):
        assert words in page.text
    assert page.tags.count("svg") == 2
    assert page.loads == ["data:,", "#graph-0", "#graph-1"]
    assert "script" not in page.tags


def test_hostile_names_are_text() -> None:
    html = study_html(study(hostile_graph()))
    html.encode()
    page = Reader(html)
    assert not {"script", "img"} & set(page.tags)
    assert page.handlers == []
    assert NAMES[0] in page.text
    assert "lone surrogate \\ud800" in page.text
