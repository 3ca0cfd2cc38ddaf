"""Runs of models in TFLite Micro, several files in one process of their own."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.tflm_report import printed_by

Array = np.ndarray[Any, Any]


def runs(files: Sequence[bytes], inputs: Sequence[Array], outputs: int) -> list[Any]:
    """Return `(head, tail, outputs)` of each file, or what the interpreter printed if it failed."""
    printed = printed_by(lambda: _run(files, inputs, outputs))
    return _read(printed, len(files))


def _run(files: Sequence[bytes], inputs: Sequence[Array], outputs: int) -> None:
    from tflite_micro.python.tflite_micro import runtime

    for data in files:
        interpreter = runtime.Interpreter.from_bytes(data, arena_size=1 << 22)
        for number, values in enumerate(inputs):
            interpreter.set_input(values, number)
        interpreter.invoke()
        interpreter.print_allocations()
        kept = io.BytesIO()
        np.savez(kept, *[interpreter.get_output(i) for i in range(outputs)])
        os.write(1, b"\n<outputs>" + kept.getvalue().hex().encode() + b"</outputs>\n")


def _read(printed: bytes, count: int) -> list[Any]:
    text = printed.decode(errors="replace")
    pattern = r"head (\d+) bytes.*?tail (\d+) bytes.*?<outputs>([0-9a-f]*)</outputs>"
    found: list[Any] = []
    for head, tail, values in re.findall(pattern, text, re.DOTALL):
        with np.load(io.BytesIO(bytes.fromhex(values))) as loaded:
            outputs = [loaded[f"arr_{i}"] for i in range(len(loaded.files))]
        found.append((int(head), int(tail), outputs))
    return found + [re.sub("<outputs>.*?</outputs>", "", text)[-300:]] * (count - len(found))


def drawn(rng: np.random.Generator, shape: Sequence[int], type: str) -> Array:
    """Return values of a tensor of the file."""
    if type == "FLOAT32":
        return rng.standard_normal(shape).astype(np.float32)
    kind = np.dtype(type.lower())
    most = min(np.iinfo(kind).max, 2000)
    return rng.integers(max(np.iinfo(kind).min, -most - 1), most + 1, shape).astype(kind)
