"""`optsched store`: every action, in words and as JSON, and what goes wrong in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched import GraphBuilder, read_graph, read_plan, write_graph
from optsched.check.plan import check_plan
from optsched.cli import main
from optsched.store import PlanStore
from tests.store.test_database import best, diamond
from tests.store.test_upkeep import filled
from tests.support.commands import Cli


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(filled(tmp_path_factory.mktemp("store") / "plans.db", 2).path)


def test_ls(path: str, cli: Cli) -> None:
    records = cli.json("store", "ls", path)["records"]
    assert [record["objective"] for record in records] == ["slab", "peak"] * 2
    assert [record["proved"] for record in records] == [True, False] * 2
    text = cli("store", "ls", path)
    assert text.count("diamond") == 4
    assert "4 records of 2 different graphs, 2 proved" in text


def test_show(path: str, cli: Cli, tmp_path: Path) -> None:
    graph, plan = str(tmp_path / "g.json"), str(tmp_path / "plan.json")
    write_graph(diamond(1), graph)
    (record, other) = cli.json("store", "show", path, graph, "--plan", plan)["records"]
    assert (record["record"], other["record"]) == (1, 2)
    assert record["history"][0]["what"] == "plan"
    found = read_graph(graph)
    assert check_plan(found, read_plan(plan, found)).peak == record["peak"]
    assert cli.json("store", "show", path, record["key"][:20])["records"][0] == record
    text = cli("store", "show", path, "1")
    assert "with a certificate" in text
    assert "made by  python" in text


def test_in_and_out(path: str, cli: Cli, tmp_path: Path) -> None:
    text, one, two = (str(tmp_path / name) for name in ("x.jsonl", "one.db", "two.db"))
    assert cli.json("store", "export", path, "-o", text)["exported"] == 4
    counts = cli.json("store", "import", one, text, "--trust")
    assert (counts["new"], counts["known"], counts["refused"]) == (4, 0, 0)
    assert cli.json("store", "merge", two, one, path)["known"] == 4
    assert cli.json("store", "export", path, "-o", text, "--only", "2")["exported"] == 1
    counts = cli.json("store", "merge", two, str(tmp_path / "none.db"), code=1)
    assert "no such store" in counts["troubles"][0]
    counts = cli.json("store", "import", two, one, code=1)
    assert "use merge" in counts["troubles"][0]


def test_one_is_counted_in_the_singular(cli: Cli, tmp_path: Path) -> None:
    build, store = GraphBuilder("one"), str(tmp_path / "one.db")
    build.op("a", writes={"x": 1})
    write_graph(build.build(), tmp_path / "one.json")
    text = cli("tune", tmp_path / "one.json", "--store", store, "--work", "1000")
    assert "1 graph: 1 proved" in text
    assert "; 1 unit in" in text
    assert "1 record of 1 different graph, 1 proved" in cli("store", "ls", store)
    assert "one, 1 op, 1 buffer of 1 byte" in cli("store", "show", store, "1")
    text = cli("solve", tmp_path / "one.json")
    assert "one: 1 op, 1 buffer " in text
    assert "peak  1 byte" in text


def test_upkeep(path: str, cli: Cli, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy.db")
    assert cli.json("store", "merge", copy, path, "--trust")["new"] == 4
    assert cli.json("store", "verify", copy)["sound"] is True
    assert cli.json("store", "revoke", copy, "--engine", "optsched>=0")["withdrawn"] == 4
    assert cli.json("store", "gc", copy)["bounds"] == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ls", "nowhere.db"], "no such store"),
        (["show", "STORE", "99"], "no record '99'"),
        (["show", "STORE", "zz"], "no record 'zz'"),
        (["show", "STORE", "1", "--plan", "p.json"], "needs one graph file"),
        (["show", "STORE", "GRAPH", "--plan", "STORE"], "overwrite"),
        (["revoke", "STORE", "--engine", "x"], "is not a rule"),
        (["export", "STORE", "-o", "STORE"], "overwrite"),
        (["sl", "STORE"], "has no action 'sl'"),
        (["ls", "STORE", "--nothing"], "no option"),
        ([], "required"),
    ],
)
def test_what_goes_wrong_is_one_line(
    path: str,
    arguments: list[str],
    words: str,
    cli: Cli,
    tmp_path: Path,
) -> None:
    write_graph(diamond(1), tmp_path / "g.json")
    files = {"STORE": path, "GRAPH": str(tmp_path / "g.json")}
    text = cli.error("store", *(files.get(x, x) for x in arguments))
    assert words in text
    assert text.count("\n") == 1


def test_a_store_that_is_none_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "plans.db"
    store.write_bytes(b"no database at all" * 100)
    for action in (["ls"], ["gc"], ["export", "-o", str(tmp_path / "x")]):
        assert main(["store", action[0], str(store), *action[1:]]) == 2
        assert str(store) in capsys.readouterr().err
    assert main(["store", "verify", str(store)]) == 1
    good = PlanStore(tmp_path / "good.db")
    good.put(diamond(), best(diamond()))
    assert main(["store", "merge", str(good.path), str(store)]) == 1
    assert len(good.records()) == 1
