"""Bytes that ONNX Runtime holds for a model by default, and with a plan, measured once each.

A session with default settings fuses ops and keeps freed buffers, and kernels take scratch that no
file shows: an estimate of either side may promise a saving that is not there. Sessions run in a
process of their own, beside a search if it is started before: a crash, or a model that takes too
long, costs the figure and nothing else.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from optsched.errors import OptschedError
from optsched.formats.companions import copy_companions, require_companions
from optsched.formats.onnx.dims import set_dimensions
from optsched.formats.onnx.model import external_files, initializers, parse_model, sizes_of
from optsched.formats.onnx.order import reorder_onnx
from optsched.formats.opening import open_source
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.runtime.heap import counted_environment

PATIENCE: Final = 10.0
"""Seconds to wait for a session by default."""
CHILD: Final = "optsched.formats.onnx.session_child"
"""Module of the process that runs sessions."""
_DEFAULT_RUNS: Final = 3
_PART: Final = 4
"""A session must fit into this part of the free memory, by estimate."""
IN_ORDER: Final = {"execution_order": "PRIORITY_BASED", "enable_mem_reuse": False}
"""Settings with which a model runs in the order of its file."""
ALL: Final = "ORT_ENABLE_ALL"
BASIC: Final = "ORT_ENABLE_BASIC"
OFF: Final = "ORT_DISABLE_ALL"
CANDIDATES: Final[tuple[dict[str, Any], ...]] = (
    {**IN_ORDER, "graph_optimization_level": ALL},
    {**IN_ORDER, "graph_optimization_level": BASIC},
    {"execution_order": "PRIORITY_BASED", "graph_optimization_level": ALL},
    {},
    {**IN_ORDER, "graph_optimization_level": OFF},
)
"""Settings that are tried for a plan; among equals the first is chosen. The empty ones are those of
a default session, which is quicker than one without optimizations.
"""
_SESSIONS: Final[dict[tuple[object, ...], Session]] = {}


@dataclass(frozen=True, slots=True)
class Best:
    """Fewest bytes held with a plan, and the settings of the session that holds them."""

    held: int
    settings: Mapping[str, Any]


def session_of(graph: Graph) -> Session:
    """Return the default session of a graph's file, with the sizes of its open dimensions.

    It is started at the first call for a file, and measured once.
    """
    path = "" if graph.origin is None else graph.origin.file
    when = os.stat(path).st_mtime_ns if os.path.isfile(path) else 0
    key = (path, when, *graph.dims)
    if key not in _SESSIONS:
        for other in _SESSIONS.values():
            other.rest()
        _SESSIONS[key] = Session(path, graph)
    return _SESSIONS[key]


class Session:
    """A default session of a model that runs in a process of its own.

    `path`: path of the model; empty for one that was read from a pipe. `graph`: graph of the model.
    """

    def __init__(self, path: str, graph: Graph) -> None:
        self._resources = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._path, self._graph, self._reader, self._folder = path, graph, -1, ""
        self._planned: dict[tuple[str, ...], Best | str] = {}
        self._found: int | str | None = missing() or ("" if path else "the model has no file")
        self._found = self._found or self._too_large()
        if self._found is None:
            try:
                self._ask(default_runs(path, describe_inputs(path, dict(graph.dims))))
            except (OptschedError, OSError, subprocess.SubprocessError) as error:
                self._found = str(error)

    def held(self, seconds: float = PATIENCE) -> int | str:
        """Return the bytes held, or the reason why they are not known.

        `seconds`: time to wait for the session, which ends after that.
        """
        if self._found is None:
            answer = self._answer(seconds)
            self._found = answer if isinstance(answer, str) else _held(answer)
        return self._found

    def planned(self, order: Sequence[str], seconds: float = PATIENCE) -> int | str:
        """Return the bytes held with the ops in an order, or the reason why they are not known.

        They are the fewest of all settings that :meth:`best` tries.
        """
        found = self.best(order, seconds)
        return found if isinstance(found, str) else found.held

    def best(self, order: Sequence[str], seconds: float | None = PATIENCE) -> Best | str:
        """Return the settings with which fewest bytes are held with the ops in an order.

        `order`: names of all ops, first to run first. `seconds`: time to wait for all runs; without
        one, their end is awaited.
        """
        if isinstance(held := self.held(), str):
            return held
        key = tuple(order)
        if key not in self._planned:
            try:
                self._planned[key] = self._measure(key, seconds)
            except (OptschedError, OSError, subprocess.SubprocessError) as error:
                self._planned[key] = str(error)
        return self._planned[key]

    def rest(self) -> None:
        """End the process if it has answered; it starts again if it is asked."""
        if self._found is not None:
            self._end()

    def _too_large(self) -> str | None:
        try:
            source = open_source(self._path)
            files = external_files(source)
            require_companions(source.folder, files)
        except OptschedError as error:
            return str(error)
        weights = sum(os.path.getsize(Path(source.folder, name)) for name in files)
        # Results of a whole run, and weights in the file and once more in the session.
        live = peak_memory(self._graph, tuple(range(len(self._graph.ops))))
        needed = 2 * live + 2 * (weights + len(source.data))
        return "too little free memory to run it" if needed > _free_bytes() // _PART else None

    def _measure(self, order: Sequence[str], seconds: float | None) -> Best | str:
        names, dims = [op.name for op in self._graph.ops], dict(self._graph.dims)
        if sorted(names) != sorted(order):
            return "its ops are not those of the file"
        source = open_source(self._path)
        data = reorder_onnx(source, order, dims, name=self._graph.name)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "planned.onnx")
            copy_companions(source.folder, external_files(source), path)
            path.write_bytes(data)
            inputs = describe_inputs(self._path, dims)
            self._ask([request(str(path), inputs, **settings) for settings in CANDIDATES])
            answer = self._answer(seconds)
        if isinstance(answer, str):
            return answer
        # Settings with which the runtime fails are left out; others may still run.
        held = [(run["held"], i) for i, run in enumerate(answer) if "held" in run]
        return Best(min(held)[0], CANDIDATES[min(held)[1]]) if held else str(_held(answer))

    def _ask(self, runs: Sequence[Mapping[str, Any]]) -> None:
        """Hand runs to the process, which is started if there is none."""
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        path = Path(self._folder, "runs.json")
        path.write_text(json.dumps(list(runs)))
        self._process.stdin.write(f"{path}\n".encode())
        self._process.stdin.flush()

    def _start(self) -> None:
        self._folder = self._resources.enter_context(tempfile.TemporaryDirectory())
        environment = self._resources.enter_context(counted_environment())
        self._reader, writer = os.pipe()
        self._resources.callback(os.close, self._reader)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", CHILD, str(writer)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(writer,),
            )
        finally:
            os.close(writer)
        # A command that fails before it asks must not leave a process running.
        atexit.register(self._end)

    def _answer(self, seconds: float | None) -> list[dict[str, Any]] | str:
        """Return the answer to the runs handed over last, or why there is none."""
        assert self._process is not None
        until = None if seconds is None else time.monotonic() + seconds
        text = b""
        while not text.endswith(b"\n"):
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self._reader], [], [], left)[0]:
                self._end()
                return f"a session took more than {seconds:.1f} s"
            part = os.read(self._reader, 1 << 16)
            if not part:
                code = self._process.wait()
                self._end()
                return f"ONNX Runtime ended with exit code {code}"
            text += part
        found: list[dict[str, Any]] = json.loads(text)
        return found

    def _end(self) -> None:
        atexit.unregister(self._end)
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None
        self._resources.close()


def _held(answer: Sequence[Mapping[str, Any]]) -> int | str:
    """Return the fewest bytes of all runs, or the error of the first if none succeeds."""
    held = [int(run["held"]) for run in answer if "held" in run]
    return min(held) if held else f"ONNX Runtime does not run it: {answer[0]['error'][:100]}"


def default_runs(path: str, inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return several runs of a default session; the fewest bytes count.

    Some models run in another order in each session, as ONNX Runtime's fusions follow addresses.
    """
    return [request(path, inputs)] * _DEFAULT_RUNS


