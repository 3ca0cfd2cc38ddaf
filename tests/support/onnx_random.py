"""Random ONNX models that ONNX Runtime runs, and the node tests of the onnx package."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

Case = tuple[str, Any, dict[str, Any]]
"""Name, ModelProto and inputs by name."""


@cache
def node_cases() -> list[Case]:
    """Return the node tests whose inputs are tensors, all nodes with names."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return list(_usable(found))


def _usable(found: Any) -> Iterator[Case]:
    for case in found:
        if not case.data_sets:
            continue
        inputs = case.data_sets[0][0]
        names = [value.name for value in case.model.graph.input]
        # Texts are copied when they are given to a session.
        kinds = [getattr(x, "dtype", np.dtype(object)).kind for x in inputs]
        if not set(kinds) <= set("biufcV"):
            continue
        for number, node in enumerate(case.model.graph.node):
            node.name = node.name or f"{node.op_type}_{number}"
        yield case.name, case.model, dict(zip(names, map(np.asarray, inputs), strict=False))


def random_model(seed: int) -> Case:
    raise NotImplementedError
