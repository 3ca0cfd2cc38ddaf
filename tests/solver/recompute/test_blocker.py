"""The op that makes a peak impossible: its bytes, and those beside it, each counted once."""

from __future__ import annotations

import re

import numpy as np
import pytest

from optsched import GraphBuilder, recompute
from optsched.check.runs import check_runs
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.blocker import name_blocker
from optsched.solver.recompute.solve import Planner
from tests.support.brute_recompute import training_graph


def step(kept: int = 0) -> Graph:
    """Return a step whose last op uses 128 bytes beside the loss, and an input that is kept."""
    build = GraphBuilder("step", cost_unit="us")
    build.input("x", kept, "kept")
    build.input("tangents_1", 0, "excluded")
    last = "x"
    for name, size in (("a", 60), ("b", 60), ("c", 4), ("d", 60)):
        build.op(name.upper(), reads=[last], writes={name: size}, cost=1)
        last = name
    build.op("loss", reads=["d"], writes={"l": 4}, cost=5)
    build.output("l")
    build.op("bd", reads=["d", "c", "tangents_1"], writes={"gc": 4}, cost=1)
    build.op("bb", reads=["gc", "a", "b"], writes={"ga": 4}, cost=1)
    build.output("ga")
    return build.build()


@pytest.mark.parametrize(
    ("kept", "peak", "reason"),
    [
        # The 4 bytes of `bd` are read by `bb`, and so are among its 128.
        (0, 131, "op 'bb' reads and writes 128 bytes, and 4 more are held beside it in every "
         "schedule: 'l' (4 bytes), 132 in all"),
        # `bb` does not read the input, which is not among its bytes.
        (9, 140, "op 'bb' reads and writes 128 bytes, and 13 more are held beside it in every "
         "schedule: 'x' (9 bytes), 'l' (4 bytes), 141 in all"),
        (9, 127, "op 'bb' alone reads and writes 128 bytes"),
    ],
)  # fmt: skip
def test_each_byte_counts_once(kept: int, peak: int, reason: str) -> None:
    result = recompute(step(kept), peak, cost="given", time_limit=10)
    assert (result.status, result.blocker) == ("infeasible", reason)


def test_what_is_held_is_held_in_every_schedule() -> None:
    """The bytes that a reason names are at most those of the op's first run in any plan."""
    compared = 0
    for seed in range(120):
        graph = training_graph(np.random.default_rng(seed))
        planner = Planner(graph)
        base = planner.find_base(Clock.of(Limits(work=10_000)))
        plans = [base, planner.unroller.measure(base.nodes)]
        result = planner.plan(base.peak * 4 // 5, Clock.of(Limits(work=20_000)))
        text = name_blocker(planner.problem, base, range(len(planner.problem.ops)), 0)
        assert "alone reads and writes" in text
        text = name_blocker(planner.problem, base, range(len(planner.problem.ops)), base.peak)
        name, own, more = _figures(text)
        sequences = [planner.problem.sequence(plan.nodes) for plan in plans]
        sequences += [] if result.sequence is None else [result.sequence]
        for sequence in sequences:
            compared += 1
            assert own + more <= check_runs(planner.problem.graph, sequence).peak, (seed, text)
        assert own == _used(graph, graph.op_ids[name]), (seed, text)
    assert compared >= 240


def _figures(text: str) -> tuple[str, int, int]:
    found = re.match(r"op '(.+?)' .*?reads and writes (\d+) bytes(?:, and (\d+) more)?", text)
    assert found is not None, text
    return found[1], int(found[2]), int(found[3] or 0)


def _used(graph: Graph, v: int) -> int:
    op = graph.ops[v]
    used = {graph.roots[b] for b in (*op.reads, *op.uses, *op.writes)}
    return sum(graph.buffers[b].size for b in used if not graph.buffers[b].external)
