"""Bytes that TFLite Micro's interpreter holds for a model, before and after a plan.

The interpreter runs in a process of its own, since it may abort.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from optsched.errors import FormatError, MissingDependencyError
from optsched.formats.apply import apply_plan
from optsched.formats.opening import open_source
from optsched.formats.source import label_of
from optsched.formats.tflite.graph import held
from optsched.formats.tflite.model import read_model
from optsched.measure.request import Request
from optsched.measure.result import Held, Measurement

ARENA = 16 << 20
SECONDS = 2.0
"""Time for runs in turns."""
# Above this the error is taken as the model's own.
_LARGEST = 1 << 30
SCRATCH = "scratch beyond that of the reference kernels"

_CHILD = """
import sys
import time
import numpy as np
from tflite_micro.python.tflite_micro import runtime
arena, seconds, inputs, outputs, *models = sys.argv[1:]
loaded = []
for model in models:
    with open(model, "rb") as file:
        interpreter = runtime.Interpreter.from_bytes(file.read(), arena_size=int(arena))
    rng = np.random.default_rng(0)
    for number in range(int(inputs)):
        try:
            details = interpreter.get_input_details(number)
        except (ValueError, IndexError, RuntimeError):
            break
        values = rng.standard_normal(details["shape"])
        dtype = np.dtype(details["dtype"])
        values = values if dtype.kind == "f" else np.clip(values * 40, -128, 127)
        interpreter.set_input(values.astype(dtype), number)
    interpreter.invoke()
    np.savez(model + ".npz", *[interpreter.get_output(i) for i in range(int(outputs))])
    interpreter.print_allocations()
    loaded.append(interpreter)
# In turns, so that what else the machine does meets all of them.
begun, times = time.perf_counter(), [[] for _ in loaded]
while len(loaded) > 1 and time.perf_counter() - begun < float(seconds) and len(times[0]) < 100:
    for interpreter, found in zip(loaded, times):
        # The time of the processor: others that wait for it do not count.
        start = time.thread_time()
        interpreter.invoke()
        found.append(time.thread_time() - start)
