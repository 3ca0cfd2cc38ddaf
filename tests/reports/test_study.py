"""Comparisons in print: golden CSV and Markdown of three graphs, tables that fit their width."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from optsched.compare import (
    Failed,
    Kind,
    Skipped,
    Study,
    StudySettings,
    Trouble,
    compare_files,
    parse_methods,
)
from optsched.formats import write_graph
from optsched.reports import study_files
from optsched.reports.study_files import COLUMNS, study_csv, study_markdown, study_record
from optsched.reports.study_tables import (
    graph_table,
    heading,
    method_table,
    methods_with_columns,
    print_study,
)
from optsched.reports.tables import print_table
from optsched.runtime.limits import Limits
from optsched.runtime.text import unshield
from tests.support.families.small import chain, diamond, two_towers

HERE = Path(__file__).resolve().parent
LOST = Failed("milp", Kind.PLAN, Trouble.FAILED, "engine milp takes up to 60 ops | really", 0.125)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A folder of three graphs, with seconds that do not vary, a failure and a file passed over."""
    monkeypatch.chdir(tmp_path)
    for graph in (chain(), diamond(), two_towers()):
        write_graph(graph, f"{graph.name}.json")
    return frozen(["bfs", "naive", "milp"], ["chain.json", "diamond.json", "two_towers.json"])


def frozen(methods: list[str], paths: list[str]) -> Study:
    settings = StudySettings(parse_methods(methods), Limits(seconds=10.0), jobs=0)
    found = compare_files(paths, settings)
    comparisons = [
        replace(
            c,
            rows=tuple(replace(row, runtime=0.25) for row in c.rows),
            result=replace(c.result, runtime=0.5),
        )
        for c in found.comparisons
    ]
    last = comparisons[-1]
    rows = tuple(row for row in last.rows if row.method != "milp")
    comparisons[-1] = replace(last, rows=rows, failed=(LOST,) if "milp" in methods else ())
    skipped = (Skipped("plan.json", "plan.json: this is a plan", bad=False),)
    return replace(found, comparisons=tuple(comparisons), skipped=skipped)


def test_csv_is_as_written_here(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_files, "versions", lambda: {"optsched": "1"})
    monkeypatch.setattr(study_files, "machine", lambda: "here")
    assert study_csv(study) == (HERE / "golden_study.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(study_csv(study))))
    assert len(rows) == 3 * 4 + 1
    assert tuple(rows[0]) == COLUMNS


def test_csv_holds_no_formula(study: Study) -> None:
    comparison = study.comparisons[0]
    names = ("=cmd|' /C calc'!A0", "@x", "a\x1b[2J\nb, c")
    renamed = [
        replace(comparison, graph=replace(comparison.graph, name=name), path=name) for name in names
    ]
    text = study_csv(replace(study, comparisons=tuple(renamed)))
    assert text.replace("\n", "").isprintable()
    found = [row for row in csv.DictReader(text.splitlines()) if row["graph"]]
    texts = [row[name] for row in found for name in row if name != "saved"]
    assert not any(text.startswith(tuple("=+-@")) for text in texts)
    assert list(dict.fromkeys(unshield(row["graph"], "") for row in found)) == list(names)


def test_markdown_is_as_written_here(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_files, "versions", lambda: {"python": "3"})
    assert study_markdown(study) == (HERE / "golden_study.md").read_text()


def test_record_has_one_row_per_graph_and_method(study: Study) -> None:
    record = study_record(study)
    assert len(record["rows"]) == 12
    assert len({frozenset(row) for row in record["rows"]}) == 1
    (lost,) = (row for row in record["rows"] if row["trouble"])
    assert (lost["graph"], lost["method"], lost["peak"]) == ("two_towers", "milp", None)
    assert record["profile"]["methods"]["milp"][-1] == pytest.approx(2 / 3)
    assert [s["method"] for s in record["summary"]] == ["bfs", "naive", "optsched", "milp"]


def drawn(text: str) -> list[str]:
    """Return the lines of tables, without the notes on hidden columns, which a terminal wraps."""
    return [line for line in text.splitlines() if not line.startswith("(hidden")]


def test_names_give_way_before_numbers_do(study: Study) -> None:
    console = Console(width=36, record=True, file=io.StringIO())
    print_table(console, method_table(study, grouped=True), "")
    lines = drawn(console.export_text())
    assert max(map(len, lines)) <= 36
    assert not any("…" in line for line in lines)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_tables_fit_their_width(study: Study, width: int) -> None:
    many = frozen(["all-orderings", "all-packings", "lpmf+*"], ["chain.json", "diamond.json"])
    console = Console(width=width, record=True, file=io.StringIO())
    for each in (study, many):
        shown = methods_with_columns(each)
        for table in (
            method_table(each, grouped=True),
            graph_table(each, shown, top=1, short=True),
        ):
            print_table(console, table, "")
    text = "\n".join(drawn(console.export_text()))
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    tables = text.count("optimal"), text.count("in 10 %")
    assert tables == (2, 2) if width >= 100 else (2, int(width > 60))


def test_print_says_what_is_left_out(study: Study) -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    print_study(study, console, top=2)
    text = console.export_text()
    assert "The 2 graphs of largest loss" in text
    # The largest loss comes first.
    graphs = text.partition("of largest loss")[2]
    assert graphs.index("two_towers    ") < graphs.index("chain  ")
    assert "diamond  " not in graphs
    assert "1 graph more: --top 0 prints them" in text
    assert "milp failed on 1 graph, first two_towers: engine milp takes up to 60 ops" in text
    print_study(study, console, top=0, shown=["bfs"])
    assert "diamond  " in console.export_text()


def test_columns_are_few(study: Study) -> None:
    assert methods_with_columns(study) == ["bfs", "naive", "milp"]
    paths = ["chain.json", "diamond.json"]
    assert methods_with_columns(frozen(["all"], paths))[:3] == ["program", "lpmf", "bfs"]
    assert len(methods_with_columns(frozen(["lpmf+*"], paths))) == 12


def test_headings_are_short() -> None:
    assert heading("xla_default") == "xla"
    assert heading("lpmf_backward+greedy_by_size") == "lpmf\n_backward\n+greedy_by\n_size"
    assert heading("optsched:60") == "optsched\n:60"
