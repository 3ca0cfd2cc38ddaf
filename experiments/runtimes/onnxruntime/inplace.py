"""Which inputs ONNX Runtime's CPU kernels overwrite with their output, found by counting blocks.

A probe is one op between transpositions, which never write in place. All inputs but one are graph
outputs as well, so nobody may overwrite them; if the op then takes one block less than when all
are, it has written into that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from optsched.formats.onnx.rules import overwritten_inputs
from optsched.runtime.heap import Heap

_SIDE: Final = (8, 8)
_IMAGE: Final = (2, 4, 8, 8)
_OPSET: Final = 21
_TYPES: Final = ("FLOAT", "INT64", "BOOL")
_MICROSOFT: Final = "com.microsoft"

SPECIAL: Final[
    tuple[tuple[str, str, tuple[tuple[str, Sequence[int]], ...], dict[str, Any]], ...]
] = (
    ("", "Cast", (("FLOAT", _SIDE),), {"to": 6}),
    ("", "Gemm", (("FLOAT", _SIDE),) * 3, {}),
    ("", "Conv", (("FLOAT", _IMAGE), ("FLOAT", (4, 4, 3, 3))), {"pads": [1] * 4}),
    ("", "BatchNormalization", (("FLOAT", _IMAGE), *((("FLOAT", (4,)),) * 4)), {}),
    ("", "InstanceNormalization", (("FLOAT", _IMAGE), *((("FLOAT", (4,)),) * 2)), {}),
    ("", "LayerNormalization", (("FLOAT", _SIDE), ("FLOAT", (8,))), {}),
    ("", "Concat", (("FLOAT", _SIDE), ("FLOAT", _SIDE)), {"axis": 0}),
    ("", "ScatterND", (("FLOAT", _SIDE), ("INT64", (8, 2)), ("FLOAT", (8,))), {}),
    ("", "Mod", (("FLOAT", _SIDE), ("FLOAT", _SIDE)), {"fmod": 1}),
    (
        _MICROSOFT,
        "FusedConv",
        (("FLOAT", _IMAGE), ("FLOAT", (4, 4, 3, 3)), ("FLOAT", (4,)), ("FLOAT", _IMAGE)),
        {"pads": [1] * 4, "activation": "Relu"},
    ),
    (_MICROSOFT, "FusedGemm", (("FLOAT", _SIDE),) * 3, {"activation": "Relu"}),
    (_MICROSOFT, "BiasGelu", (("FLOAT", _SIDE), ("FLOAT", (8,))), {}),
    (_MICROSOFT, "FastGelu", (("FLOAT", _SIDE),), {}),
    (_MICROSOFT, "QuickGelu", (("FLOAT", _SIDE),), {}),
    (_MICROSOFT, "Trilu", (("FLOAT", _SIDE),), {}),
)
"""Ops that want more than square matrices: domain, type, element types and shapes, attributes."""


def blocks(heap: Heap, node: Any, inputs: Sequence[tuple[str, Sequence[int]]], free: int) -> int:
    """Return how many blocks a run takes in which only input number `free` may be overwritten."""
    import onnxruntime
    from onnx import TensorProto, helper

    kinds = [TensorProto.DataType.Value(kind) for kind, _ in inputs]
    turned = [
        helper.make_node("Transpose", [f"x{i}"], [f"a{i}"], perm=list(range(len(shape)))[::-1])
        for i, (_, shape) in enumerate(inputs)
    ]
    outputs = [f"a{i}" for i in range(len(inputs)) if i != free] + ["y"]
    graph = helper.make_graph(
        [*turned, node, helper.make_node("Identity", ["b"], ["y"])],
        "probe",
        [
            helper.make_tensor_value_info(f"x{i}", kind, list(shape)[::-1])
            for i, (kind, (_, shape)) in enumerate(zip(kinds, inputs, strict=True))
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.enable_cpu_mem_arena = settings.enable_mem_pattern = settings.enable_mem_reuse = False
    settings.intra_op_num_threads, settings.log_severity_level = 1, 4
    opened = onnxruntime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    feed = {
        f"x{i}": np.zeros(list(shape)[::-1], helper.tensor_dtype_to_np_dtype(kind))
        for i, (kind, (_, shape)) in enumerate(zip(kinds, inputs, strict=True))
    }
    opened.run(None, feed)
    heap.reset()
    opened.run(None, feed)
    return len(heap.blocks)


def probe(
    heap: Heap, domain: str, kind: str, inputs: Sequence[tuple[str, Sequence[int]]], attributes: Any
) -> tuple[Any, tuple[int, ...]]:
    """Return a node of an op and the numbers of the inputs that its kernel overwrites."""
    from onnx import helper

    names = [f"a{i}" for i in range(len(inputs))]
    node = helper.make_node(kind, names, ["b"], domain=domain, **attributes)
    most = blocks(heap, node, inputs, free=-1)
    free = range(len(inputs))
    return node, tuple(i for i in free if blocks(heap, node, inputs, i) < most)


def square_probe(heap: Heap, schema: Any) -> tuple[Any, tuple[int, ...]] | None:
    """Probe an op of the standard on square matrices of types that it takes; None if of none."""
    most = min(max(schema.min_input, min(2, schema.max_input)), 3)
    for count in range(max(1, most), max(1, schema.min_input) - 1, -1):
        for kinds in product(_TYPES, repeat=count):
            try:
                return probe(heap, "", schema.name, [(kind, _SIDE) for kind in kinds], {})
            except Exception:
                # ONNX Runtime refuses what the op does not take, each in its own way.
                continue
    return None


def main() -> None:
    """Print every op that was probed, and where the table of the project says something else.

    Raises
    ------
    SystemExit
        If the table differs from the measurements.
    """
    import onnx

    heap = Heap()
    newest = {s.name: s for s in onnx.defs.get_all_schemas() if not s.domain and not s.deprecated}
    found = [square_probe(heap, schema) for _, schema in sorted(newest.items())]
    known = [row for row in found if row is not None]
    known += [probe(heap, *case) for case in SPECIAL]
    wrong = []
    for node, measured in known:
        says = overwritten_inputs(node)
        # A probe has an output of its own type and shape where the table is general.
        if set(measured) != set(says):
            wrong.append(f"{node.op_type}: measured {measured}, table {says}")
    writers = sorted({node.op_type for node, measured in known if measured})
    others = sorted({node.op_type for node, _ in known} - set(writers))
    print(f"in place ({len(writers)}): {', '.join(writers)}")
    print(f"not in place ({len(others)}): {', '.join(others)}")
    if wrong:
        raise SystemExit("the table says otherwise: " + "; ".join(wrong))
