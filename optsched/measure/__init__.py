"""Bytes that a model's runtime holds, before and after a plan, where the runtime is installed.

A plan says how many bytes an order and offsets need. This package runs the model, counts the bytes
that its runtime holds, and names the causes of a difference: scratch of kernels, outputs that were
not written in place, blocks rounded up, ops that the runtime fused.
"""

from __future__ import annotations

from importlib import import_module

from optsched.formats import sniff_file
from optsched.formats.opening import extra_named
from optsched.measure.compiled import measure_compiled
from optsched.measure.request import Request
from optsched.measure.result import Held, Measurement
from optsched.measure.runtimes import RUNTIMES, Runtime, runtime_of

__all__ = [
    "RUNTIMES",
    "Held",
    "Measurement",
    "Request",
    "Runtime",
    "measure_compiled",
    "measure_model",
    "runtime_of",
]


def measure_model(request: Request) -> Measurement:
    """Run a model in its runtime, as it is and with its plan.

    Raise `UsageError` if no runtime is known for the file's format. Raise `FormatError` if the
    runtime does not run the model. Raise `MissingDependencyError` if the runtime is not installed.

    `request`: the model, its graph and its plan.

    Returns
    -------
    Measurement
        Bytes planned and held, the causes of their difference, and whether outputs are equal.
    """
    runtime = RUNTIMES[runtime_of(request.path)]
    with extra_named(sniff_file(request.path)):
        found: Measurement = import_module(f"{__name__}.{runtime.module}").measure(request)
        return found
