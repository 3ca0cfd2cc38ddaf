"""Runtimes that measure model files: a row each, and a module of this package that runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from optsched.errors import UsageError
from optsched.formats import sniff_file


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime of model files."""

    title: str
    format: str
    """Name of the format that it runs."""
    module: str
    """Module of this package with `measure(request)`; of a compiler, with `run(path, seconds)`."""
    extra: str = ""
    """Extra of this project that installs it, if that is not the extra of the format."""
    plans: bool = False
    """True if it plans an arena on its own, with which the bytes that it holds are compared."""
    compiles: bool = False
    """True for a compiler, which plans its own ops by our plugin in a process of its own."""


RUNTIMES: Final = {
    "onnxruntime": Runtime("ONNX Runtime", "onnx", "onnxruntime"),
    "tflm": Runtime("TFLite Micro", "tflite", "tflm", plans=True),
    "torch": Runtime("torch.compile", "pt2", "torch_child", "torch", compiles=True),
    "executorch": Runtime("ExecuTorch", "pt2", "executorch_child", "executorch", compiles=True),
    "xla": Runtime("XLA", "hlo", "xla_child", "jax", compiles=True),
}
"""Runtimes by name; of several for a format, the first is the default."""


def runtime_of(path: str, wanted: str | None = None) -> str:
    """Return the name of the runtime that runs a file.

    Raise `UsageError` if no runtime is known for the file's format, or not the one that is wanted.
    """
    name = sniff_file(path).name
    known = [own for own, runtime in RUNTIMES.items() if runtime.format == name]
    if wanted in known or (known and wanted is None):
        return wanted or known[0]
    if wanted is not None:
        runs = ", ".join(known) or "no runtime"
        raise UsageError(f"{path}: {wanted} does not run {name} files; they are run by {runs}")
    formats = ", ".join(dict.fromkeys(runtime.format for runtime in RUNTIMES.values()))
    raise UsageError(f"{path}: no runtime to measure {name} files; known: {formats}")
