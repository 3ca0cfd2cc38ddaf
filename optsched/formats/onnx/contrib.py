"""Contributed ops of ONNX Runtime, whose results have the shapes of a standard op's results.

The onnx package infers no shapes for ops outside the standard, and for some inside. Optimized and
quantized models are full of ops of the domain `com.microsoft` that only fuse or quantize standard
ops, so that for shape inference the standard op may stand in their place.

References
----------
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import Any, Final

from optsched.formats.onnx.model import graphs_in

_DOMAIN: Final = "com.microsoft"
_INTEGER: Final = 2
"""`INT` in `AttributeProto.AttributeType`."""
_SAME: Final = "Identity"
_LIKE_INPUT: Final = ("GroupNormalization", "MeanVarianceNormalization")
"""Standard ops whose shapes the onnx package does not infer: those of their first operand."""
STANDARD: Final[dict[str, tuple[str, int]]] = {
    **dict.fromkeys(("BiasGelu", "FastGelu", "Gelu", "QuickGelu", "QLinearLeakyRelu"), (_SAME, 1)),
    **dict.fromkeys(("QLinearSigmoid", "QLinearSoftmax", "BiasAdd"), (_SAME, 1)),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), (_SAME, 1)),
    "DynamicQuantizeLSTM": ("LSTM", 3),
    "DynamicQuantizeMatMul": ("MatMul", 2),
    "MatMulIntegerToFloat": ("MatMulInteger", 2),
    "FusedConv": ("Conv", 3),
    "FusedGemm": ("Gemm", 3),
}
"""Standard op with results of the same shapes, and the number of operands that it reads, by op."""


def stand_in(graph: Any) -> None:
    """Replace contributed ops by standard ones with equal shapes in a GraphProto, in place.

    Defaults that inference mistakes are written out. Only results that the standard op has keep
    their names; the model is for inference only.
    """
    for node in (x for each in graphs_in(graph) for x in each.node):
        known = STANDARD.get(node.op_type) if node.domain == _DOMAIN else None
        if node.op_type in _LIKE_INPUT and node.domain in ("", "ai.onnx"):
            known = (_SAME, 1)
        # Operands beyond those of the standard op are scales, zero points or biases.
        if known is not None:
            node.domain, (node.op_type, count) = "", known
            del node.input[count:]
            if node.op_type == _SAME:
                # Further results have other shapes.
                del node.output[1:]
                del node.attribute[:]
        if node.op_type == "STFT" and all(x.name != "onesided" for x in node.attribute):
            # The default is 1; inference takes it for 0, and doubles the result.
            node.attribute.add(name="onesided", i=1, type=_INTEGER)
