"""Alignment as a memory model: sizes rounded up as well as offsets, exact all the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.check.plan import check_plan
from optsched.check.replay import replay_plan
from optsched.cli import main
from optsched.errors import GraphError, UsageError
from optsched.formats import write_graph
from optsched.model.graph import Graph
from optsched.model.memory_model import MemoryModel, parse_alignment
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.model.reductions import Aligned
from optsched.solver.pack import pack
from optsched.solver.pipeline import solve
from optsched.solver.status import Status
from tests.support import brute
from tests.support.commands import Cli
from tests.support.families.small import diamond
from tests.support.generators import FEATURES, random_graph

ROOT = Path(__file__).parents[2]


def rounded_by_hand(graph: Graph, align: int) -> Graph:
    """Each buffer with bytes of its own is as large as the blocks of `align` that hold it."""
    buffers = []
    for buffer in graph.buffers:
        blocks = len(range(0, buffer.size, align))
        if buffer.external or buffer.alias_of is not None:
            buffers.append(buffer)
        else:
            buffers.append(replace(buffer, size=blocks * align, alignment=align))
    return replace(graph, buffers=tuple(buffers))


def test_sizes_and_offsets_are_rounded_but_not_of_views_and_what_is_not_counted() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        ops = int(rng.integers(0, 8))
        graph = random_graph(rng, ops, features=FEATURES - {"pins", "alignment"})
        model = MemoryModel(align=8).apply(graph)
        assert model.buffers == rounded_by_hand(graph, 8).buffers
        assert model.memory_model == "default; sizes and offsets multiples of 8"


def test_a_buffers_own_alignment_is_kept_as_well() -> None:
    graph = diamond()
    wide = replace(graph, buffers=(replace(graph.buffers[0], alignment=12), *graph.buffers[1:]))
    assert MemoryModel(align=8).apply(wide).buffers[0].alignment == 24


@pytest.mark.parametrize("inplace", [False, True])
def test_the_optimum_is_that_of_the_rounded_graph(inplace: bool) -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        features = FEATURES - {"pins", "pools", "alignment", "zeros"}
        graph = random_graph(rng, int(rng.integers(2, 6)), max_size=9, features=features)
        if not inplace:
            graph = replace(graph, inplace_candidates=())
        result = solve(graph, align=4, inplace=inplace)
        wanted = rounded_by_hand(graph, 4)
        assert result.plan is not None
        assert result.slab is not None
        assert result.slab % 4 == 0
        model = MemoryModel(inplace, 4).apply(graph)
        check_plan(model, result.plan, peak=result.peak, slab=result.slab)
        replay_plan(model, result.plan)
        if not inplace:
            assert result.peak_bound == brute.least_peak(wanted)


def test_packings_are_rounded_too() -> None:
    problem = PackingProblem(
        size=[5, 3, 9], start=[0, 0, 2], end=[2, 4, 4], gaps=((Gap(0, 1),), (), ())
    )
    result = pack(problem, align=4)
    assert (result.slab, result.status) == (16, Status.OPTIMAL)
    assert result.offsets is not None
    check_packing(Aligned(4).reduce(problem)[0], result.offsets.tolist(), slab=16)
    assert pack(problem).slab == 12


def test_a_pin_between_the_multiples_is_refused() -> None:
    pinned = PackingProblem(names=("a", "b"), size=[5, 3], start=[0, 0], end=[2, 4], pin=[-1, 6])
    with pytest.raises(GraphError, match="buffer 'b': pin 6 is not a multiple of alignment 4"):
        pack(pinned, align=4)
    graph = diamond()
    buffers = (replace(graph.buffers[0], pin=6), *graph.buffers[1:])
    name = graph.buffers[0].name
    with pytest.raises(GraphError, match=f"buffer '{name}': pin 6 is not a multiple"):
        solve(replace(graph, buffers=buffers), align="4")


@pytest.mark.parametrize("value", [0, 3, 48, "100KiB", 2**63, "many"])
def test_what_is_no_power_of_two_is_refused(value: int | str) -> None:
    with pytest.raises(UsageError):
        parse_alignment(value)
    with pytest.raises(UsageError):
        solve(diamond(), align=value)


def test_sizes_that_leave_the_limit_when_rounded_are_refused() -> None:
    problem = PackingProblem(size=[2**61, 2**61 - 1], start=[0, 0], end=[1, 1])
    with pytest.raises(UsageError, match="add up to 2\\*\\*62"):
        pack(problem, align=4)


def test_commands_take_an_alignment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    graph, plan, rows = (str(tmp_path / name) for name in ("g.json", "p.json", "rows.csv"))
    write_graph(diamond(), graph)
    record = cli.json("solve", graph, "--align", "16", "-o", plan)
    assert (record["slab"], record["memory_model"].endswith("multiples of 16")) == (48, True)
    cli("check", graph, plan, "--align", "16", "--replay")
    assert "plan has the memory model" in cli.error("check", graph, plan, code=1)
    Path(rows).write_text("id,lower,upper,size\na,0,4,8\nb,2,6,4\n")
    assert cli.json("pack", rows, "--align", "8")["slab"] == 16
    text = cli("compare", graph, "--align", "16", "--methods", "lpmf", "--json")
    assert "multiples of 16" in text
    assert json.loads(text)["settings"]["align"] == "16"
    for command in (["solve", graph], ["pack", rows], ["compare", graph]):
        assert "alignment must be a power of two, got 12" in cli.error(*command, "--align", "12")
        assert main([*command, "--align", str(2**63)]) == 2
        said = "alignment must be at most 2**62 bytes, got 9223372036854775808"
        assert said in capsys.readouterr().err


def test_the_frameworks_own_alignment(tmp_path: Path, cli: Cli) -> None:
    lstm = str(ROOT / "instances" / "inductor" / "alexnet_bs128.infer.json.gz")
    assert "multiples of 64" in cli("info", lstm, "--align", "framework", "--json")
    path = tmp_path / "g.json"
    write_graph(diamond(), path)
    assert "framework alignment of" in cli.error("solve", path, "--align", "framework")
