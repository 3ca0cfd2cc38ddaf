"""Shapes of the results of `ai.onnx.ml`, the domain of classical machine learning.

The onnx package infers them for some of these ops only. The others make a row per sample.

References
----------
https://onnx.ai/onnx/operators/index.html#ai-onnx-ml
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from optsched.formats.onnx.fold import run_graphs
from optsched.formats.onnx.model import attribute_of, sizes_of

DOMAIN: Final = "ai.onnx.ml"
_FLOAT, _INT64, _STRING = 1, 7, 8
Shape = tuple[int, ...]
Results = Sequence[tuple[int, Shape]]
"""Element type and shape of each result."""


def learned_results(graph: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new results of known shape of such ops in a GraphProto, by name.

    `found` are the values of known shape.
    """
    from onnx import helper

    new: dict[str, Any] = {}
    for each in run_graphs(graph):
        for node in each.node:
            rule = _RULES.get(node.op_type) if node.domain == DOMAIN else None
            if rule is None or not node.input or node.input[0] not in found:
                continue
            kind = found[node.input[0]].type
            made = rule(node, kind.tensor_type.elem_type, tuple(sizes_of(kind)))
            for name, result in zip(node.output, made, strict=False):
                if name and name not in found:
                    new[name] = helper.make_tensor_value_info(name, *result)
    return new


def _same(node: Any, kind: int, shape: Shape) -> Results:
    return [(kind, shape)]


def _float(node: Any, kind: int, shape: Shape) -> Results:
    return [(_FLOAT, shape)]


def _features(node: Any, kind: int, shape: Shape) -> Results:
    return [(_FLOAT, (_samples(shape), sum(attribute_of(node, "inputdimensions", "ints", ()))))]


def _regressor(node: Any, kind: int, shape: Shape) -> Results:
    names = {"LinearRegressor": "targets", "TreeEnsembleRegressor": "n_targets"}
    targets = attribute_of(node, names.get(node.op_type, ""), "i", 1)
    return [(_FLOAT, (_samples(shape), targets))]


def _classifier(node: Any, kind: int, shape: Shape) -> Results:
    numbers = attribute_of(node, "classlabels_int64s", "ints", ())
    texts = attribute_of(node, "classlabels_strings", "strings", ())
    samples = _samples(shape)
    labels = (_INT64 if numbers else _STRING, (samples,))
    return [labels, (_FLOAT, (samples, len(numbers or texts)))]


def _samples(shape: Shape) -> int:
    # A vector is one sample.
    return shape[0] if len(shape) > 1 else 1


_RULES: Final[dict[str, Callable[[Any, int, Shape], Results]]] = {
    "FeatureVectorizer": _features,
    "Imputer": _same,
    "LinearRegressor": _regressor,
    "Normalizer": _float,
    "SVMRegressor": _regressor,
    "Scaler": _float,
    "TreeEnsembleClassifier": _classifier,
    "TreeEnsembleRegressor": _regressor,
}
"""Rule by op."""
