"""Bytes that ONNX Runtime holds for a model by default, measured beside the search for a plan.

A session with default settings fuses ops and keeps freed buffers, so that an estimate from the file
may promise a saving that is not there. The session runs in a process of its own, while the search
goes on: a crash, or a model that takes too long, costs the figure and nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from optsched.errors import OptschedError
from optsched.formats.companions import require_companions
from optsched.formats.onnx.model import external_files
from optsched.formats.opening import open_source
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.runtime.heap import counted_environment

PATIENCE: Final = 10.0
"""Seconds to wait for a session after the search, by default."""
_PART: Final = 4
"""A session must fit into this part of the free memory, by estimate."""


class Before:
    """A default session of a model that runs in a process of its own.

    Parameters
    ----------
    path
        Path of the model; nothing is run unless ONNX Runtime and its counter are here.
    graph
        Graph of the model, with the sizes of its open dimensions.
    """

    def __init__(self, path: str, graph: Graph) -> None:
        self._resources = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._answer: Path | None = None
        is_onnx = graph.origin is not None and graph.origin.format == "onnx"
        if not is_onnx or not is_measured_here() or not os.path.isfile(path):
            return
        # If ONNX Runtime does not run the model, the estimate stays.
        with suppress(OptschedError, OSError, subprocess.SubprocessError):
            self._start(path, graph)

    def _start(self, path: str, graph: Graph) -> None:
        from optsched.measure.onnxruntime import describe_inputs, request

        source = open_source(path)
        files = external_files(source)
        require_companions(source.folder, files)
        weights = sum(os.path.getsize(Path(source.folder, name)) for name in files)
        # Results of a whole run, and weights in the file and once more in the session.
        needed = 2 * peak_memory(graph, tuple(range(len(graph.ops)))) + 2 * (
            weights + len(source.data)
        )
        if needed > _free_bytes() // _PART:
            return
        folder = Path(self._resources.enter_context(tempfile.TemporaryDirectory()))
        environment = self._resources.enter_context(counted_environment())
        runs, self._answer = folder / "runs.json", folder / "answer"
        runs.write_text(json.dumps([request(path, describe_inputs(path, dict(graph.dims)))]))
        command = [sys.executable, "-m", "optsched.measure.ort_child", str(runs)]
        with self._answer.open("wb") as out:
            self._process = subprocess.Popen(
                command, env=environment, stdout=out, stderr=subprocess.DEVNULL
            )

    def put_into(self, graph: Graph, seconds: float = PATIENCE) -> Graph:
        """Return a graph that knows the bytes held, or the graph if they cannot be measured.

        Parameters
        ----------
        graph
            Graph of the model.
        seconds
            Time to wait for the session; it ends after that.
        """
        with self._resources:
            held = self._held(seconds)
        return graph if held is None else with_measured(graph, held)

    def _held(self, seconds: float) -> int | None:
        if self._process is None or self._answer is None:
            return None
        try:
            self._process.wait(seconds)
            answer = json.loads(self._answer.read_bytes().splitlines()[-1])
            return int(answer[0]["held"])
        except (subprocess.TimeoutExpired, ValueError, LookupError):
            return None
        finally:
            self._process.kill()
            self._process.wait()


def with_measured(graph: Graph, held: int) -> Graph:
    """Return a graph whose origin has the bytes that its framework was seen to hold."""
    origin = graph.origin
    if origin is None:
        return graph
    return graph.read_from(replace(origin, measured=held), dict(graph.dims))


def is_measured_here() -> bool:
    """Return True if sessions of ONNX Runtime can be measured on this machine."""
    is_here = find_spec("onnxruntime") is not None and shutil.which("cc") is not None
    return is_here and sys.platform == "linux"


def _free_bytes() -> int:
    """Return the bytes of memory that programs can still take."""
    rows = Path("/proc/meminfo").read_text().splitlines()
    found = next((row.split()[1] for row in rows if row.startswith("MemAvailable:")), "0")
    return int(found) << 10
