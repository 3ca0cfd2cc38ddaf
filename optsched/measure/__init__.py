"""Bytes that a model's runtime holds, before and after a plan, where the runtime is installed.

A plan says how many bytes an order and offsets need. This package runs the model, counts the bytes
that its runtime holds, and names the causes of a difference: scratch of kernels, outputs that were
not written in place, blocks rounded up, ops that the runtime fused.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from optsched.errors import UsageError
from optsched.formats import sniff_file
from optsched.formats.opening import extra_named
from optsched.measure.compiled import measure_compiled
from optsched.measure.request import Request
from optsched.measure.result import Held, Measurement

__all__ = [
    "COMPILERS",
    "RUNTIMES",
    "Held",
    "Measurement",
    "Request",
    "compiler_of",
    "measure_compiled",
    "measure_model",
]

RUNTIMES: Final = {"onnx": "onnxruntime", "tflite": "tflm"}
"""Module of this package that runs the files of a format, by the format's name."""
COMPILERS: Final = {"pt2": ("torch", "executorch"), "hlo": ("xla",)}
"""Compilers that run the files of a format, the first by default."""


def compiler_of(path: str, wanted: str | None) -> str | None:
    """Return the compiler that runs a file; None for a format that is run as it is.

    Raises
    ------
    UsageError
        If the file cannot be run by the one that is wanted.
    """
    name = sniff_file(path).name
    known = COMPILERS.get(name, ())
    if wanted is None or wanted in known:
        return wanted or (known[0] if known else None)
    runs = ", ".join(known) or RUNTIMES.get(name, "no runtime")
    raise UsageError(f"{path}: {wanted} does not run {name} files; they are run by {runs}")


def measure_model(request: Request) -> Measurement:
    """Run a model in its runtime, as it is and with its plan.

    Parameters
    ----------
    request
        The model, its graph and its plan.

    Returns
    -------
    Measurement
        Bytes planned and held, the causes of their difference, and whether outputs are equal.

    Raises
    ------
    UsageError
        If no runtime is known for the file's format.
    FormatError
        If the runtime does not run the model.
    MissingDependencyError
        If the runtime is not installed.
    """
    row = sniff_file(request.path)
    if row.name not in RUNTIMES:
        known = ", ".join((*RUNTIMES, *COMPILERS))
        raise UsageError(f"{request.path}: no runtime to measure {row.name} files; known: {known}")
    run: Callable[[Request], Measurement]
    run = import_module(f"{__name__}.{RUNTIMES[row.name]}").measure
    with extra_named(row):
        return run(request)
