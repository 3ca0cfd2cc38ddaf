"""Cases of the study: every engine, option and function that takes a time limit.

A case takes a graph or live ranges of some size, and the limit in seconds; it returns a few words
on the result. Other inputs of a case are made before the clock starts.
"""

from __future__ import annotations

import io
import random
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import optsched
from experiments.limits.plugins import by_executorch, by_inductor, by_xla
from heuristics.orderings.program import program
from optsched.cli import main
from optsched.formats import write_packing
from optsched.model.graph import Graph
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.model.pools import Pool
from optsched.model.reserved import Region
from optsched.solver.pack import pack
from optsched.solver.packing_result import PackingResult
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from tests.support.families.traces import training_trace

Case = Callable[[float], str]
"""Takes the limit in seconds; returns a few words on the result."""
STREAMS = 4
"""Streams, or pools, that ops and buffers are dealt out to."""
FEW = 10
"""Ops of a baseline that may be moved."""


def said(found: Result | PackingResult) -> str:
    """Return bytes, bound and why it ended."""
    return f"{found.slab} {found.slab_bound} {found.stop_reason}"


def asked(graph: Graph, **options: Any) -> Case:
    """Solve a graph under some options."""
    return lambda limit: said(solve(graph, time_limit=limit, **options))


def inplace(graph: Graph) -> Graph:
    """Let every op write its first output into the first buffer that it reads."""
    found = []
    for v, op in enumerate(graph.ops):
        if op.reads and op.writes and graph.buffers[op.reads[0]].output is None:
            found.append((v, op.writes[0], op.reads[0]))
    return replace(graph, inplace_candidates=tuple(found))


def pooled(graph: Graph, count: int = STREAMS) -> Graph:
    """Deal the buffers out to pools."""
    buffers = (replace(x, pool=f"pool{b % count}") for b, x in enumerate(graph.buffers))
    return replace(graph, buffers=tuple(buffers))


