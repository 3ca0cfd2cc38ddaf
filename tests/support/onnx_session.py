"""Sessions of ONNX Runtime in which only the order differs, and what they are asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optsched.runtime.heap import Heap


def session(path: Path, order: str, *, reuse: bool = False, **options: Any) -> Any:
    """Open a model as it stands, on one thread, without arena.

    `path`: the model. `order`: of `onnxruntime.ExecutionOrder`: DEFAULT, or PRIORITY_BASED for the
    file's. `reuse`: True if a dead buffer is held for a later one of equal shape, as ONNX Runtime
    does by default. `options`: further attributes of the session's options.
    """
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.execution_order = getattr(onnxruntime.ExecutionOrder, order)
    settings.intra_op_num_threads, settings.log_severity_level = 1, 3
    settings.enable_cpu_mem_arena = settings.enable_mem_pattern = False
    settings.enable_mem_reuse = reuse
    for name, setting in options.items():
        setattr(settings, name, setting)
    return onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])


def without_weights_as_inputs(path: Path, output: Path) -> None:
    """Write a model whose weights are not inputs.

    Files of IR version 3 list weights as inputs; they could then be given, and are not constants.
    """
    import onnx

    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(4, model.ir_version)
    onnx.save(model, output)


def optimization_level(name: str) -> Any:
    """Return a level of optimization by its name in `GraphOptimizationLevel`."""
    import onnxruntime

    return getattr(onnxruntime.GraphOptimizationLevel, name)


def optimize(path: Path, output: Path, level: str) -> None:
    """Write the model that ONNX Runtime makes of one at a level of optimization."""
    without_weights_as_inputs(path, output)
    chosen = optimization_level(level)
    session(
        output, "DEFAULT", graph_optimization_level=chosen, optimized_model_filepath=str(output)
    )


def random_inputs(path: Path, dims: Mapping[str, int]) -> dict[str, Any]:
    """Return an input of each name, the same each time."""
    import numpy as np

    draw, found = np.random.default_rng(0), {}
    for value in session(path, "DEFAULT").get_inputs():
        shape = [dims[x] if isinstance(x, str) else x for x in value.shape]
        if value.type == "tensor(bool)":
            found[value.name] = np.ones(shape, bool)
        else:
            found[value.name] = draw.standard_normal(shape).astype(np.float32)
    return found


def profiled(path: Path, order: str, feed: Mapping[str, Any], folder: Path) -> Path:
    """Run a model once and return the profile of the run."""
    name = tempfile.mktemp(prefix="profile", dir=folder)
    opened = session(path, order, enable_profiling=True, profile_file_prefix=name)
    opened.run(None, dict(feed))
    return Path(opened.end_profiling())


def measured(
    path: Path,
    order: str,
    feed: Mapping[str, Any],
    heap: Heap,
    *,
    reuse: bool = False,
    **options: Any,
) -> tuple[int, list[Any]]:
    """Return the most bytes that a second run holds in tensors and scratch, and its outputs."""
    opened = session(path, order, reuse=reuse, **options)
    opened.run(None, dict(feed))
    heap.reset()
    outputs = opened.run(None, dict(feed))
    return heap.peak, outputs
