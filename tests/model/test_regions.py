"""Workspace and constants in regions of their own, as in AITemplate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heuristics import PACKINGS
from heuristics.portfolio import pack_apart
from optsched.check.plan import check_plan
from optsched.check.replay import replay_plan
from optsched.cli import main
from optsched.errors import GraphError
from optsched.formats import read_graph, write_graph
from optsched.model.builder import GraphBuilder
from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph
from optsched.model.memory_model import MemoryModel
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import make_plan
from optsched.model.pools import pool_rows
from optsched.model.regions import ConstantsRegion, RegionSizes, Workspace, region_sizes
from optsched.solver.pipeline import solve
from optsched.solver.status import Status
from tests.model import reference_aitemplate as reference
from tests.support import brute
from tests.support.commands import Cli
from tests.support.generators import random_graph

AITEMPLATE = MemoryModel(align=64, workspace_apart=True, constants=ConstantsRegion.BESIDE)


def small() -> Graph:
    """Two convolutions with weights; both need scratch as they run, one keeps some to the end."""
    build = GraphBuilder("small")
    build.input("x", 100, InputPolicy.EXCLUDED)
    build.input("w1", 70, InputPolicy.CONSTANT)
    build.input("w2", 10, InputPolicy.CONSTANT)
    build.input("barrier", 5, InputPolicy.SCRATCH)
    build.op("conv1", reads=["x", "w1"], writes={"a": 100}, workspace=30)
    build.op("shape", reads=["w2"], views={"w2_flat": "w2"})
    build.op("conv2", reads=["a", "w2_flat", "barrier"], writes={"y": 60}, workspace=90)
    build.output("y")
    return build.build()


def test_the_triple_of_a_small_model() -> None:
    graph = AITEMPLATE.apply(small())
    result = solve(graph)
    assert result.status is Status.OPTIMAL
    assert result.plan is not None
    assert region_sizes(graph, result.plan) == RegionSizes(192, 192, Workspace(128, 64))
    assert (result.offsets["w1"], result.offsets["w2"]) == (0, 128)
    assert result.plan.offsets[graph.buffer_ids["w2_flat"]] == 128
    assert [result.offsets[name] for name in ("barrier", "conv1.workspace", "conv2.workspace")] == [
        0,
        64,
        64,
    ]
    replay_plan(graph, result.plan)


def test_without_the_model_constants_are_not_counted_and_scratch_is_kept() -> None:
    result = solve(small())
    # While conv2 runs: a, y, its workspace, and the barrier, which stays throughout.
    assert (result.peak, result.slab) == (255, 255)
    assert result.offsets.get("w1") is None


def test_constants_before_the_slab_are_at_its_start() -> None:
    graph = MemoryModel(constants=ConstantsRegion.BEFORE).apply(small())
    result = solve(graph)
    assert result.status is Status.OPTIMAL
    assert (result.offsets["w1"], result.offsets["w2"], result.slab) == (0, 70, 80 + 255)
    assert result.plan is not None
    assert region_sizes(graph, result.plan) == RegionSizes(335, 0, Workspace(0, 0))


def random_model(seed: int, ops: int) -> Graph:
    """A graph whose inputs are constants, runtime inputs or scratch, with workspace and views."""
    rng = np.random.default_rng([9, seed])
    features = {"inputs", "views", "workspace", "multi", "zeros"}
    graph = random_graph(rng, ops, max_size=300, features=features)
    buffers = []
    for b, buffer in enumerate(graph.buffers):
        if buffer.input is not None:
            users = [op for op in graph.ops if b in (*op.reads, *op.uses)]
            kinds = [InputPolicy.EXCLUDED, InputPolicy.CONSTANT, InputPolicy.SCRATCH]
            alone = len(users) < 2 and b not in [x.alias_of for x in graph.buffers]
            kind = kinds[int(rng.integers(3 if alone else 2))]
            buffers.append(replace(buffer, input=kind, output=None))
        else:
            buffers.append(buffer)
    return replace(graph, buffers=tuple(buffers))


def test_the_planner_equals_aitemplates_on_random_models() -> None:
    seen = [0, 0, 0]
    for seed in range(400):
        graph = random_model(seed, 1 + seed % 12)
        order = list(range(len(graph.ops)))
        model = AITEMPLATE.apply(graph)
        problem, ids = packing_problem(model, order)
        rows = pool_rows(model, ids)
        plan = make_plan(model, order, pack_apart(problem, rows, PACKINGS["greedy_by_size"]))
        check_plan(model, plan)
        found = region_sizes(model, plan)
        blob, constants, (shared, unique) = reference.plan(graph, order)
        assert found == RegionSizes(blob, constants, Workspace(shared, unique)), seed
        seen = [a + bool(b) for a, b in zip(seen, (constants, shared, unique), strict=True)]
    assert min(seen) > 40


def test_the_optimum_is_that_of_the_blob_and_the_regions_are_as_large_as_they_must_be() -> None:
    """Each region alone: the blob over all orders by brute force, the others added up."""
    for seed in range(60):
        graph = random_model(seed, 2 + seed % 4)
        model = MemoryModel(workspace_apart=True, constants=ConstantsRegion.BESIDE).apply(graph)
        result = solve(model)
        assert result.plan is not None
        found = region_sizes(model, result.plan)
        bare = [
            replace(buffer, input=InputPolicy.EXCLUDED) if buffer.input is not None else buffer
            for buffer in graph.buffers
        ]
        for op in graph.ops:
            if op.workspace is not None:
                bare[op.workspace] = replace(bare[op.workspace], size=0)
        least = brute.least_joint(replace(graph, buffers=tuple(bare)))
        assert least is not None
        assert found.blob == least[0]
        assert result.status is Status.OPTIMAL


def test_scratch_of_two_ops_is_refused() -> None:
    build = GraphBuilder("two")
    build.input("s", 5, "scratch")
    build.op("a", reads=["s"], writes={"x": 1})
    build.op("b", reads=["s"], writes={"y": 1})
    with pytest.raises(GraphError, match="scratch 's' is used by ops 'a' and 'b'"):
        AITEMPLATE.apply(build.build())


def test_a_pool_with_a_regions_name_is_refused() -> None:
    graph = small()
    buffers = list(graph.buffers)
    buffers[graph.buffer_ids["a"]] = replace(buffers[graph.buffer_ids["a"]], pool="workspace")
    with pytest.raises(GraphError, match="buffer 'a' lies in a pool 'workspace'"):
        AITEMPLATE.apply(replace(graph, buffers=tuple(buffers)))


def test_the_command_line_tells_the_regions_apart(tmp_path: Path, cli: Cli) -> None:
    path, plan = str(tmp_path / "g.json"), str(tmp_path / "p.json")
    write_graph(small(), path)
    assert read_graph(path) == small()
    model = ["--align", "64", "--workspace-apart", "--constants", "beside"]
    text = cli("solve", path, *model, "-o", plan)
    assert "blob 192, constants 192, workspace 64 of ops alone and 128 shared" in text
    assert cli.json("solve", path, *model)["regions"] == {
        "blob": 192,
        "constants": 192,
        "workspace": {"shared": 128, "unique": 64},
    }
    assert main(["check", path, plan, *model, "--replay"]) == 0
    assert main(["check", path, plan]) == 1
    assert main(["compare", path, *model, "--methods", "greedy_by_size", "--json"]) == 0
