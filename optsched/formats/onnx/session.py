"""Bytes that ONNX Runtime holds for a model by default, measured once per model.

A session with default settings fuses ops and keeps freed buffers, so that an estimate from the file
may promise a saving that is not there. The session runs in a process of its own, beside a search if
it is started before: a crash, or a model that takes too long, costs the figure and nothing else.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from optsched.errors import OptschedError
from optsched.formats.companions import require_companions
from optsched.formats.onnx.dims import set_dimensions
from optsched.formats.onnx.model import external_files, initializers, parse_model
from optsched.formats.opening import open_source
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.runtime.heap import counted_environment

PATIENCE: Final = 10.0
"""Seconds to wait for a session by default."""
CHILD: Final = "optsched.formats.onnx.session_child"
"""Module of the process that runs sessions."""
_PART: Final = 4
"""A session must fit into this part of the free memory, by estimate."""
_SESSIONS: Final[dict[tuple[object, ...], Session]] = {}


def session_of(graph: Graph) -> Session:
    """Return the default session of a graph's file, with the sizes of its open dimensions.

    It is started at the first call for a file, and measured once.
    """
    path = "" if graph.origin is None else graph.origin.file
    when = os.stat(path).st_mtime_ns if os.path.isfile(path) else 0
    key = (path, when, *graph.dims)
    if key not in _SESSIONS:
        _SESSIONS[key] = Session(path, graph)
    return _SESSIONS[key]


class Session:
    """A default session of a model that runs in a process of its own.

    `path`: path of the model; empty for one that was read from a pipe. `graph`: graph of the model.
    """

    def __init__(self, path: str, graph: Graph) -> None:
        self._resources = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._answer: Path | None = None
        self._found: int | str | None = missing() or ("" if path else "the model has no file")
        self._found = self._found or None
        if self._found is None:
            try:
                self._start(path, graph)
            except (OptschedError, OSError, subprocess.SubprocessError) as error:
                self._found = str(error)

    def _start(self, path: str, graph: Graph) -> None:
        source = open_source(path)
        files = external_files(source)
        require_companions(source.folder, files)
        weights = sum(os.path.getsize(Path(source.folder, name)) for name in files)
        # Results of a whole run, and weights in the file and once more in the session.
        needed = 2 * peak_memory(graph, tuple(range(len(graph.ops)))) + 2 * (
            weights + len(source.data)
        )
        if needed > _free_bytes() // _PART:
            self._found = "too little free memory to run it"
            return
        folder = Path(self._resources.enter_context(tempfile.TemporaryDirectory()))
        environment = self._resources.enter_context(counted_environment())
        runs, self._answer = folder / "runs.json", folder / "answer"
        runs.write_text(json.dumps([request(path, describe_inputs(path, dict(graph.dims)))]))
        with self._answer.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", CHILD, str(runs)],
                env=environment,
                stdout=out,
                stderr=subprocess.DEVNULL,
            )
        # A command that fails before it asks must not leave a process running.
        atexit.register(self._end)

    def held(self, seconds: float = PATIENCE) -> int | str:
        """Return the bytes held, or the reason why they are not known.

        `seconds`: time to wait for the session, which ends after that.
        """
        if self._found is None:
            self._found = self._wait(seconds)
            self._end()
        return self._found

    def _wait(self, seconds: float) -> int | str:
        assert self._process is not None
        assert self._answer is not None
        try:
            self._process.wait(seconds)
            (answer,) = json.loads(self._answer.read_bytes().splitlines()[-1])
        except subprocess.TimeoutExpired:
            return f"a session took more than {seconds:.1f} s"
        except (ValueError, LookupError):
            return f"ONNX Runtime ended with exit code {self._process.returncode}"
        if "held" not in answer:
            return f"ONNX Runtime does not run it: {answer['error'][:100]}"
        return int(answer["held"])

    def _end(self) -> None:
        atexit.unregister(self._end)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._resources.close()


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
        shape = [dim.dim_value for dim in tensor.shape.dim]
        number = dims.get(value.name, 1)
        fixed = value.name in dims
        row = {"name": value.name, "type": kind, "shape": shape, "value": number, "fixed": fixed}
        found.append(row)
    return found


def _free_bytes() -> int:
    """Return the bytes of memory that programs can still take."""
    rows = Path("/proc/meminfo").read_text().splitlines()
    found = next((row.split()[1] for row in rows if row.startswith("MemAvailable:")), "0")
    return int(found) << 10
