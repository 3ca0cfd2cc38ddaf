"""Compiled programs that XLA dumped: orders, live ranges and buffer assignments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from optsched import check_plan, peak_memory, solve
from optsched.errors import PlanError
from optsched.formats import Source, read_graph, read_plan, read_recorded
from optsched.formats.hlo.read import read_hlo, read_hlo_module
from optsched.model.module import listed_graph
from tests.support.commands import Cli
from tests.support.hlo_text import DUMPS
from tests.support.xla_live_ranges import both_live_ranges

LOOP_FREE = ("attention", "branches", "donated", "network", "update")


def test_an_unscheduled_module_records_no_order(tmp_path: Path) -> None:
    path = DUMPS / "network-unscheduled.txt"
    assert read_recorded(path) == {}
    assert len(read_graph(path).ops) == 30


def test_a_schedule_is_the_order_xla() -> None:
    path = DUMPS / "network-module.txt"
    assert read_recorded(path) == {"xla": tuple(range(len(read_graph(path).ops)))}


@pytest.mark.parametrize("name", LOOP_FREE)
def test_live_ranges_are_xlas_own(name: str) -> None:
    graph = read_graph(DUMPS / f"{name}-module.txt")
    ours, theirs = both_live_ranges(graph, DUMPS / f"{name}-live-range.txt")
    counted = [b for b, buffer in enumerate(graph.buffers) if not buffer.external]
    assert len(theirs) == sum(graph.roots[b] == b for b in counted)
    assert ours == theirs


@pytest.mark.parametrize("name", LOOP_FREE)
def test_xlas_buffer_assignment_is_a_plan_and_ours_is_no_larger(name: str) -> None:
    graph = read_graph(DUMPS / f"{name}-module.txt").with_inplace()
    text = (DUMPS / f"{name}-buffer-assignment.txt").read_text()
    theirs = check_plan(graph, read_plan(DUMPS / f"{name}-buffer-assignment.txt", graph))
    assert theirs.slab >= int(re.findall(r"size (\d+), preallocated-temp", text)[0])
    ours = solve(graph, time_limit=10)
    assert ours.slab is not None
    assert ours.slab <= theirs.slab


def test_check_takes_a_buffer_assignment(cli: Cli) -> None:
    files = [str(DUMPS / f"branches-{part}.txt") for part in ("module", "buffer-assignment")]
    assert "slab" in cli("check", *files, "--inplace")


@pytest.mark.parametrize(("name", "op"), [("scan", "while"), ("choice", "cond")])
def test_a_module_that_calls_has_no_plan_but_a_graph(name: str, op: str) -> None:
    graph = read_graph(DUMPS / f"{name}-module.txt")
    assert any(buffer.name.endswith(".workspace") for buffer in graph.buffers)
    with pytest.raises(PlanError, match=rf"has no place for '{op}.*workspace': it is of another"):
        read_plan(DUMPS / f"{name}-buffer-assignment.txt", graph)


def test_scans_bytes_are_those_that_xla_takes() -> None:
    """All but scalars that a loop or a constant holds: XLA takes 24,736 bytes beside 9,472."""
    graph = read_graph(DUMPS / "scan-module.txt").with_inplace()
    peak = peak_memory(graph, tuple(range(len(graph.ops))))
    assert 0.99 * (24_736 + 9_472) < peak <= 24_736 + 9_472


def test_a_module_has_all_that_its_entry_calls() -> None:
    text = (DUMPS / "scan-module.txt").read_text()
    found = read_hlo_module(Source(text.encode(), "scan"))
    assert found.computations == ("region_0.5", "region_2.6", "main.7")
    (call,) = found.calls
    assert (call.op, set(call.callees)) == ("while.6", {"region_0.5", "region_2.6"})
    assert listed_graph(found) == read_hlo(Source(text.encode(), "scan"))
