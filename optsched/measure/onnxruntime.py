"""Bytes that ONNX Runtime holds for a model, before and after a plan.

Each run is a session on one thread, in a process of its own whose allocator is counted. The session
before has the default settings, the one after those that `optsched apply` names; only the arena is
off in both, since it takes powers of two.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from optsched.errors import FormatError, MissingDependencyError, OptschedError, PlanError
from optsched.formats import read_recorded
from optsched.formats.apply import apply_plan
from optsched.formats.companions import copy_companions, require_companions
from optsched.formats.format import Content, Source
from optsched.formats.onnx.model import external_files, operation_nodes, parse_model
from optsched.formats.onnx.order import reorder_onnx
from optsched.formats.onnx.rules import BLOCK
from optsched.formats.onnx.session import (
    ALL,
    BASIC,
    CHILD,
    IN_ORDER,
    OFF,
    default_runs,
    describe_inputs,
    request,
)
from optsched.formats.onnx.session_child import with_zeros
from optsched.formats.opening import extra_named, open_source, opened
from optsched.formats.source import label_of, write_bytes
from optsched.measure.ort_names import show_hidden
from optsched.measure.ort_ran import what_ran
from optsched.measure.request import Request
from optsched.measure.result import Held, Measurement
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.memory_model import MemoryModel
from optsched.runtime.heap import counted_environment

_BASIC: Final = {"graph_optimization_level": BASIC}
_PLANNED: Final = {**IN_ORDER, **_BASIC}
"""Settings with which the planned ops run, without fusions."""
_ALL: Final = {"graph_optimization_level": ALL}
_EXTENDED: Final = {"graph_optimization_level": "ORT_ENABLE_EXTENDED"}
ROUNDING = "blocks rounded up"
FUSED = "ops that ONNX Runtime runs instead"
MOVED = "another order"
OPEN = "not in place for dimensions that the file leaves open"
SCRATCH = "kernel scratch, measured,"
ZEROS = "integer inputs are 0, as ONNX Runtime does not run the model with 1"
_AT_BASIC: Final = 4
"""Number of the run of a plan without fusions."""
REUSE = "freed buffers kept for reuse"


def measure(asked: Request) -> Measurement:
    """Run a model in ONNX Runtime; see :func:`optsched.measure.measure_model`."""
    _require()
    path, graph, plan = asked.path, asked.graph, asked.plan
    source = open_source(path)
    require_companions(source.folder, external_files(source))
    with tempfile.TemporaryDirectory() as folder:
        inputs = describe_inputs(path, dict(graph.dims))
        optimized = str(Path(folder, "optimized.onnx"))
        copy = _write(source, source.data, folder, "given.onnx")
        runs = [
            request(copy, inputs),
            # Without reuse of freed buffers, blocks correspond to buffers.
            request(copy, inputs, enable_mem_reuse=False),
            request(copy, inputs, **_EXTENDED, optimized_model_filepath=optimized),
        ]
        if plan is not None:
            planned = str(Path(folder, "planned.onnx"))
            apply_plan(path, plan, planned, **asked.options)
            fixed = _write_fixed(source, graph, folder)
            runs.append(request(fixed, inputs, **_BASIC))
            runs.append(request(planned, inputs, **_PLANNED))
            runs.append(request(planned, inputs, **{**_PLANNED, **_ALL}))
            plain = {**IN_ORDER, "graph_optimization_level": OFF}
            runs += [request(fixed, inputs, **plain), request(planned, inputs, **plain)]
        found = run_all([*runs, *default_runs(copy, inputs)], folder)
        shown = [run["held"] for run in (found[0], *found[len(runs) :]) if "held" in run]
        found = found[: len(runs)]
        _refuse_failure(path, found)
        notes: tuple[str, ...] = ()
        if found[0]["zeros"]:
            notes = (ZEROS,)
            runs = [{**run, "inputs": with_zeros(run["inputs"])} for run in runs]
        is_written = "error" not in found[2]
        left = _count_ops(optimized) if is_written else len(graph.ops)
        weights = _weight_bytes(optimized if is_written else path)
        own = own_order(path, graph, asked.profile)
        before = _with_reuse(_held(graph, own, runs[1], found[1], folder), min(shown))
        notes += _notes(len(graph.ops), left)
        runtime = f"ONNX Runtime {version('onnxruntime')}"
        if plan is None:
            return Measurement(graph.name, runtime, before, weights=weights, notes=notes)
        first, second = _planned_runs(graph, plan.order, found)
        after = _held(graph, plan.order, runs[second], found[second], folder)
    same = found[first]["outputs"] == found[second]["outputs"]
    if second != _AT_BASIC:
        basic = f"{found[_AT_BASIC]['held']:,} bytes at the basic level"
        notes = (f"after is without optimizations: the plan holds {basic}", *notes)
    fused = found[5].get("held") if left < len(graph.ops) else None
    return Measurement(graph.name, runtime, before, after, same, weights, fused, notes)


def own_order(path: str | Path, graph: Graph, profile: str | None) -> tuple[int, ...]:
    """Return the order in which ONNX Runtime runs a model: that of the profile, or its default."""
    dims = dict(graph.dims)
    if profile is not None:
        # ONNX Runtime replaces some ops before any optimization: no event has their names, or
        # an op runs before the one that it reads in the file.
        with suppress(FormatError, PlanError):
            order = read_recorded(path, profile=profile, dims=dims)["ort"]
            peak_memory(graph, order)
            return order
    return read_recorded(path, dims=dims)["ort"]


def _write(source: Source, data: bytes, folder: str, name: str) -> str:
    path = Path(folder, name)
    copy_companions(source.folder, external_files(source), path)
    path.write_bytes(data)
    return str(path)


def _write_fixed(source: Source, graph: Graph, folder: str) -> str:
    """Write a model in its own order with the dimensions of the graph; return its path.

    ONNX Runtime folds and fuses more where it knows all sizes, which rounds otherwise. The outputs
    of the plan are therefore compared with those of the file's order at the same dimensions.
    """
    names = [op.name for op in graph.ops]
    data = reorder_onnx(source, names, dict(graph.dims), name=graph.name)
    return _write(source, data, folder, "fixed.onnx")


def write_fused(path: str, output: str) -> int:
    """Write a model with the fusions of ONNX Runtime, to be planned; return its number of ops.

    Changes of layout, which depend on the processor (level ORT_ENABLE_ALL), are left out.

    Raise `FormatError` if the file is not an ONNX model, or ONNX Runtime does not load it.
    """
    with opened(path, Content.GRAPH) as (row, source), extra_named(row):
        if row.name != "onnx":
            raise FormatError(f"expected an ONNX model, got {row.holds} ({row.name})")
        require_companions(source.folder, external_files(source))
        _require()
        from optsched.formats.onnx.session_child import open_session

        with tempfile.TemporaryDirectory() as folder:
            made = str(Path(folder, "fused.onnx"))
            try:
                open_session(path, {**_EXTENDED, "optimized_model_filepath": made})
            except Exception as error:
                message = str(error).strip().splitlines()[0][:300]
                raise FormatError(f"ONNX Runtime does not load it: {message}") from None
            write_bytes(output, _with_own_names(Path(made).read_bytes()))
            return _count_ops(made)


def _with_own_names(data: bytes) -> bytes:
    import onnx

    model = onnx.load_model_from_string(data)
    show_hidden(model.graph)
    return bytes(model.SerializeToString())


def _require() -> None:
    if find_spec("onnxruntime") is None:
        raise MissingDependencyError("onnxruntime", "runtimes")


# In one process for all runs: starting it takes longer than running a small model.
def run_all(runs: Sequence[Mapping[str, Any]], folder: str) -> list[dict[str, Any]]:
    """Run sessions in a process whose blocks are counted; one that ends badly is an error."""
    file = Path(folder, "runs.json")
    file.write_text(json.dumps(runs), "utf-8")
    with counted_environment() as environment:
        command = [sys.executable, "-m", CHILD, str(file)]
        ran = subprocess.run(command, env=environment, capture_output=True, check=False)
    if ran.returncode:
        lines = ran.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise FormatError(f"ONNX Runtime ended with exit code {ran.returncode}: {lines[-1][:300]}")
    found: list[dict[str, Any]] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _refuse_failure(path: str, found: Sequence[Mapping[str, Any]]) -> None:
    # The runs left out here only refine the answer, so one of them may fail.
    for number, run in enumerate(found):
        if "error" in run and number not in (2, 5, 6, 7):
            which = "the model with its plan" if number == 4 else "it"
            message = f"ONNX Runtime does not run {which}: {run['error']}"
            raise FormatError(f"{label_of(path)}: {message}")


def _held(
    graph: Graph,
    order: Sequence[int],
    asked: Mapping[str, Any],
    run: Mapping[str, Any],
    folder: str,
) -> Held:
    """Return planned and held bytes; where they differ, the session is asked what it ran."""
    planned, held = peak_memory(graph, tuple(order)), run["held"]
    rounded = peak_memory(MemoryModel(align=BLOCK).apply(graph), tuple(order))
    parts = {ROUNDING: rounded - planned}
    if held != rounded:
        # What cannot be measured stays unexplained.
        with suppress(OptschedError):
            ran = what_ran(lambda runs: run_all(runs, folder), asked, folder)
            beside = peak_memory(_in_place_as(ran.graph, graph), tuple(order))
            parts[OPEN], rounded = beside - rounded, beside
            kinds = (Counter(op.kind for op in each.ops) for each in (ran.graph, graph))
            parts[MOVED if next(kinds) == next(kinds) else FUSED] = ran.tensors - rounded
            parts[SCRATCH] = ran.held - ran.tensors
    return Held(planned, held, {what: value for what, value in parts.items() if value})


def _in_place_as(ran: Graph, graph: Graph) -> Graph:
    """Return a graph in blocks whose ops write in place where those of the graph that ran do.

    Of ops that ONNX Runtime replaces nothing is known: theirs stay as they are.
    """
    names = {(ran.buffers[b].name, ran.buffers[source].name) for _, b, source in ran.inplace}
    made = {b.name for b in ran.buffers}
    pairs = [(graph.buffers[b].name, graph.buffers[source].name) for _, b, source in graph.inplace]
    every = zip(graph.inplace, pairs, strict=True)
    kept = tuple(x for x, pair in every if pair in names or not made.issuperset(pair))
    return MemoryModel(align=BLOCK).apply(replace(graph, inplace=kept))


def _with_reuse(apart: Held, held: int) -> Held:
    """Return the bytes of a session that keeps freed buffers for later ones of equal shape."""
    more = held - apart.held
    causes = {**apart.causes, REUSE: more} if more else apart.causes
    return Held(apart.planned, held, causes)


def _planned_runs(
    graph: Graph, order: Sequence[int], found: Sequence[Mapping[str, Any]]
) -> tuple[int, int]:
    """Return the numbers of the runs in the file's order and in the planned one.

    Runs without optimizations take the place of those at the basic level if that loses the order:
    ops that it makes, for example a Gemm of MatMul and Add, run after all others, while what they
    read stays live.
    """
    is_close = Held(peak_memory(graph, tuple(order)), found[_AT_BASIC]["held"]).is_close
    is_run = "error" not in found[6] and "error" not in found[7]
    if is_run and not is_close and found[7]["held"] < found[_AT_BASIC]["held"]:
        return 6, 7
    return 3, _AT_BASIC


def _notes(ops: int, left: int) -> tuple[str, ...]:
    if left >= ops:
        return ()
    return (
        f"by default ONNX Runtime fuses {ops:,} ops into {left:,}; to plan what it then runs: "
        "optsched convert MODEL --to onnx-fused -o FUSED.onnx",
    )


def _count_ops(path: str) -> int:
    return len(operation_nodes(parse_model(Path(path).read_bytes()).graph))


def _weight_bytes(path: str) -> int:
    """Return the bytes of the initializers, in the file or beside it."""
    from math import prod

    from onnx import helper

    source = open_source(path)
    graph = parse_model(source.data).graph
    # Sparse initializers are in a list of their own, and are not counted.
    sizes = {
        tensor.name: prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        for tensor in graph.initializer
    }
    return sum(sizes.values())
