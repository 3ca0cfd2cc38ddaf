"""Process that runs sessions of ONNX Runtime and counts their blocks.

Its argument is a JSON file, or the number of a pipe: in that case files are named on standard
input, and each is answered by a line in the pipe, so that the runtime is loaded once.

The file lists runs: path of the model, settings of the session, and inputs by name with element
type, shape and value. The answer on standard output lists the blocks of each run and the digest of
its outputs. If the first run fails, all are repeated with 0 as the value of integers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any


def main(given: str) -> None:
    """Run all sessions of a JSON file, and print what they held as a last line of JSON."""
    from optsched.runtime.heap import Heap

    heap = Heap()
    if not given.isdigit():
        # On a line of its own: ONNX Runtime prints there that it tries once more.
        print(f"\n{json.dumps(_run_file(heap, given))}")
        return
    with open(int(given), "w", encoding="utf-8") as pipe:
        for line in sys.stdin:
            found = _run_file(heap, line.rstrip("\n"))
            # Blocks of large models fill a pipe.
            short = [{k: run[k] for k in ("held", "error") if k in run} for run in found]
            print(json.dumps(short), file=pipe, flush=True)


def _run_file(heap: Any, path: str) -> list[dict[str, Any]]:
    runs = json.loads(Path(path).read_text("utf-8"))
    found = [_run(heap, run) for run in runs]
    if "error" in found[0]:
        # Integers are often indices, and a tensor with one row has no index 1.
        again = [_run(heap, {**run, "inputs": with_zeros(run["inputs"])}) for run in runs]
        if "error" not in again[0]:
            found = [{**each, "zeros": True} for each in again]
    return found


def with_zeros(described: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return described inputs with 0 as the value of integers."""
    return [{**each, "value": each["value"] if each["fixed"] else 0} for each in described]


def open_session(path: str, settings: Mapping[str, Any]) -> Any:
    """Open a model on one thread without arena; `settings` are attributes of the options."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # One thread: several would allocate scratch each.
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    # An arena takes powers of two, and keeps them.
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    kinds = {
        "execution_order": onnxruntime.ExecutionOrder,
        "graph_optimization_level": onnxruntime.GraphOptimizationLevel,
    }
    for name, value in settings.items():
        setattr(options, name, getattr(kinds[name], value) if name in kinds else value)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _run(heap: Any, run: Mapping[str, Any]) -> dict[str, Any]:
    return run_session(heap, run, make_inputs(run["inputs"]))


def run_session(heap: Any, run: Mapping[str, Any], feed: Mapping[str, Any]) -> dict[str, Any]:
    """Run a session with these inputs; return its blocks, or the error under `error`."""
    import numpy as np

    try:
        session = open_session(run["path"], run["settings"])
        # A first run fills caches that later runs keep.
        session.run(None, feed)
        heap.reset()
        outputs = session.run(None, feed)
        profile = session.end_profiling() if "profile_file_prefix" in run["settings"] else ""
    except Exception as error:
        # ONNX Runtime has classes of its own for models that it does not run.
        return {"error": str(error).strip().splitlines()[0][:300]}
    found = {"zeros": False, "held": heap.peak, "blocks": heap.blocks, "steps": heap.steps}
    found["profile"] = profile
    digest = sha256()
    for value in outputs:
        is_array = isinstance(value, np.ndarray) and value.dtype != object
        # Objects, such as strings, have no bytes to compare.
        digest.update(value.tobytes() if is_array else repr(value).encode())
    return {**found, "outputs": digest.hexdigest()}


def make_inputs(described: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return inputs that are the same each time: random floats, ones, or the given value."""
    import numpy as np

    # A fixed seed, so that both runs have the same inputs.
    draw, found = np.random.default_rng(0), {}
    for value in described:
        kind, shape = value["type"], value["shape"]
        if kind == "string":
            found[value["name"]] = np.full(shape, "a", dtype=object)
        elif kind.startswith(("float", "double", "bfloat")):
            found[value["name"]] = draw.standard_normal(shape).astype(kind)
        else:
            found[value["name"]] = np.full(shape, value["value"], dtype=kind)
    return found


if __name__ == "__main__":
    main(sys.argv[1])
