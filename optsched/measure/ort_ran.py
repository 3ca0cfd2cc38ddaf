"""The ops that a session of ONNX Runtime ran, and the scratch that each of them took.

A session may change a model when it loads it, and kernels take scratch that no file shows. Both are
measured here. The session writes the model that it ran, and a profile with its order and shapes. In
a further session of that model a mark stands before each op: a copy of an input, whose size no
other block has. A block that is taken and returned between two marks is scratch of the op there.

Example: between two marks a kernel takes 640 bytes and 128, and returns the 640. It makes a result
of 128 bytes and holds 640 bytes of scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from optsched.errors import FormatError
from optsched.formats.format import Source
from optsched.formats.onnx.model import node_names, parse_model
from optsched.formats.onnx.read import read_as_it_is
from optsched.measure.blocks import BLOCK, Blocks
from optsched.model.graph import Graph
from optsched.model.liveness import running_by_op
from optsched.model.memory_model import MemoryModel

IN_ORDER: Final = {"execution_order": "PRIORITY_BASED", "enable_mem_reuse": False}
"""Settings with which a model runs in the order of its file."""
Run = Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
_AS_WRITTEN: Final = {
    **IN_ORDER,
    "graph_optimization_level": "ORT_DISABLE_ALL",
    "enable_profiling": True,
}
_MARK: Final = "optsched.mark"
_MARK_BYTES: Final = 1_009 * BLOCK
"""An odd number of blocks, which no buffer has by chance."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Ops that a session ran.

    Parameters
    ----------
    graph
        Graph of the model that ran, its ops in the order in which they ran, with sizes as the
        allocator rounds them up.
    scratch
        Bytes that each op held beside its operands and results.
    """

    graph: Graph
    scratch: tuple[int, ...]

    @property
    def held(self) -> int:
        """Most bytes of tensors and measured scratch live at once."""
        running = running_by_op(self.graph, range(len(self.graph.ops)))
        # Measured instead of estimated.
        known = [
            0 if op.workspace is None else self.graph.buffers[op.workspace].size
            for op in self.graph.ops
        ]
        return int((running - np.array(known) + np.array(self.scratch)).max(initial=0))


def what_ran(run: Run, asked: Mapping[str, Any], folder: str) -> Ran:
    """Return the ops that a session runs, with their scratch.

    `run` runs sessions as :func:`optsched.measure.onnxruntime.run_all` does. `FormatError` is
    raised if that cannot be measured.
    """
    ran, marked = Path(folder, "ran.onnx"), str(Path(folder, "marked.onnx"))
    settings = {**asked["settings"], "optimized_model_filepath": str(ran)}
    (first,) = run([{**asked, "settings": settings}])
    if "error" in first:
        raise FormatError(f"ONNX Runtime does not write what it runs: {first['error']}")
    # Written with its nodes in the order in which they run.
    model = parse_model(ran.read_bytes())
    for node, name in zip(model.graph.node, node_names(model.graph), strict=True):
        node.name = name
    data = model.SerializeToString()
    mark = _add_marks(model)
    Path(marked).write_bytes(model.SerializeToString())
    settings = {**_AS_WRITTEN, "profile_file_prefix": str(Path(folder, "profile"))}
    inputs = [*asked["inputs"], _mark_input(mark)]
    (second,) = run([{**asked, "path": marked, "settings": settings, "inputs": inputs}])
    if "error" in second:
        raise FormatError(f"ONNX Runtime does not run it with marks: {second['error']}")
    graph = read_as_it_is(Source(data), second["profile"])
    scratch = _scratch_between(Blocks(second["blocks"], second["steps"]), mark)
    if len(scratch) != len(graph.ops):
        raise FormatError("the ops that ran cannot be told apart")
    return Ran(MemoryModel(align=BLOCK).apply(graph), tuple(scratch))


def _add_marks(model: Any) -> int:
    """Put a mark before each node of a ModelProto, and one at the end; return a mark's bytes."""
    from onnx import TensorProto, helper

    nodes = [deepcopy(node) for node in model.graph.node]
    names = [f"{_MARK}.{i}" for i in range(len(nodes) + 1)]
    copies = [helper.make_node("Identity", [_MARK], [name], name) for name in names]
    del model.graph.node[:]
    model.graph.node.extend(x for pair in zip(copies, nodes, strict=False) for x in pair)
    model.graph.node.append(copies[-1])
    shape = [_MARK_BYTES // 4]
    model.graph.input.append(helper.make_tensor_value_info(_MARK, TensorProto.FLOAT, shape))
    for name in names:
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    return _MARK_BYTES


def _mark_input(size: int) -> dict[str, Any]:
    """Return the description of the input that marks are copies of."""
    shape = [size // 4]
    return {"name": _MARK, "type": "float32", "shape": shape, "value": 1, "fixed": False}


def _scratch_between(blocks: Blocks, mark: int) -> list[int]:
    """Return the bytes held between marks of a size beyond what stays and what was there."""
    taken: dict[int, int] = {}
    found: list[int] = []
    live = most = start = 0
    for step in blocks.steps:
        number = abs(step) - 1
        size = blocks.sizes[number]
        if size == mark:
            if step > 0:
                found.append(most - start - sum(taken.values()))
                taken, start, most = {}, live, live
            continue
        live += size if step > 0 else -size
        most = max(most, live)
        if step > 0:
            taken[number] = size
        else:
            taken.pop(number, None)
    # Before the first mark there are copies of weights.
    return found[1:]
