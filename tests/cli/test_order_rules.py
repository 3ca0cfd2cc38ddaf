"""Order rules, baselines and moves on the command line: solve, the plan's file, check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optsched.cli import main
from optsched.formats.native import graph_document
from tests.support.commands import Cli
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
    folder: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    rules = ["--first", "up1", "--keep-order", "up0,down1"]
    given = ["solve", GRAPH, *rules, "-o", "plan.json", "--certificate", "bound.json"]
    assert main(given) == 0
    plan = _plan("plan.json")
    assert plan["order_rules"] == {"first": ["up1"], "groups": [["up0", "down1"]]}
    capsys.readouterr()
    assert "minimal" not in cli("check", GRAPH, "plan.json", "bound.json")
    assert "the peak is minimal" in cli("check", GRAPH, "plan.json", "bound.json", *rules)
    assert main(["check", GRAPH, "plan.json", *rules, "--last", "join"]) == 0
    assert "op 'up0' must be last, but runs at step 1" in cli.error(
        "check", GRAPH, "plan.json", "--last", "up0", code=1
    )
    plan["order_rules"] = {"groups": [["down1", "up0"]]}
    Path("wrong.json").write_text(json.dumps(plan))
    assert "op 'down1' must run before 'up0' of its group" in cli.error(
        "check", GRAPH, "wrong.json", code=1
    )


def test_rules_of_a_file_are_not_the_question(
    folder: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    """Among orders that run both up0 and up1 first 19 bytes are the minimum, of all 11 are."""
    rules = ["--first", "up*"]
    assert main(["solve", GRAPH, *rules, "-o", "plan.json", "--certificate", "bound.json"]) == 0
    assert json.loads(Path("bound.json").read_text())["order_rules"]["first"]
    capsys.readouterr()
    said = cli("check", GRAPH, "plan.json", "bound.json")
    assert "no order below 19 bytes among orders that run 'up0', 'up1' first" in said
    assert "which says nothing about other orders" in said
    assert "minimal" not in said
    record = cli.json("check", GRAPH, "plan.json", "bound.json")
    assert "bound" not in record
    assert record["restricted_bound"]["bound"] == 19
    assert "the peak is minimal, the slab is minimal among them" in cli(
        "check", GRAPH, "plan.json", "bound.json", *rules
    )
    stated = json.loads(Path("bound.json").read_text())
    del stated["order_rules"]
    Path("old.json").write_text(json.dumps(stated))
    assert "which says nothing about other orders" in cli("check", GRAPH, "plan.json", "old.json")
    assert main(["check", GRAPH, "best.json", "old.json"]) == 1


def test_moves_are_counted_bounded_and_checked(folder: Path, cli: Cli) -> None:
    cli("solve", GRAPH, "--first", "up*", "-o", "base.json")
    near = ["--baseline", "base.json"]
    record = cli.json("solve", GRAPH, *near, "--fewest-moves", "-o", "plan.json")
    assert (record["slab"], record["order_rules"]["moved"]) == (11, 1)
    assert record["order_rules"]["moved_bound"] == 1
    assert "no plan as good moves fewer than 1 op" in cli("check", GRAPH, "plan.json")
    assert main(["check", GRAPH, "plan.json", *near, "--max-moved", "1"]) == 0
    assert "plan moves 1 op of the baseline, more than 0" in cli.error(
        "check", GRAPH, "plan.json", *near, "--max-moved", "0", code=1
    )
    assert "0 of 5 ops moved from the baseline (at most 0 allowed)" in cli(
        "solve", GRAPH, *near, "--max-moved", "0"
    )


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
    folder: Path, capsys: pytest.CaptureFixture[str], cli: Cli, rules: dict[str, object], said: str
) -> None:
    main(["solve", GRAPH, "--first", "up*", "-o", "base.json"])
    main(["solve", GRAPH, "--baseline", "base.json", "--fewest-moves", "-o", "plan.json"])
    plan = _plan("plan.json")
    claimed = plan["order_rules"]
    assert isinstance(claimed, dict)
    plan["order_rules"] = claimed | rules
    Path("wrong.json").write_text(json.dumps(plan))
    capsys.readouterr()
    assert said in cli.error("check", GRAPH, "wrong.json", code=1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--first", "join"], "op 'join' is pinned first, but needs op"),
        (["--first", "nobody"], "order rules name op 'nobody', but no op has that name"),
        (["--max-moved", "1", "--certificate", "c.json"], "leave out --max-moved"),
        (["--fewest-moves", "--pool", "a"], "--pool excludes --fewest-moves"),
    ],
)
def test_what_can_not_be_is_one_line(folder: Path, cli: Cli, given: list[str], said: str) -> None:
    shown = cli.error("solve", GRAPH, *given).strip().splitlines()
    assert said in shown[-1]


def test_what_is_proved_under_rules_is_never_said_of_all_orders(folder: Path, cli: Cli) -> None:
    """Patterns count as well, and the framework's order has to keep the rules, too."""
    rules = ["--keep-order", "up*"]
    words = "smallest possible among orders that keep the sequence 'up0', 'up1'"
    for command in (["compare", "--methods", "lpmf", "--report", "page.html"], ["explain"]):
        first = cli(command[0], GRAPH, *command[1:], *rules).splitlines()[0]
        assert words in first
        assert ("under the same order rules" in first) is (command[0] == "compare")
    verdicts = Path("page.html").read_text().split("class=more")[1]
    assert verdicts.count("among orders that keep the sequence") >= 2
