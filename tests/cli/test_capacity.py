"""Capacities: beyond 64-bit offsets, and of packing files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optsched.cli import main
from optsched.formats import write_graph
from optsched.model.builder import GraphBuilder
from tests.support.commands import Cli


@pytest.fixture
def graph(tmp_path: Path) -> str:
    """Two buffers that lie 2**62 bytes apart."""
    build = GraphBuilder("apart")
    build.op("a", writes={"x": 8, "y": 8})
    for name in "xy":
        build.place(name, alignment=2**62)
    path = tmp_path / "apart.json"
    write_graph(build.build(), path)
    return str(path)


def test_slabs_above_2_to_the_62_go_through_files(graph: str, tmp_path: Path, cli: Cli) -> None:
    plan = str(tmp_path / "plan.json")
    assert main(["solve", graph, "-o", plan]) == 0
    assert f"slab {2**62 + 8:,} bytes" in cli("check", graph, plan)
    assert json.loads(cli("export", plan, "--to", "json"))["slab"] == 2**62 + 8


@pytest.mark.parametrize("capacity", [2**62 + 8, 2**64, 2**70])
def test_capacities_of_more_than_64_bits(graph: str, capacity: int, cli: Cli) -> None:
    assert f"fits in {capacity:,} bytes" in cli("solve", graph, "--capacity", capacity)


def test_the_capacity_of_a_packing_file_is_checked(tmp_path: Path, cli: Cli) -> None:
    rows = [
        {"name": "a", "start": 0, "end": 2, "size": 4, "offset": 0},
        {"name": "b", "start": 1, "end": 3, "size": 4, "offset": 4},
    ]
    path, out = tmp_path / "over.json", str(tmp_path / "out.json")
    document = {"format": "optsched-packing/1", "capacity": 4, "buffers": rows}
    path.write_text(json.dumps(document))
    assert "slab of 8 bytes exceeds the capacity of 4" in cli.error("check", path, code=1)
    # What is asked for stands in the file that is written.
    assert main(["pack", str(path), "--capacity", "8", "-o", out]) == 0
    assert main(["check", out]) == 0
    pooled = [{**row, "pool": "fast"} for row in rows]
    path.write_text(json.dumps({**document, "buffers": pooled}))
    assert main(["check", str(path)]) == 1
    # A capacity is of one slab, so that it says nothing of several pools.
    pooled[0]["pool"] = "slow"
    path.write_text(json.dumps({**document, "buffers": pooled}))
    assert main(["check", str(path)]) == 0


def test_check_names_the_pools_that_solve_was_given(tmp_path: Path, cli: Cli) -> None:
    """A pool may stay empty, and buffers outside the slab are not in a pool."""
    build = GraphBuilder("pools")
    build.op("a", writes={"a": 1})
    build.op("b", writes={"b": 1})
    build.output("a", policy="own")
    build.output("b")
    build.place("b", pin=9)
    graph, plan = str(tmp_path / "pools.json"), str(tmp_path / "plan.json")
    write_graph(build.build(), graph)
    assert "in the pools 'x', 'y'" in cli(
        "solve", graph, "--pool", "x", "--pool", "y=7", "-o", plan
    )
    said = cli("check", graph, plan)
    assert "among plans that spill as few bytes in the pools 'x', 'y'" in said


def test_a_packing_of_no_buffers_is_valid(tmp_path: Path, cli: Cli) -> None:
    for name, text in (
        ("none.json", '{"format": "optsched-packing/1", "buffers": []}'),
        ("none.csv", "id,lower,upper,size,offset\n"),
    ):
        (tmp_path / name).write_text(text)
        out = str(tmp_path / f"packed.{name}")
        assert main(["pack", str(tmp_path / name), "-o", out]) == 0
        assert "valid: slab 0 bytes" in cli("check", out, "--replay")
