"""Changes since an earlier run, by a store and by a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from optsched import Graph, GraphBuilder, write_graph
from optsched.errors import FormatError
from optsched.fleet.since import page_rows, read_earlier
from optsched.runtime.limits import Objective
from tests.support.commands import Cli
from tests.support.families.small import diamond, two_towers


def pair(first: int) -> Graph:
    build = GraphBuilder("pair")
    build.op("a", writes={"x": first})
    build.op("b", reads=["x"], writes={"y": 8})
    return build.build()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    write_graph(diamond(), folder / "diamond.json")
    write_graph(two_towers(), folder / "towers.json")
    write_graph(pair(4), folder / "pair.json")
    (folder / "bad.json").write_text('{"format": "optsched-graph/1"}')
    return folder


def night(models: Path, cli: Cli, *options: str) -> dict[str, list[str]]:
    """Run a night's command, which allows one failure; return the graphs by kind of change."""
    store = models.parent / "plans.store"
    given = ("--store", store, "--work", 1000, "--allow-failed", 1, *options)
    found: dict[str, list[str]] = {}
    for change in cli.json("tune", models, *given)["since"]["changes"]:
        found.setdefault(change["what"], []).append(change["graph"])
    return found


@pytest.mark.parametrize("kind", ["store", "page"])
def test_the_second_night_says_what_changed(kind: str, models: Path, cli: Cli) -> None:
    store, page = models.parent / "plans.store", models.parent / "night.html"
    options = ["--diff", str(store if kind == "store" else page), "--report", str(page)]
    assert night(models, cli, *options) == {"new": ["diamond", "pair", "two_towers"]}
    assert night(models, cli, *options) == {}
    # A renamed file holds the same graph; one model was changed, one broke, one is mended.
    (models / "diamond.json").rename(models / "renamed.json")
    write_graph(pair(400), models / "pair.json")
    (models / "towers.json").write_text("{")
    write_graph(pair(40), models / "bad.json")
    expected = {"other graph": ["pair.json"], "fails now": [str(models / "towers.json")]}
    # A store knows no files without a plan.
    expected["new" if kind == "store" else "planned now"] = ["bad"]
    found = night(models, cli, *options)
    assert {what: len(graphs) for what, graphs in found.items()} == dict.fromkeys(expected, 1)
    assert found.keys() == expected.keys()
    text = page.read_text()
    assert f"since {store if kind == 'store' else page}: 1 fails now, 1 other graph" in text
    (models / "bad.json").unlink()
    gone = night(models, cli, *options)
    # The store still has the plan of the file that broke, and may have graphs of other folders.
    assert [*gone] == (["fails now"] if kind == "store" else ["gone"])


def test_other_values_of_one_graph_are_larger_smaller_or_proved(models: Path, cli: Cli) -> None:
    page = models.parent / "night.html"
    night(models, cli, "--diff", str(page), "--report", str(page))
    known = read_earlier(page, Objective.SLAB).answers
    slabs = {x.name: x.value for x in known if x.value is not None}
    assert slabs == {"diamond": 18, "pair": 12, "two_towers": 12}
    rows = [{"path": x.path, "graph": x.name, "key": x.key, "state": "open"} for x in known]
    values = {"diamond": 17, "pair": 13, "two_towers": 12}
    page.write_text(page_rows([{**row, "slab": values.get(row["graph"])} for row in rows]))
    found = night(models, cli, "--diff", str(page))
    kinds = {"larger": ["diamond"], "smaller": ["pair"], "proved now": ["two_towers"]}
    assert found == kinds
    assert list(found) == list(kinds)


def test_the_terminal_shows_the_first_changes(models: Path, cli: Cli) -> None:
    store = str(models.parent / "plans.store")
    given = ["tune", str(models), "--store", store, "--work", "1000", "--allow-failed", "1"]
    said = cli(*given, "--diff", store, "--top", "2")
    assert f"since {store}: 3 new, 1 without a plan" in said
    assert "1 more change: --report has them" in said


def test_a_file_that_is_no_earlier_run_is_one_line(models: Path, tmp_path: Path, cli: Cli) -> None:
    given = ["tune", str(models), "--store", str(tmp_path / "s"), "--work", "1000", "--diff"]
    assert "--diff: no such file" in cli.error(*given, tmp_path / "typo.html")
    (tmp_path / "page.html").write_text("<html>")
    assert "not a store, and not a page" in cli.error(*given, tmp_path / "page.html")
    with pytest.raises(FormatError):
        (tmp_path / "page.html").write_text(page_rows([{"graph": 3}]))
        read_earlier(tmp_path / "page.html", Objective.SLAB)


def test_a_name_does_not_end_the_rows_of_a_page(tmp_path: Path) -> None:
    name = "</script><b>"
    row = {"path": "", "graph": name, "key": "k", "state": "proved", "slab": 3}
    (tmp_path / "page.html").write_text(page_rows([row]))
    (found,) = read_earlier(tmp_path / "page.html", Objective.SLAB).answers
    assert (found.name, found.value, found.is_proved) == (name, 3, True)
    assert replace(found, name="") != found
