"""Results of `ai.onnx.ml` have the sizes that ONNX Runtime gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason="ONNX Runtime is not installed: make test-frameworks"
)

from onnx import TensorProto, helper  # noqa: E402

from optsched.formats.onnx.learned import DOMAIN  # noqa: E402
from tests.frameworks.onnx.build import model, node, read, sizes, value, weight  # noqa: E402

TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "post_transform": "NONE",
}
LEAVES: dict[str, Any] = {
    "treeids": [0, 0],
    "nodeids": [1, 2],
    "ids": [0, 1],
    "weights": [1.0, 1.0],
}
TARGETS = {f"target_{name}": values for name, values in LEAVES.items()}
CLASSES = {f"class_{name}": values for name, values in LEAVES.items()}
LINEAR = {"coefficients": [1.0] * 9, "intercepts": [0.0] * 3, "post_transform": "NONE"}
SVM: dict[str, Any] = {
    "coefficients": [1.0, 1.0],
    "kernel_params": [0.1, 0.0, 3.0],
    "kernel_type": "RBF",
    "n_supports": 2,
    "post_transform": "NONE",
    "rho": [0.0],
    "support_vectors": [1.0] * 6,
}
CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("Scaler", 1, {"offset": [0.0] * 3, "scale": [1.0] * 3}),
    ("Normalizer", 1, {"norm": "L2"}),
    ("Imputer", 1, {"imputed_value_floats": [0.0], "replaced_value_float": 7.0}),
    ("FeatureVectorizer", 1, {"inputdimensions": [3]}),
    ("LinearRegressor", 1, {**LINEAR, "targets": 3}),
    ("SVMRegressor", 1, SVM),
    ("TreeEnsembleRegressor", 1, {**TREE, **TARGETS, "n_targets": 2}),
    ("TreeEnsembleClassifier", 2, {**TREE, **CLASSES, "classlabels_int64s": [4, 5]}),
    ("TreeEnsembleClassifier", 2, {**TREE, **CLASSES, "classlabels_strings": ["a", "b"]}),
    ("LinearClassifier", 2, {**LINEAR, "classlabels_ints": [1, 2, 3]}),
]


@pytest.mark.parametrize(("kind", "results", "attributes"), CASES, ids=lambda x: str(x)[:22])
@pytest.mark.parametrize("samples", [1, 5])
def test_a_result_is_as_large_as_in_the_runtime(
    kind: str, results: int, attributes: dict[str, Any], samples: int
) -> None:
    names = ["y", "z"][:results]
    made = learned(node(kind, "x", ",".join(names), domain=DOMAIN, **attributes), names, samples)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    ran = session.run(None, {"x": np.ones((samples, 3), np.float32)})
    # Texts of a string tensor lie outside of it.
    held = [32 * x.size if x.dtype == object else x.nbytes for x in map(np.asarray, ran)]
    found = sizes(read(made))
    assert [found[name] for name in names] == held


def test_maps_of_scores_are_as_large_as_the_scores() -> None:
    tree = node("TreeEnsembleClassifier", "x", "y,z", domain=DOMAIN, **CASES[7][2])
    maps = node("ZipMap", "z", "m", domain=DOMAIN, classlabels_int64s=[4, 5])
    made = learned(tree, ["y", "m"], 5, maps)
    found = sizes(read(made))
    assert found["m"] == found["z"] == 40


def learned(first: Any, outputs: list[str], samples: int, *more: Any) -> Any:
    """Return a model whose outputs have no shape in the file."""
    bare = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([first, *more], "net", [value("x", (samples, 3))], bare)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 8
    # The type of a label is that of the classes; without shapes, results are for inference to size.
    is_text = any(x.name == "classlabels_strings" for x in first.attribute)
    label = TensorProto.STRING if is_text else TensorProto.INT64
    for output in (x for x in made.graph.output if x.name != "m"):
        is_label = output.name == "y" and first.op_type.endswith("Classifier")
        output.type.tensor_type.elem_type = label if is_label else TensorProto.FLOAT
    return made


@pytest.mark.parametrize("kind", ["GroupNormalization", "MeanVarianceNormalization"])
def test_normalizations_that_onnx_does_not_infer_keep_the_shape(kind: str) -> None:
    more = {"num_groups": 2} if kind.startswith("Group") else {}
    reads = "a,s,s" if more else "a"
    norm = node(kind, reads, "b", "norm", **more)
    made = model(
        [node("Exp", "x", "a", "e"), norm, node("Neg", "b", "y", "neg")],
        [value("x", [2, 4, 3, 3])],
        [value("y", None)],
        [weight("s", 4)],
        opset=21,
    )
    assert sizes(read(made))["b"] == 2 * 4 * 3 * 3 * 4