np.save(models[0] + ".npy", [np.median(found) if found else np.nan for found in times])
"""


@dataclass(frozen=True)
class Run:
    """Results of the interpreter for a model."""

    head: int
    tail: int
    """`head` and `tail`: bytes of its arena: what a memory plan decides, and what lives as long as
    the interpreter."""
    outputs: tuple[np.ndarray[Any, Any], ...]
    """In the order of the model."""
    seconds: float | None = None
    """Median time of an inference, if several models ran in turns."""

    def same_outputs(self, other: Run) -> bool:
        """Return True if all outputs are equal, bit for bit."""
        pairs = zip(self.outputs, other.outputs, strict=True)
        return all(x.tobytes() == y.tobytes() for x, y in pairs)


def run_model(data: bytes, arena: int = ARENA) -> Run:
    """Run a model once on inputs drawn from a fixed seed; see :func:`run_models`."""
    return run_models([data], arena)[0]


def run_models(files: Sequence[bytes], arena: int = ARENA) -> list[Run]:
    """Run models with equal inputs on the same values, then in turns to compare their times.

    Raise `RuntimeError` if the interpreter fails; with what it printed.
    """
    import tflite

    main = tflite.Model.GetRootAs(files[0]).Subgraphs(0)
    with tempfile.TemporaryDirectory() as folder:
        models = [Path(folder, f"{number}.tflite") for number in range(len(files))]
        for model, data in zip(models, files, strict=True):
            model.write_bytes(data)
        # The interpreter has no call that counts its inputs or outputs: the file says both numbers.
        counts = main.InputsLength(), main.OutputsLength()
        numbers = map(str, (arena, SECONDS, *counts))
        command = [sys.executable, "-c", _CHILD, *numbers, *map(str, models)]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        printed = ran.stdout + ran.stderr
        heads, tails = (
            [int(size) for size in re.findall(rf"Arena allocation {part} (\d+) bytes", printed)]
            for part in ("head", "tail")
        )
        # The interpreter aborts without an exception, so that its output decides.
        if ran.returncode or len(heads) != len(files) or len(tails) != len(files):
            raise RuntimeError(printed[-800:])
        values = [_arrays(Path(f"{model}.npz")) for model in models]
        times = [None if np.isnan(x) else float(x) for x in np.load(f"{models[0]}.npy")]
    return [Run(*row) for row in zip(heads, tails, values, times, strict=True)]


def _arrays(path: Path) -> tuple[np.ndarray[Any, Any], ...]:
    with np.load(path) as loaded:
        return tuple(loaded[f"arr_{i}"] for i in range(len(loaded.files)))


def measure(request: Request) -> Measurement:
    """Run a model in TFLite Micro; see :func:`optsched.measure.measure_model`."""
    if find_spec("tflite_micro") is None:
        raise MissingDependencyError("tflite-micro", "runtimes")
    path, graph = request.path, request.graph
    data = open_source(path).data
    runtime = f"TFLite Micro {version('tflite-micro')}"
    if request.plan is None and not request.written:
        (first,) = _run_somehow(path, [data])
        before = _held(request.own, first.head)
        return Measurement(graph.name, runtime, before, notes=(_array_note(first),))
    planned, slab = _planned_file(request, data)
    first, second = _run_somehow(path, [data, planned])
    before = _held(request.own, first.head)
    after = _held(slab, second.head)
    notes = (_array_note(first, "before"), _array_note(second, "after"), _time_note(first, second))
    same = first.same_outputs(second)
    return Measurement(graph.name, runtime, before, after, same, notes=notes)


def _planned_file(request: Request, data: bytes) -> tuple[bytes, int | None]:
    """Return the model's file with the plan, and the bytes of the arena that it plans."""
    if not request.written:
        assert request.plan is not None
        with tempfile.TemporaryDirectory() as folder:
            planned = str(Path(folder, "planned.tflite"))
            done = apply_plan(request.path, request.plan, planned, **request.options)
            return Path(planned).read_bytes(), done.checked.slab
    source = open_source(request.written)
    before, after = read_model(data), read_model(source.data)
    for now, old in ((after.inputs, before.inputs), (after.outputs, before.outputs)):
        shapes = [
            [(x.type, x.shape) for x in map(side.tensors.__getitem__, numbers)]
            for side, numbers in ((after, now), (before, old))
        ]
        if shapes[0] != shapes[1]:
            raise FormatError(
                f"{label_of(request.written)}: inputs or outputs are not those of "
                f"{label_of(request.path)}"
            )
    return source.data, held(source)


def _array_note(run: Run, when: str = "") -> str:
    of = f" {when}" if when else ""
    return f"arena   head {run.head:,} + tail {run.tail:,} = {run.head + run.tail:,} bytes{of}"


def _time_note(first: Run, second: Run) -> str:
    """Return the times of an inference; runs in turns make them comparable."""
    if first.seconds is None or second.seconds is None:
        return "time    not measured"
    before, after = 1000 * first.seconds, 1000 * second.seconds
    return f"time    {before:.3g} -> {after:.3g} ms of the processor per inference, in turns"


def _held(planned: int | None, head: int) -> Held:
    # Less than planned needs no cause.
    more = 0 if planned is None else head - planned
    return Held(planned, head, {SCRATCH: more} if more > 0 else {})


def _run_somehow(path: str, files: Sequence[bytes]) -> list[Run]:
    """Run models in arenas that are large enough."""
    arena = ARENA
    while True:
        try:
            return run_models(files, arena)
        except RuntimeError as error:
            # The needed size is known only when it suffices: 16 MiB, 64, 256, 1 GiB.
            arena *= 4
            # Only errors about memory are met by a larger arena.
            if arena > _LARGEST or not re.search(r"[Aa]rena|[Rr]esize|memory", str(error)):
                message = f"{label_of(path)}: TFLite Micro does not run it: {_reason(str(error))}"
                raise FormatError(message) from None


def _reason(printed: str) -> str:
    """Return why the interpreter failed, in words if it names an op."""
    if missing := re.search(r"Failed to get registration from op code (\w+)", printed):
        return f"no kernel for {missing[1]}"
    if refused := re.search(r"Node (\w+) \(number (\d+)\) failed to (prepare|invoke)", printed):
        return f"its kernel of {refused[1]} refuses op {refused[2]}"
    lines = printed.strip().splitlines() or ["no message"]
    return lines[-1][:300]
