"""The fuzzer of solve() finds nothing wrong, and would find it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.runtime.limits import SIZES, Objective
from optsched.solver.pipeline import solve
from tests.fuzz.joint import KINDS, Row, compare, contradiction, main, run_kind, table
from tests.support.brute import least_joint, least_joint_inplace
from tests.support.families.small import SMALL_GRAPHS


@pytest.mark.parametrize("objective", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_wrong(kind: str, objective: Objective) -> None:
    row = run_kind(kind, objective, 10, seed=2, seconds=20)
    assert (row.graphs, row.wrong) == (10, [])
    assert row.reached + row.refused >= 8
    assert f"| {objective} | {kind} | 10 |" in table([row])


def test_wrong_answers_are_seen() -> None:
    graph = next(iter(SMALL_GRAPHS))()
    result = solve(graph)
    assert contradiction(graph, result, 12, 12) is None
    assert contradiction(graph, result, 11, 12) == "peak"
    assert contradiction(graph, result, 12, 13) == "slab"
    assert contradiction(graph, replace(result, plan=None), 12, 12) == "no plan"
    loose = replace(result, slab_bound=10)
    assert contradiction(graph, loose, 12, 11) is None
    row = Row("no places", Objective.SLAB)
    compare(row, graph, 5.0)
    assert (row.reached, row.proved, row.wrong) == (1, 1, [])


def test_oracles_agree_where_nothing_is_in_place() -> None:
    for make in list(SMALL_GRAPHS)[:4]:
        graph = make()
        if len(graph.ops) <= 5:
            joint = least_joint(graph)
            assert joint is not None
            assert least_joint_inplace(graph) == joint[0]


def test_the_command_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(1) == 0
    assert f"{2 * len(KINDS)} graphs, 0 wrong." in capsys.readouterr().out
