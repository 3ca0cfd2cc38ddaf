"""An exported program of PyTorch, lowered by ExecuTorch with its planner and with ours.

Held bytes are those by which the heap grows when the runtime loads the program, that is the arenas
of its methods. Objects of a method, and scratch that kernels allocate, are not part of them.

This module imports executorch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.runtime import Runtime, Verification

from optsched.errors import UsageError
from optsched.measure.result import Held, Measurement
from optsched.measure.torch_child import digest, load_program, weight_bytes
from optsched.plugins import explain, forget
from optsched.plugins.executorch import memory_planning

LOADS = 3
"""The first load also makes what the runtime keeps for all programs."""
HEADER, PAGE = 16, 4096
"""Most bytes that glibc adds to a block for its header, and the multiple that large ones take."""


class _MallInfo(ctypes.Structure):
    """Fields of `mallinfo2` of the C library, in bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def run(path: str, seconds: float) -> Measurement:
    """Lower and run a program twice.

    Raise `UsageError` if the C library does not count heap blocks.
    """
    _require_counts()
    program = load_program(path)
    before, outputs = _run(program, ExecutorchBackendConfig())
    forget()
    planning = memory_planning(time_limit=seconds, min_gain=0)
    after, again = _run(program, ExecutorchBackendConfig(memory_planning_pass=planning))
    return Measurement(
        Path(path).stem,
        f"ExecuTorch {version('executorch')}",
        before,
        after,
        same_outputs=outputs == again,
        weights=weight_bytes(program),
        notes=(explain(), "scratch of kernels is not measured"),
    )


def _run(program: Any, settings: Any) -> tuple[Held, str]:
    """Lower and run a program; return its bytes, and a digest of its outputs."""
    edge = to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    # Each run lowers from the exported program: a planner writes its offsets into the graph.
    lowered = edge.to_executorch(settings)
    sizes = lowered.exported_program().graph_module.meta["non_const_buffer_sizes"]
    runtime, held = Runtime.get(), 0
    for _ in range(LOADS):
        # Dead programs of the last turn would otherwise be freed between the two readings.
        gc.collect()
        begin = _heap_bytes()
        loaded = runtime.load_program(lowered.buffer, verification=Verification.Minimal)
        held = _heap_bytes() - begin
        (name,) = loaded.method_names
        arguments, _ = program.example_inputs
        method = loaded.load_method(name)
        # Outputs lie in the arena, which is gone when the method is.
        outputs = [x.clone() for x in method.execute([*arguments]) if isinstance(x, torch.Tensor)]
        found = digest(outputs)
        del loaded, method, outputs
    most = sum(size > 0 for size in sizes) * (HEADER + PAGE - 1)
    return Held.beyond(sum(sizes), held, "headers of heap blocks", most), found


def _require_counts() -> None:
    """Raise an error unless the C library counts heap blocks."""
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"):
        raise UsageError("heap blocks are counted by mallinfo2 of glibc 2.33, which is missing")


def _heap_bytes() -> int:
    """Return the bytes of all heap blocks in use."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _MallInfo
    found = library.mallinfo2()
    # Small blocks come from the heap, large ones from maps of their own: both count.
    return int(found.uordblks + found.hblkhd)
