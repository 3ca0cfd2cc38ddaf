"""The report of a comparison: complete, self-contained, and safe from names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

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
from optsched.fleet import Fleet, FleetSettings
from optsched.model.graph import Graph
from optsched.reports.study_page import study_html
from tests.reports.hostile import NAMES, hostile_graph
from tests.reports.reader import Reader
from tests.support.families.small import diamond, two_towers
from tests.support.generators import random_graph

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
        "skipped: odd.json: no graph",
        "diamond, slow: timed out: after 9 s",
        "The minimum slab is 18 bytes. L5",
        "of 2 graphs; 1 failed.",
        "Find",
    ):
        assert words in page.text
    assert page.tags.count("svg") == 3
    assert page.loads == ["data:,", "#graph-0", "#graph-1"]
    assert page.handlers == []
    assert page.tags.count("script") == 1


def test_hostile_names_are_text() -> None:
    html = study_html(study(hostile_graph()))
    html.encode()
    page = Reader(html)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert page.handlers == []
    assert NAMES[0] in page.text
    assert "lone surrogate \\ud800" in page.text


def test_a_fleet_of_two_hundred_graphs_is_small() -> None:
    """Pictures share a budget of bytes, and details are folded."""
    rng = np.random.default_rng(7)
    graphs = [random_graph(rng, 200, name=f"g{number}") for number in range(2)]
    found = [compare_methods(graph, methods=("program", "optsched"), work=1) for graph in graphs]
    many = tuple(
        replace(c, graph=replace(c.graph, name=f"{c.graph.name}_{copy}"))
        for copy in range(100)
        for c in found
    )
    methods = parse_methods(("program", "optsched"))
    html = study_html(
        Study(methods, StudySettings(methods), many, ()), fleet=Fleet(FleetSettings(work=1), ())
    )
    assert len(html.encode()) < 3_000_000
    page = Reader(html)
    assert page.tags.count("svg") == len(many)
    assert "Performance profile" not in page.text