def spilled(graph: Graph) -> Case:
    """Half of the bytes have room in the first pool."""
    # The program's order, so that the pool is too small for it but not hopeless.
    peak = optsched.peak_memory(graph, program(graph))
    pools = [Pool("fast", peak // 2), Pool("slow")]
    return lambda limit: said(solve(graph, pools=pools, time_limit=limit))


def ruled(graph: Graph) -> Case:
    """Every tenth op of the program's order keeps its turn; the last op that may be stays so."""
    names = [graph.ops[v].name for v in program(graph).tolist()]
    rules = optsched.OrderRules(last=tuple(names[-1:]), groups=(tuple(names[::10]),))
    return asked(graph, order_rules=rules)


def streamed(graph: Graph, count: int = STREAMS) -> Graph:
    """Deal the ops out to streams."""
    return optsched.with_streams(graph, [f"s{v % count}" for v in range(len(graph.ops))])


def serial(graph: Graph) -> Graph:
    """Deal the ops out to streams; each runs its ops in the program's order."""
    orders: dict[str, list[int]] = {}
    for v in program(graph).tolist():
        orders.setdefault(f"s{v % STREAMS}", []).append(v)
    return optsched.in_streams(streamed(graph).without_streams(), orders)


def apart(graph: Graph) -> Graph:
    """Keep each buffer apart from one of the next ones."""
    # A fixed seed: all runs of the study ask the same questions.
    rng = np.random.default_rng(0)
    roots = [b for b, x in enumerate(graph.buffers) if x.alias_of is None and not x.external]
    pairs = {(b, roots[min(len(roots) - 1, i + int(rng.integers(1, 99)))])
             for i, b in enumerate(roots[:-1])}  # fmt: skip
    return replace(graph, keep_apart=tuple(sorted(pairs)))


def shared(graph: Graph) -> Graph:
    """Let what an op reads first share its offset with what a later op makes of what it made."""
    groups: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for v, op in enumerate(graph.ops):
        for u in op.writes[:1]:
            for w in graph.arrays.user.row(u)[:1].tolist():
                pair = (op.reads[0], graph.ops[w].writes[0]) if op.reads and w != v else ()
                # A member of a group must end before the next one begins, in every order.
                alone = pair and set(graph.arrays.user.row(pair[0]).tolist()) <= {v}
                plain = all(graph.buffers[b].output is None for b in pair)
                if alone and plain and graph.ops[w].writes and not taken & set(pair):
                    groups.append(pair)
                    taken |= set(pair)
    return replace(graph, must_share=tuple(groups))


def pinned(graph: Graph) -> Graph:
    """Pin one buffer in fifty far from the others."""
    total = sum(x.size for x in graph.buffers)
    at, buffers = total, []
    for b, x in enumerate(graph.buffers):
        buffers.append(replace(x, pin=at) if b % 50 == 0 and x.alias_of is None else x)
        # Pins far above all bytes: they can be met, and the slab must reach them.
        at += x.size * (b % 50 == 0)
    return replace(graph, buffers=tuple(buffers))


def resumed(graph: Graph) -> Case:
    """Resume an earlier search."""
    # The earlier search is part of the input, not of the measured time.
    before = solve(graph, time_limit=1)
    return asked(graph, progress=before.resume, warm_start=before.plan)


def in_module(graph: Graph) -> Case:
    """Plan a module whose entry calls the graph from every hundredth of its own ops."""
    callee = replace(graph, name="callee")
    calls = tuple(optsched.Call("main", op.name, ("callee",)) for op in graph.ops[1:-1:100])
    module = optsched.Module("module", {"main": graph, "callee": callee}, "main", calls)
    return lambda limit: said(optsched.solve_module(module, time_limit=limit).entry)


def explained(graph: Graph) -> Case:
    return lambda limit: str(optsched.explain(graph, time_limit=limit)).splitlines()[0]


def certified(graph: Graph) -> Case:
    return lambda limit: str(optsched.certify(graph, time_limit=limit).rung)


def compared(graph: Graph) -> Case:
    return lambda limit: f"{len(optsched.compare_methods(graph, time_limit=limit).rows)} rows"


def tuned(graph: Graph) -> Case:
    def run(limit: float) -> str:
        with tempfile.TemporaryDirectory() as folder:
            fleet = optsched.tune([graph], f"{folder}/plans.store", budget=limit, jobs=0)
        return str(fleet.graphs[0].state)

    return run


def hunted(graph: Graph) -> Case:
    return lambda limit: repr(optsched.hunt("lpmf", source=graph, time_limit=limit))


def reported(graph: Graph) -> Case:
    def run(limit: float) -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan.json"
            optsched.report(graph, path, time_limit=limit)
            return f"{path.stat().st_size} bytes"

    return run


def checked(graph: Graph) -> Case:
    """Check a plan, which has no limit: it is to take no longer than one of a solve."""
    # Made before the clock starts: only the check is measured.
    plan = solve(graph, time_limit=1, engine="heuristics").plan
    assert plan is not None
    return lambda limit: str(optsched.check_plan(graph, plan).slab)


def read(graph: Graph) -> Case:
    """Read a graph from a file, and check its plan file, as the commands do."""
    folder = tempfile.TemporaryDirectory()
    plan = solve(graph, time_limit=1, engine="heuristics").plan
    assert plan is not None
    path, planned = Path(folder.name) / "graph.json", Path(folder.name) / "plan.json"
    optsched.write_graph(graph, path)
    optsched.write_plan(plan, planned, graph)

    def run(limit: float) -> str:
        with folder, redirect_stdout(io.StringIO()) as said:
            main(["check", str(path), str(planned)])
        return said.getvalue().splitlines()[0]

    return run


SOLVES: dict[str, Callable[[Graph], Case]] = {
    "slab": asked,
    "peak": lambda graph: asked(graph, objective="peak"),
    "capacity": lambda graph: asked(graph, capacity=_room(graph)),
    "heuristics": lambda graph: asked(graph, engine="heuristics"),
    "cpsat": lambda graph: asked(graph, engine="cpsat"),
    "inplace": lambda graph: asked(inplace(graph), inplace=True),
    "align": lambda graph: asked(graph, align=64),
    "workers": lambda graph: asked(graph, workers=2),
    "rules": ruled,
    "max_moved": lambda graph: asked(graph, max_moved=FEW),
    "fewest_moves": lambda graph: asked(graph, fewest_moves=True),
    "fewest_moves peak": lambda graph: asked(graph, fewest_moves=True, objective="peak"),
    "resumed": resumed,
    "streams": lambda graph: asked(streamed(graph)),
    "streams peak": lambda graph: asked(streamed(graph), objective="peak"),
    "serial streams": lambda graph: asked(serial(graph)),
    "levels": lambda graph: asked(optsched.in_levels(graph, most=STREAMS)),
    "pools": lambda graph: asked(pooled(graph)),
    "pools peak": lambda graph: asked(pooled(graph), objective="peak"),
    "spill": spilled,
    "apart": lambda graph: asked(apart(graph)),
    "groups": lambda graph: asked(shared(graph)),
    "pins": lambda graph: asked(pinned(graph)),
    "module": in_module,
    "explain": explained,
    "certify": certified,
    "compare": compared,
    "tune": tuned,
    "hunt": hunted,
    "report": reported,
    "check": checked,
    "check apart": lambda graph: checked(apart(graph)),
    "check groups": lambda graph: checked(shared(graph)),
    "check inplace": lambda graph: checked(inplace(graph).with_inplace()),
    "check file": read,
    "inductor plugin": by_inductor,
}
"""Questions about a graph."""
if find_spec("jaxlib") is not None:
    SOLVES["xla plugin"] = by_xla
if find_spec("executorch") is not None:
    SOLVES["executorch plugin"] = by_executorch


def _room(graph: Graph) -> int:
    # A tenth below the program's own peak: a question that needs a search.
    return optsched.peak_memory(graph, program(graph)) * 9 // 10


def packed(problem: PackingProblem, **options: Any) -> Case:
    """Pack live ranges under some options."""
    return lambda limit: said(pack(problem, time_limit=limit, **options))


def in_pools(problem: PackingProblem) -> Case:
    """Some have room in a pool of a third of the load."""
    rng = random.Random(0)
    names = [rng.choice(["fast", "slow", ""]) for _ in range(len(problem))]
    # A group lies in one pool.
    for group in problem.must_share:
        for i in group:
            names[i] = names[group[0]]
    pools = [Pool("fast", problem.max_load // 3), Pool("slow", problem.max_load // 2), Pool("far")]
    return lambda limit: said(pack(problem, pools=pools, own_pools=names, time_limit=limit))


def with_gaps(problem: PackingProblem) -> PackingProblem:
    """Free the upper half of each longer buffer in the middle of its live range."""
    # Half of the bytes, so that the other half stays occupied in the gap.
    gaps = tuple(
        (Gap(a + 1, b - 1, (0, size // 2)),) if b - a > 3 and size > 1 else ()
        for a, b, size in zip(
            problem.start.tolist(), problem.end.tolist(), problem.size.tolist(), strict=True
        )
    )
    return replace(problem, gaps=gaps)


def with_pairs(problem: PackingProblem) -> PackingProblem:
    """Keep each buffer apart from another one."""
    rng = np.random.default_rng(0)
    other = rng.permutation(len(problem))
    pairs = np.sort(np.stack([np.arange(len(problem)), other], axis=1), axis=1)
    # Each pair once, and no buffer with itself.
    pairs = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
    return replace(problem, keep_apart=pairs)


def with_groups(problem: PackingProblem) -> PackingProblem:
    """Let each buffer share the offset of the first free one that begins when it has ended."""
    order = np.argsort(problem.start, kind="stable").tolist()
    taken: set[int] = set()
    groups, at = [], 0
    for i in np.argsort(problem.end, kind="stable").tolist():
        # The next buffer that begins after this one has ended.
        while at < len(order) and problem.start[order[at]] < problem.end[i]:
            at += 1
        if at < len(order) and i not in taken and order[at] not in taken and order[at] != i:
            groups.append((i, order[at]))
            taken |= {i, order[at]}
    return replace(problem, must_share=tuple(groups))


def with_pins(problem: PackingProblem) -> PackingProblem:
    """Pin one buffer in fifty above all others."""
    pin = np.full(len(problem), -1, np.int64)
    at = int(problem.size.sum())
    for i in range(0, len(problem), 50):
        at += -at % int(problem.alignment[i])
        pin[i], at = at, at + int(problem.size[i])
    return replace(problem, pin=pin)


def checked_packing(problem: PackingProblem) -> Case:
    """Check offsets, which has no limit."""
    offsets = pack(problem, time_limit=1).offsets
    assert offsets is not None
    return lambda limit: str(optsched.check_packing(problem, offsets))


def read_packing(problem: PackingProblem) -> Case:
    """Read live ranges from a file."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "packing.json"
    write_packing(problem, path)

    def run(limit: float) -> str:
        with folder:
            return str(optsched.read_packing(path))

    return run


PACKS: dict[str, Callable[[PackingProblem], Case]] = {
    "pack": packed,
    "pack capacity": lambda problem: packed(problem, capacity=problem.slab_bound),
    "pack reserved": lambda problem: packed(problem, reserved=[Region(0, 1000)]),
    "pack workers": lambda problem: packed(problem, workers=2),
    "pack gaps": lambda problem: packed(with_gaps(problem)),
    "pack pairs": lambda problem: packed(with_pairs(problem)),
    "pack groups": lambda problem: packed(with_groups(problem)),
    "pack pins": lambda problem: packed(with_pins(problem)),
    "pack pools": in_pools,
    "pack pools gaps": lambda problem: in_pools(with_gaps(problem)),
    "pack pools pairs": lambda problem: in_pools(with_pairs(problem)),
    "pack pools groups": lambda problem: in_pools(with_groups(problem)),
    "pack check": checked_packing,
    "pack check pairs": lambda problem: checked_packing(with_pairs(problem)),
    "pack check groups": lambda problem: checked_packing(with_groups(problem)),
    "pack read": read_packing,
}
"""Questions about live ranges."""


def at_random(buffers: int) -> PackingProblem:
    """Buffers of any size whose live ranges are anywhere."""
    # Seeds differ between makers, not between runs.
    rng = np.random.default_rng(0)
    start = rng.integers(0, buffers, buffers)
    length = np.minimum(rng.geometric(0.02, buffers), buffers)
    return PackingProblem(size=rng.integers(1, 1000, buffers), start=start, end=start + length)


def at_once(buffers: int) -> PackingProblem:
    """Return buffers with many live at once."""
    rng = np.random.default_rng(1)
    start = rng.integers(0, buffers, buffers)
    end = start + rng.integers(1, buffers, buffers)
    return PackingProblem(size=rng.integers(1, 1000, buffers), start=start, end=end)


RANGES: dict[str, Callable[[int], PackingProblem]] = {
    "trace": training_trace,
    "scattered": lambda buffers: training_trace(buffers, repeated=False),
    "anywhere": at_random,
    "at once": at_once,
}
"""Makers of live ranges for a number of buffers."""
