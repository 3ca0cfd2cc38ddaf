"""The node tests of the onnx package as models that ONNX Runtime runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

Case = tuple[str, Any, dict[str, Any]]
"""Name, ModelProto and inputs by name."""
OPSET = 22
"""Operator set of random models; node tests of it and of the one before are taken."""


@cache
def node_cases() -> list[Case]:
    """Return the node tests whose inputs are tensors of numbers, all nodes with names."""
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


@cache
def single_cases() -> list[Case]:
    """Return the node tests of one node of the standard domain, at the operator sets used here."""
    return [
        case
        for case in node_cases()
        if len(case[1].graph.node) == 1
        and not case[1].functions
        and [(x.domain, x.version in (OPSET, OPSET - 1)) for x in case[1].opset_import]
        == [("", True)]
        and not any(a.g.node or a.graphs for a in case[1].graph.node[0].attribute)
    ]
