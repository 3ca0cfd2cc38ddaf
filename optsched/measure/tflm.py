"""Bytes that TFLite Micro's interpreter holds for a model, before and after a plan.

The interpreter runs in a process of its own, since it may abort.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from optsched.compare.saving import stock_plan
from optsched.errors import FormatError, MissingDependencyError
from optsched.formats.apply import apply_plan
from optsched.formats.opening import open_source
from optsched.formats.source import label_of
from optsched.measure.request import Request
from optsched.measure.result import Held, Measurement

ARENA = 16 << 20
# Above this the error is taken as the model's own.
_LARGEST = 1 << 30
SCRATCH = "scratch beyond that of the reference kernels"

_CHILD = """
import sys
import numpy as np
from tflite_micro.python.tflite_micro import runtime
model, outputs, arena = sys.argv[1:]
with open(model, "rb") as file:
    interpreter = runtime.Interpreter.from_bytes(file.read(), arena_size=int(arena))
rng = np.random.default_rng(0)
number = 0
while True:
    try:
        details = interpreter.get_input_details(number)
    except (ValueError, IndexError, RuntimeError):
        break
    values = rng.standard_normal(details["shape"])
    dtype = np.dtype(details["dtype"])
    values = values if dtype.kind == "f" else np.clip(values * 40, -128, 127)
    interpreter.set_input(values.astype(dtype), number)
    number += 1
    if number == int(open(model + ".inputs").read()):
        break
interpreter.invoke()
count = int(open(model + ".outputs").read())
np.savez(outputs, *[interpreter.get_output(i) for i in range(count)])
interpreter.print_allocations()
"""


@dataclass(frozen=True)
class Run:
    """Results of the interpreter for a model.

    Parameters
    ----------
    head, tail
        Bytes of its arena: what a memory plan decides, and what lives as long as the interpreter.
    outputs
        In the order of the model.
    """

    head: int
    tail: int
    outputs: tuple[np.ndarray[Any, Any], ...]

    def same_outputs(self, other: Run) -> bool:
        """Return True if all outputs are equal, bit for bit."""
        pairs = zip(self.outputs, other.outputs, strict=True)
        return all(x.tobytes() == y.tobytes() for x, y in pairs)


def run_model(data: bytes, arena: int = ARENA) -> Run:
    """Run a model once on inputs drawn from a fixed seed.

    Raises
    ------
    RuntimeError
        If the interpreter fails; with what it printed.
    """
    import tflite

    main = tflite.Model.GetRootAs(data).Subgraphs(0)
    with tempfile.TemporaryDirectory() as folder:
        model, outputs = Path(folder, "model.tflite"), Path(folder, "outputs.npz")
        model.write_bytes(data)
        # The interpreter has no call that counts its inputs or outputs: the file says both numbers.
        Path(f"{model}.inputs").write_text(str(main.InputsLength()))
        Path(f"{model}.outputs").write_text(str(main.OutputsLength()))
        command = [sys.executable, "-c", _CHILD, str(model), str(outputs), str(arena)]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        printed = ran.stdout + ran.stderr
        found = [
            re.search(rf"Arena allocation {part} (\d+) bytes", printed) for part in ("head", "tail")
        ]
        # The interpreter aborts without an exception, so that its output decides.
        if ran.returncode or None in found:
            raise RuntimeError(printed[-800:])
        with np.load(outputs) as loaded:
            values = tuple(loaded[f"arr_{i}"] for i in range(len(loaded.files)))
    head, tail = (int(match[1]) for match in found if match)
    return Run(head, tail, values)


def measure(request: Request) -> Measurement:
    """Run a model in TFLite Micro; see :func:`optsched.measure.measure_model`."""
    if find_spec("tflite_micro") is None:
        raise MissingDependencyError("tflite-micro", "runtimes")
    path, graph = request.path, request.graph
    first = _run_somehow(path, open_source(path).data)
    # The framework's own plan is the one to compare the arena with.
    own = stock_plan(graph)
    before = _held(None if own is None else own.slab, first.head)
    runtime = f"TFLite Micro {version('tflite-micro')}"
    notes = [f"tail    {first.tail:,} bytes beside the planned arena"]
    if request.plan is None:
        return Measurement(graph.name, runtime, before, notes=tuple(notes))
    with tempfile.TemporaryDirectory() as folder:
        planned = str(Path(folder, "planned.tflite"))
        slab = apply_plan(path, request.plan, planned, **request.options).checked.slab
        second = _run_somehow(path, Path(planned).read_bytes())
    notes = [f"tail    {second.tail:,} bytes beside the planned arena"]
    same = first.same_outputs(second)
    after = _held(slab, second.head)
    return Measurement(graph.name, runtime, before, after, same, notes=tuple(notes))


def _held(planned: int | None, head: int) -> Held:
    # Less than planned needs no cause.
    more = 0 if planned is None else head - planned
    return Held(planned, head, {SCRATCH: more} if more > 0 else {})


def _run_somehow(path: str, data: bytes) -> Run:
    """Run a model in an arena that is large enough."""
    arena = ARENA
    while True:
        try:
            return run_model(data, arena)
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
