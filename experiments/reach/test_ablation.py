"""The ablation study: which graphs it solves again, and what it counts."""

from __future__ import annotations

from experiments.reach.ablation import Trial, needs_search, summary, try_rules
from experiments.reach.table import RULES
from optsched.model.builder import GraphBuilder
from tests.support.families.wiring import random_wiring


def test_only_graphs_that_need_a_search_are_solved_without_each_rule() -> None:
    wired = random_wiring(32, 0)
    assert needs_search(wired)
    assert list(try_rules(wired, 20)) == ["all", *RULES]
    build = GraphBuilder("chain")
    build.op("a", writes={"x": 4})
    build.op("b", reads=["x"], writes={"y": 2})
    assert not needs_search(build.build())
    assert list(try_rules(build.build(), 20)) == ["all"]


def test_summary_counts_proofs_and_graphs_that_take_twice_or_half_as_long() -> None:
    usual = {name: Trial(proved=True, seconds=0.1, states=9) for name in ("all", *RULES)}
    lost = usual | {"sets": Trial(proved=False, seconds=20.0, states=9)}
    lost["split"] = Trial(proved=True, seconds=0.04, states=9)
    rows = {line.split(" | ")[0]: line for line in summary([usual, lost]).splitlines()}
    assert rows["| no rule"] == "| no rule | 2 | 0.2 | 0 | 0 |"
    assert rows["| `sets`"] == "| `sets` | 1 | 20.1 | 1 | 0 |"
    assert rows["| `split`"] == "| `split` | 2 | 0.1 | 0 | 1 |"
