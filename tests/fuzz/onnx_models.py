"""ONNX models in ONNX Runtime: the planned bytes are held, or a second measurement says why not.

Each model runs in its own order and in that of a plan. Where the session holds other bytes than the
plan says, rounded up as its allocator does, it is asked which ops it ran, and what scratch each of
them took (:mod:`optsched.measure.ort_ran`). If these come to the held bytes exactly, the difference
is explained: by ops that the session runs instead of the model's, by scratch, or by another order.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optsched import apply_plan, peak_memory, read_graph, solve
from optsched.errors import FormatError
from optsched.formats import read_recorded
from optsched.formats.onnx.rules import BLOCK
from optsched.measure.ort_child import make_inputs, run_session
from optsched.measure.ort_ran import IN_ORDER, Ran, what_ran
from optsched.model.graph import Graph
from optsched.model.memory_model import MemoryModel
from optsched.runtime.heap import Heap, restart_with_counter

BASIC = {"graph_optimization_level": "ORT_ENABLE_BASIC"}
OWN_ORDER = {**BASIC, "enable_mem_reuse": False}
EXACT, UNEXPLAINED = "to the byte", "UNEXPLAINED"


@dataclass(frozen=True)
class Found:
    """One run: what explains its bytes, and the ops that do."""

    cause: str
    planned: int
    held: int
    ops: tuple[str, ...] = ()
    predicted: int | None = None


class Runner:
    """Runs sessions of a model in this process, with its own inputs."""

    def __init__(self, heap: Heap, feed: Mapping[str, Any]) -> None:
        self.heap, self.feed = heap, feed

    def __call__(self, runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Run sessions; inputs that are described come beside the model's own."""
        return [
            run_session(self.heap, run, {**self.feed, **make_inputs(run["inputs"])}) for run in runs
        ]


def compare(path: Path, feed: Mapping[str, Any], heap: Heap, folder: Path) -> list[Found] | str:
    """Return what is found in both orders, or the reason why the model is not compared."""
    run = Runner(heap, feed)
    own = {"path": str(path), "inputs": [], "settings": OWN_ORDER}
    (first,) = run([own])
    if "error" in first:
        return f"refused by ONNX Runtime: {first['error'][:150]}"
    try:
        graph = read_graph(path)
    except FormatError as error:
        return f"refused by the reader: {error}"
    result = solve(graph, objective="peak", time_limit=2)
    ours = folder / "ours.onnx"
    apply_plan(path, result, ours)
    asked = {"path": str(ours), "inputs": [], "settings": {**IN_ORDER, **BASIC}}
    (second,) = run([asked])
    if "error" in second:
        return f"refused by ONNX Runtime with a plan: {second['error'][:150]}"
    assert result.plan is not None
    found = [_explained(run, graph, read_recorded(path)["ort"], own, first, folder)]
    found.append(_explained(run, graph, result.plan.order, asked, second, folder))
    same = first["outputs"] == second["outputs"]
    return found if same else [*found, Found("outputs", 0, 0)]


def _explained(
    run: Runner,
    graph: Graph,
    order: Sequence[int],
    asked: Mapping[str, Any],
    ran: Mapping[str, Any],
    folder: Path,
) -> Found:
    planned, held = peak_memory(MemoryModel(align=BLOCK).apply(graph), tuple(order)), ran["held"]
    if planned == held:
        return Found(EXACT, planned, held)
    try:
        measured = what_ran(run, asked, str(folder))
    except FormatError as error:
        return Found(UNEXPLAINED, planned, held, (str(error),))
    if measured.held != held:
        return Found(UNEXPLAINED, planned, held, _scratchy(measured), measured.held)
    changed = Counter(op.kind for op in measured.graph.ops)
    changed.subtract(Counter(op.kind for op in graph.ops))
    ops = tuple(f"{kind} {count:+}" for kind, count in sorted(changed.items()) if count)
    if ops:
        return Found("other ops ran", planned, held, ops, measured.held)
    kinds = _scratchy(measured)
    return Found("scratch" if kinds else "another order", planned, held, kinds, measured.held)


def _scratchy(ran: Ran) -> tuple[str, ...]:
    """Return the kinds of ops whose scratch is not that of the reader's rules."""
    rows = zip(ran.graph.ops, ran.scratch, ran.known, strict=True)
    return tuple(sorted({op.kind for op, value, known in rows if value != known}))


def main(count: int = 500, seed: int = 0, *, cases: bool = False, only: str = "") -> int:
    """Compare random models; with `cases` the node tests of the onnx package."""
    from tests.support.onnx_random import node_cases, random_model

    restart_with_counter()
    heap, totals, started = Heap(), Counter[str](), time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if cases:
            drawn = (case for case in node_cases() if only in case[0])
        else:
            drawn = (random_model(seed * 1_000_000 + number) for number in range(10**6))
        for label, made, feed in drawn:
            if not cases and totals["models"] == count:
                break
            path = folder / "model.onnx"
            path.write_bytes(made.SerializeToString())
            found = compare(path, feed, heap, folder)
            if isinstance(found, str):
                totals[found.partition(":")[0]] += 1
                print(f"{label}: {found}", flush=True)
                continue
            totals["models"] += 1
            for each, which in zip(found, ("own", "planned", ""), strict=False):
                totals[each.cause] += 1
                if each.cause != EXACT:
                    predicted = f" predicted {each.predicted}" if each.predicted else ""
                    print(
                        f"{label} {which}: {each.cause}: planned {each.planned} held {each.held}"
                        f"{predicted} {' '.join(each.ops)}",
                        flush=True,
                    )
    seconds = time.perf_counter() - started
    print("; ".join(f"{what} {number}" for what, number in totals.items()), f"({seconds:.0f} s)")
    return int(totals[UNEXPLAINED] > 0 or totals["outputs"] > 0)
