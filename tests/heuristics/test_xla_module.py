"""XLA's scheduling of modules: against a transcription of its source, and by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from heuristics import xla_module
from heuristics.orderings.program import program
from heuristics.xla_module import heap_size, minimum_memory_for_module, schedule_module
from optsched import Graph, solve_module
from optsched.errors import PlanError, UsageError
from tests.fuzz.xla_modules import METHODS, compare, read
from tests.solver.test_module import nested
from tests.support.random_hlo import random_hlo

DUMPS = Path(__file__).parents[2] / "instances" / "hlo"
BY_HAND = """HloModule m

%body (s: (u8[10], u8[4])) -> (u8[10], u8[4]) {
  %s = (u8[10], u8[4]) parameter(0)
  %a = u8[10] get-tuple-element(%s), index=0
  %b = u8[4] get-tuple-element(%s), index=1
  %wide = u8[50] custom-call(%a)
  %new = u8[10] custom-call(%wide)
  ROOT %t = (u8[10], u8[4]) tuple(%new, %b)
}

%test (r: (u8[10], u8[4])) -> u8[1] {
  %r = (u8[10], u8[4]) parameter(0)
  ROOT %yes = u8[1] custom-call(%r)
}

ENTRY %main (p: u8[10]) -> u8[10] {
  %p = u8[10] parameter(0)
  %c = u8[4] constant({...})
  %state = (u8[10], u8[4]) tuple(%p, %c)
  %loop = (u8[10], u8[4]) while(%state), condition=%test, body=%body
  ROOT %y = u8[10] get-tuple-element(%loop), index=0
}
"""


def test_modules_are_scheduled_as_the_source_has_it() -> None:
    """`python -m tests.fuzz xla_modules` compares thousands."""
    assert sum(compare(seed) for seed in range(50)) > 25


def test_points_to_sets_of_tuples_by_hand() -> None:
    module = read(BY_HAND)
    sizes = {b.name: b.size for b in module.graphs["main"].buffers}
    # A tuple has an index table of two pointers; constants have no bytes.
    assert sizes == {"p": 10, "c": 0, "state": 16, "loop": 16, "loop{0}": 10, "loop{1}": 4}
    body = module.graphs["body"]
    kept = {op.name: {body.buffers[b].name for b in op.reads} for op in body.ops}
    assert kept["a"] == {"s", "s{0}"}
    assert kept["t"] == {"new", "s{1}"}
    used = module.logical["body"].uses[body.op_ids["a"]]
    assert {body.buffers[b].name for b in used} == {"s", "s{0}", "s{1}"}


def test_memory_by_computation_by_hand() -> None:
    """No bytes of `while` twice: those of its result are in the memory of its body."""
    found = schedule_module(read(BY_HAND), "program")
    # Once its parts are taken out the table of the state is gone.
    assert found.memory_by_computation["body"] == 10 + 4 + 50
    assert found.memory_by_computation["test"] == 16 + 10 + 4 + 1
    # Parameter, table, result (30), and what the body needs beyond the result.
    assert found.memory_by_computation["main"] == 10 + 16 + 30 + (64 - 30)
    whole = minimum_memory_for_module(read(BY_HAND), found.orders)
    assert whole == 10 + 16 + 30 + 64
    assert heap_size(read(BY_HAND), found.orders, alignment=1) >= whole


@pytest.mark.parametrize("name", ["attention", "choice", "network", "scan"])
def test_no_scheduler_needs_less_than_is_proved(name: str) -> None:
    module = read((DUMPS / f"{name}-unscheduled.txt").read_text())
    best = solve_module(module, objective="peak", time_limit=20)
    assert best.status == "optimal"
    for method in (*METHODS, "lpmf", "program"):
        found = schedule_module(module, method)
        needed = found.memory_by_computation[module.entry]
        assert needed >= (best.entry.peak or 0)
        assert heap_size(module, found.orders) >= minimum_memory_for_module(module, found.orders)


def test_exact_schedules_of_random_modules_are_below_all_schedulers() -> None:
    below = 0
    for seed in range(100, 115):
        module = read(random_hlo(seed))
        best = solve_module(module, objective="peak", time_limit=20)
        assert best.status == "optimal"
        needed = [
            schedule_module(module, method).memory_by_computation[module.entry]
            for method in METHODS
        ]
        assert min(needed) >= (best.entry.peak or 0)
        below += min(needed) > (best.entry.peak or 0)
    assert below > 0


def test_operands_may_be_reused_where_the_heap_simulator_lets_them() -> None:
    text = """HloModule m

ENTRY %main (p: u8[10]) -> u8[10] {
  %p = u8[10] parameter(0)
  %a = u8[10] custom-call(%p)
  %b = u8[10] negate(%a)
  %c = u8[10] copy(%b)
  ROOT %y = u8[10] custom-call(%c)
}
"""
    graph = read(text).graphs["main"]
    names = [(graph.buffers[b].name, graph.buffers[s].name) for _, b, s in graph.inplace_candidates]
    assert names == [("b", "a")]


def test_a_scheduler_of_ones_own_is_given_every_computation() -> None:
    seen = []

    def mine(graph: Graph, seed: int = 0) -> list[int]:
        seen.append((graph.name, len(graph.buffers)))
        return list(range(len(graph.ops)))

    found = schedule_module(nested(), mine)
    # The callers have a block for what they call.
    assert seen == [("wide", 4), ("middle", 3), ("main", 4)]
    assert found == schedule_module(nested(), program) == schedule_module(nested(), "program")
    assert found.memory_by_computation == {"wide": 9, "middle": 16, "main": 28}


def test_a_schedule_that_breaks_a_rule_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match="computation 'wide': order runs op"):
        schedule_module(nested(), lambda graph, seed=0: list(range(len(graph.ops)))[::-1])
    with pytest.raises(UsageError, match="unknown scheduler 'none', expected one of program, lpmf"):
        schedule_module(nested(), "none")


def test_calls_within_calls_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla_module, "MOST_BUFFERS", 3)
    with pytest.raises(UsageError, match="computation 'middle' runs more than 3 buffers"):
        heap_size(nested(), schedule_module(nested(), "program").orders)
