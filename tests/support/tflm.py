"""Runs a model in the interpreter of TFLite Micro, in a process of its own: it may abort."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ARENA = 16 << 20

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
    outputs: tuple[np.ndarray, ...]

    def same_outputs(self, other: Run) -> bool:
        """True if all outputs are equal, bit for bit."""
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
        Path(f"{model}.inputs").write_text(str(main.InputsLength()))
        Path(f"{model}.outputs").write_text(str(main.OutputsLength()))
        command = [sys.executable, "-c", _CHILD, str(model), str(outputs), str(arena)]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace")
        said = ran.stdout + ran.stderr
        found = [
            re.search(rf"Arena allocation {part} (\d+) bytes", said) for part in ("head", "tail")
        ]
        if ran.returncode or None in found:
            raise RuntimeError(said[-800:])
        with np.load(outputs) as loaded:
            values = tuple(loaded[f"arr_{i}"] for i in range(len(loaded.files)))
    head, tail = (int(match[1]) for match in found if match)
    return Run(head, tail, values)
