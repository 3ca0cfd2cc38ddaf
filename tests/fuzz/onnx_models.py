"""ONNX models in ONNX Runtime: the planned bytes are held, or a second measurement says why not.

Each model runs in its own order and in that of a plan. Where the session holds other bytes than the
plan says, rounded up as its allocator does, it is asked which ops it ran, and what scratch each of
them took (:mod:`optsched.measure.ort_ran`). If these come to the held bytes exactly, the difference
is explained: by ops that the session runs instead of the model's, by scratch, or by another order.
Half of the models have open dimensions, whose sizes are given by name, or follow from a profile.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import count as count_from
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from optsched import apply_plan, peak_memory, read_graph, solve
from optsched.errors import FormatError
from optsched.formats.onnx.order import reorder_onnx
from optsched.formats.onnx.rules import BLOCK
from optsched.formats.onnx.session import IN_ORDER
from optsched.formats.onnx.session_child import make_inputs, run_session
from optsched.formats.opening import open_source
from optsched.measure.onnxruntime import own_order
from optsched.measure.ort_ran import Ran, what_ran
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


def compare(
    path: Path,
    feed: Mapping[str, Any],
    heap: Heap,
    folder: Path,
    dims: Mapping[str, int] | None = None,
    *,
    profiled: bool = False,
) -> list[Found] | str:
    """Return what is found in both orders, or the reason why the model is not compared.

    Open dimensions have the sizes `dims`, or those of a profile.
    """
    run = Runner(heap, feed)
    own = {"path": str(path), "inputs": [], "settings": OWN_ORDER}
    (first,) = run([own])
    if "error" in first:
        return f"refused by ONNX Runtime: {first['error'][:150]}"
    known: dict[str, Any] = {"dims": dict(dims or {})}
    if profiled:
        prefix = {"enable_profiling": True, "profile_file_prefix": str(folder / "own")}
        settings = {**OWN_ORDER, "graph_optimization_level": "ORT_DISABLE_ALL", **prefix}
        known = {"profile": run([{**own, "settings": settings}])[0]["profile"]}
    try:
        graph = read_graph(path, **known)
    except FormatError as error:
        return f"refused by the reader: {error}"
    if dims:
        # Plans are for the file with these sizes.
        fixed = folder / "fixed.onnx"
        fixed.write_bytes(reorder_onnx(open_source(path), [op.name for op in graph.ops], dims))
        own = {**own, "path": str(fixed)}
        (first,) = run([own])
    result = solve(graph, objective="peak", time_limit=2)
    ours = folder / "ours.onnx"
    apply_plan(path, result, ours, **known)
    asked = {"path": str(ours), "inputs": [], "settings": {**IN_ORDER, **BASIC}}
    (second,) = run([asked])
    if "error" in second:
        return f"refused by ONNX Runtime with a plan: {second['error'][:150]}"
    assert result.plan is not None
    order = own_order(path, graph, known.get("profile"))
    found = [_explained(run, graph, order, own, first, folder)]
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


Case = tuple[bytes, dict[str, Any], dict[str, int], bool]
"""A model, its inputs, sizes of open dimensions, True for a profile."""


class Worker:
    """A process that compares models, as ONNX Runtime may end it with an assertion of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        self.pool = ProcessPoolExecutor(1, get_context("fork"))

    def __call__(self, case: Case) -> list[Found] | str:
        try:
            return self.pool.submit(compare_case, case, self.folder).result()
        except BrokenProcessPool:
            self.pool.shutdown()
            self.start()
            return "ONNX Runtime aborts"


def compare_case(case: Case, folder: Path) -> list[Found] | str:
    made, feed, dims, profiled = case
    path = folder / "model.onnx"
    path.write_bytes(made)
    return compare(path, feed, Heap(), folder, dims, profiled=profiled)


def drawn_cases(seed: int) -> Iterator[tuple[str, Case]]:
    """Yield random models with names: of four, one has sizes that are given, and one a profile."""
    from tests.support.onnx_open import with_open_dimensions
    from tests.support.onnx_random import random_model

    for number in count_from(0):
        label, made, feed = random_model(seed * 1_000_000 + number)
        kind, dims = ("", "dims", "", "profile")[number % 4], dict[str, int]()
        if kind:
            (label, made, feed), dims = with_open_dimensions((label, made, feed), number)
        sizes = dims if kind == "dims" else {}
        yield f"{label} {kind}".strip(), (made.SerializeToString(), feed, sizes, kind == "profile")


def main(count: int = 500, seed: int = 0, *, cases: bool = False, only: str = "") -> int:
    """Compare random models; with `cases` the node tests of the onnx package."""
    from tests.support.onnx_nodes import node_cases

    restart_with_counter()
    totals, started = Counter[str](), time.perf_counter()
    tests = (x for x in node_cases() if only in x[0]) if cases else ()
    given = ((name, (made.SerializeToString(), feed, {}, False)) for name, made, feed in tests)
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(Path(folder))
        for label, case in given if cases else drawn_cases(seed):
            if not cases and totals["models"] == count:
                break
            found = worker(case)
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
        worker.pool.shutdown()
    seconds = time.perf_counter() - started
    print("; ".join(f"{what} {number}" for what, number in totals.items()), f"({seconds:.0f} s)")
    return int(totals[UNEXPLAINED] > 0 or totals["outputs"] > 0)
