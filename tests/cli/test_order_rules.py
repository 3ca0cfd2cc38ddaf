"""Order rules, baselines and moves on the command line: solve, the plan's file, check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optsched.cli import main
from optsched.formats.native import graph_document
from tests.support.families.small import swelling

GRAPH = "towers.json"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / GRAPH).write_text(json.dumps(graph_document(swelling())))
    assert main(["solve", GRAPH, "-o", "best.json"]) == 0
    return tmp_path


def _plan(path: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(Path(path).read_text())
    return found


def test_rules_are_kept_written_and_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = ["--first", "up1", "--keep-order", "up0,down1"]
    given = ["solve", GRAPH, *rules, "-o", "plan.json", "--certificate", "bound.json"]
    assert main(given) == 0
    plan = _plan("plan.json")
    assert plan["order_rules"] == {"first": ["up1"], "groups": [["up0", "down1"]]}
    capsys.readouterr()
    assert main(["check", GRAPH, "plan.json", "bound.json"]) == 0
    assert "minimal" not in capsys.readouterr().out
    assert main(["check", GRAPH, "plan.json", "bound.json", *rules]) == 0
    assert "the peak is minimal" in capsys.readouterr().out
    assert main(["check", GRAPH, "plan.json", *rules, "--last", "join"]) == 0
    assert main(["check", GRAPH, "plan.json", "--last", "up0"]) == 1
    assert "op 'up0' must be last, but runs at step 1" in capsys.readouterr().err
    plan["order_rules"] = {"groups": [["down1", "up0"]]}
    Path("wrong.json").write_text(json.dumps(plan))
    assert main(["check", GRAPH, "wrong.json"]) == 1
    assert "op 'down1' must run before 'up0' of its group" in capsys.readouterr().err


def test_rules_of_a_file_are_not_the_question(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Among orders that run both up0 and up1 first 19 bytes are the minimum, of all 11 are."""
    rules = ["--first", "up*"]
    assert main(["solve", GRAPH, *rules, "-o", "plan.json", "--certificate", "bound.json"]) == 0
    assert json.loads(Path("bound.json").read_text())["order_rules"]["first"]
    capsys.readouterr()
    assert main(["check", GRAPH, "plan.json", "bound.json"]) == 0
    said = capsys.readouterr().out
    assert "no order below 19 bytes among orders that run 'up0', 'up1' first" in said
    assert "which says nothing about other orders" in said
    assert "minimal" not in said
    assert main(["check", GRAPH, "plan.json", "bound.json", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert "bound" not in record
    assert record["restricted_bound"]["bound"] == 19
    assert main(["check", GRAPH, "plan.json", "bound.json", *rules]) == 0
    assert "the peak is minimal, the slab is minimal among them" in capsys.readouterr().out
    stated = json.loads(Path("bound.json").read_text())
    del stated["order_rules"]
    Path("old.json").write_text(json.dumps(stated))
    assert main(["check", GRAPH, "plan.json", "old.json"]) == 0
    assert "which says nothing about other orders" in capsys.readouterr().out
    assert main(["check", GRAPH, "best.json", "old.json"]) == 1


def test_moves_are_counted_bounded_and_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", GRAPH, "--first", "up*", "-o", "base.json"]) == 0
    capsys.readouterr()
    near = ["--baseline", "base.json"]
    assert main(["solve", GRAPH, *near, "--fewest-moves", "-o", "plan.json", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["slab"], record["order_rules"]["moved"]) == (11, 1)
    assert record["order_rules"]["moved_bound"] == 1
    assert main(["check", GRAPH, "plan.json"]) == 0
    assert "no plan as good moves fewer than 1 op" in capsys.readouterr().out
    assert main(["check", GRAPH, "plan.json", *near, "--max-moved", "1"]) == 0
    assert main(["check", GRAPH, "plan.json", *near, "--max-moved", "0"]) == 1
    assert "plan moves 1 op of the baseline, more than 0" in capsys.readouterr().err
    assert main(["solve", GRAPH, *near, "--max-moved", "0"]) == 0
    assert "0 of 5 ops moved from the baseline (at most 0 allowed)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"moved": 0}, "claims to move 0 ops of its baseline, it is 1"),
        ({"max_moved": 0}, "moves 1 op of its baseline, at most 0"),
        ({"moved_bound": 2}, "claims that none moves fewer than 2 ops, it moves 1"),
        ({"baseline": ["up0"]}, "the baseline has other ops than the plan: 'down0'"),
        ({"last": ["up"]}, "order rules name op 'up', which is not in the plan"),
    ],
)
def test_wrong_claims_of_moves_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], rules: dict[str, object], said: str
) -> None:
    main(["solve", GRAPH, "--first", "up*", "-o", "base.json"])
    main(["solve", GRAPH, "--baseline", "base.json", "--fewest-moves", "-o", "plan.json"])
    plan = _plan("plan.json")
    claimed = plan["order_rules"]
    assert isinstance(claimed, dict)
    plan["order_rules"] = claimed | rules
    Path("wrong.json").write_text(json.dumps(plan))
    capsys.readouterr()
    assert main(["check", GRAPH, "wrong.json"]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--first", "join"], "op 'join' is pinned first, but needs op"),
        (["--first", "nobody"], "order rules name op 'nobody', but no op has that name"),
        (["--max-moved", "1", "--certificate", "c.json"], "leave out --max-moved"),
        (["--fewest-moves", "--pool", "a"], "--pool excludes --fewest-moves"),
    ],
)
def test_what_can_not_be_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    assert main(["solve", GRAPH, *given]) == 2
    shown = capsys.readouterr().err.strip().splitlines()
    assert said in shown[-1]


def test_what_is_proved_under_rules_is_never_said_of_all_orders(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Patterns count as well, and the framework's order has to keep the rules, too."""
    rules = ["--keep-order", "up*"]
    words = "smallest possible among orders that keep the sequence 'up0', 'up1'"
    for command in (["compare", "--methods", "lpmf", "--report", "page.html"], ["explain"]):
        assert main([command[0], GRAPH, *command[1:], *rules]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert words in first
        assert ("under the same order rules" in first) is (command[0] == "compare")
    verdicts = Path("page.html").read_text().split("class=more")[1]
    assert verdicts.count("among orders that keep the sequence") >= 2