def missing() -> str:
    """Return what is missing for a measurement on this machine; empty if nothing is."""
    if find_spec("onnxruntime") is None:
        return "onnxruntime is not installed"
    if sys.platform != "linux":
        return "measured on Linux only"
    return "" if shutil.which("cc") else "no C compiler (cc) to count blocks"


def request(path: str, inputs: Sequence[Mapping[str, Any]], **settings: Any) -> dict[str, Any]:
    """Return a run of a model with attributes of the session's options."""
    return {"path": path, "inputs": inputs, "settings": settings}


def describe_inputs(path: str, dims: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return names, element types, shapes and values of the inputs to feed.

    A value is `fixed` if it is that of a dimension.
    """
    from onnx import TensorProto, helper

    model = parse_model(open_source(path).data)
    set_dimensions(model, dims)
    weights = set(initializers(model.graph))
    found = []
    for value in model.graph.input:
        # A dimension that gives the value of an input has made a constant of it.
        if value.name in weights and value.name not in dims:
            continue
        tensor = value.type.tensor_type
        is_text = tensor.elem_type == TensorProto.STRING
        kind = "string" if is_text else helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
        row = {"name": value.name, "type": kind, "shape": sizes_of(value.type)}
        row |= {"value": dims.get(value.name, 1), "fixed": value.name in dims}
        found.append(row)
    return found


def _free_bytes() -> int:
    """Return the bytes of memory that programs can still take."""
    rows = Path("/proc/meminfo").read_text().splitlines()
    found = next((row.split()[1] for row in rows if row.startswith("MemAvailable:")), "0")
    return int(found) << 10
