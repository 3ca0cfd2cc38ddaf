"""Graphs that share a name: a row, label and share of the total for each, in every medium."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from optsched import compare_methods, tune
from optsched.formats import write_graph
from optsched.model.graph import Graph
from optsched.runtime.text import unshield
from tests.support.commands import Cli
from tests.support.families.small import chain, diamond, two_towers

TOTAL = "slab 44 -> 42 bytes"
"""The sum over `diamond` (20 -> 18) and `chain` twice (12 -> 12), in any file."""
SAME = "3 graphs, 1 of them equal to another: "
LABELS = ["a/model.json", "b/model.json", "c/model.json"]
BYTES = {"a/model.json": ["20", "18"], "b/model.json": ["12", "12"], "c/model.json": ["12", "12"]}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three files `model.json`: a diamond, a chain, and the chain with other names of ops."""
    renamed = replace(chain(), ops=tuple(replace(op, name=f"{op.name}_") for op in chain().ops))
    for folder, graph in (("a", diamond()), ("b", chain()), ("c", renamed)):
        (tmp_path / folder).mkdir()
        write_graph(replace(graph, name="model"), tmp_path / folder / "model.json")
    return [str(tmp_path / folder) for folder in "abc"]


def rows_of_page(page: Path) -> dict[str, list[str]]:
    """Return the bytes before and after of each row of the table of graphs, by label."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page.read_text(), re.DOTALL)
    return {
        found[1]: re.findall(r'title="([\d,]+) bytes', row)[:2]
        for row in rows
        if (found := re.search(r"aria-controls=graph-\d+>([^<]+)<", row))
    }


def test_a_comparison_has_a_row_and_a_share_for_each(
    files: list[str], tmp_path: Path, cli: Cli
) -> None:
    page, table, text = (tmp_path / name for name in ("page.html", "rows.csv", "text.md"))
    command = ["compare", *files, "--methods", "program+greedy_by_size,optsched"]
    outputs = ["--report", str(page), "--csv", str(table), "--markdown", str(text)]
    said = cli(*command, *outputs)
    for medium in (said, text.read_text(), page.read_text().replace("&gt;", ">")):
        assert f"{SAME}{TOTAL}" in medium
    assert all(label in said and label in text.read_text() for label in LABELS)
    assert rows_of_page(page) == BYTES
    rows = [row for row in csv.DictReader(table.open()) if row["method"] == "optsched"]
    assert [unshield(row["graph"], "") for row in rows] == LABELS
    shown = ("before", "saved", "equals")
    figures = [("20", "2", ""), ("12", "0", ""), ("12", "0", "b/model.json")]
    assert [tuple(row[name] for name in shown) for row in rows] == figures
    assert [row["path"] for row in rows] == [f"{folder}/model.json" for folder in files]
    record = cli.json(*command)
    assert [row["graph"] for row in record["graphs"]] == LABELS == list(record["saving"]["graphs"])
    assert (record["saving"]["total"]["before"], record["saving"]["total"]["after"]) == (44, 42)
    assert f"{SAME}{TOTAL}" in cli(*command, "--top", 1)


def test_a_fleet_and_its_store_have_a_row_and_a_share_for_each(
    files: list[str], tmp_path: Path, cli: Cli
) -> None:
    page, table, store = (tmp_path / name for name in ("page.html", "rows.csv", "plans.store"))
    command = ["tune", *files, "--work", "1000", "--store", str(store)]
    said = cli(*command, "--report", page, "--csv", table)
    assert said.startswith(f"{SAME}{TOTAL}")
    assert f"{SAME}3 proved" in said
    assert all(label in said for label in LABELS)
    assert f"{SAME}{TOTAL}" in page.read_text().replace("&gt;", ">")
    assert rows_of_page(page) == BYTES
    rows = list(csv.DictReader(table.open()))
    assert [unshield(row["graph"], "") for row in rows] == LABELS
    shown = ("before", "slab", "saved", "state", "weight", "equals")
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("20", "18", "2", "proved", "1", ""),
        ("12", "12", "0", "proved", "1", ""),
        ("12", "12", "0", "proved", "1", "b/model.json"),
    ]
    record = cli.json(*command)
    assert list(record["rows"][0]) == list(rows[0])
    listed = cli("store", "ls", store)
    assert "a/model.json" in listed
    # Equal graphs share a record, so a store has one less.
    assert "2 records of 2 different graphs" in listed


def test_columns_of_both_tables_have_one_name(tmp_path: Path) -> None:
    graphs: list[Graph] = [replace(graph, name="model") for graph in (diamond(), two_towers())]
    fleet = tune(graphs, tmp_path / "store", work=1000, jobs=0).to_dataframe()
    study = compare_methods(graphs, methods=["lpmf"], work=1000).to_dataframe()
    assert list(fleet["graph"]) == ["model", "model.2"] == list(dict.fromkeys(study["graph"]))
    same = {"path", "graph", "equals", "ops", "buffers", "weight", "state", "before", "saved"}
    assert same < set(fleet.columns) & set(study.columns)
    ours = study[study["method"] == "optsched"]
    for name in same | {"peak", "slab", "peak_bound", "slab_bound"}:
        assert list(ours[name]) == list(fleet[name]), name
