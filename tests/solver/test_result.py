"""Result: what it says by name, and that it is ready for JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from optsched.errors import UsageError
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from optsched.solver.status import Status, judge
from tests.support.families.small import diamond


def test_a_result_knows_order_offsets_and_gap_by_name() -> None:
    graph = diamond()
    result = solve(graph)
    assert result.plan is not None
    assert result.order == [graph.ops[v].name for v in result.plan.order]
    assert result.offsets is not None
    for name, offset in result.offsets.items():
        assert result.plan.offsets[graph.buffer_ids[name]] == offset
    assert result.gap == 0
    assert "graph" not in repr(result)
    assert json.loads(json.dumps(result.to_dict()))["order"] == result.order


def test_a_result_without_a_plan_has_neither_gap_nor_order() -> None:
    found = replace(solve(diamond(), limits=Limits(seconds=1)), plan=None, peak=None, slab=None)
    assert found.gap is None
    for name in ("order", "offsets"):
        with pytest.raises(UsageError, match="the result has no plan: unknown, "):
            getattr(found, name)
    assert json.loads(json.dumps(found.to_dict()))["status"] == "unknown"


def test_status_follows_from_the_numbers() -> None:
    assert judge(None, 5) is Status.UNKNOWN
    assert judge(7, 5) is Status.FEASIBLE
    assert judge(5, 5) is Status.OPTIMAL
    assert judge(5, 5, proved=False) is Status.FEASIBLE
    assert judge(7, 5, proved=True) is Status.OPTIMAL
    assert judge(None, 9, refuted=True) is Status.INFEASIBLE
