"""Tests for graphs that the plugin does not support, whose order it leaves to Inductor.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import config, ir
from torch._inductor.utils import is_collective, is_wait
from torch._inductor.virtualized import V

from optsched.errors import OptschedError, UsageError

TESTED_TORCH = "2.13."
"""The rules of the wrapper were read from, and measured with, these versions of torch."""

_HOLDS_GRAPHS = (ir.Conditional, ir.WhileLoop, ir.InvokeSubgraph)


class KeptOrderError(OptschedError):
    """Raised with the reason for which the order of a graph is left to Inductor."""


class UnknownTorchError(OptschedError):
    """Raised for a version of torch whose rules are unknown."""


def require_support(nodes: Sequence[Any], time_limit: float) -> None:
    """Raise an error if a graph is not supported.

    Raises
    ------
    UnknownTorchError
        If the version of torch was not tested.
    UsageError
        If the time limit is 0.
    KeptOrderError
        If the graph has a feature that the rules do not cover.
    """
    if not torch.__version__.startswith(TESTED_TORCH):
        raise UnknownTorchError(f"torch {torch.__version__} is not one of {TESTED_TORCH}x")
    if not time_limit > 0:
        raise UsageError(f"time_limit must be positive, got {time_limit}")
    _require_settings()
    for node in nodes:
        _require_node(node)


def _require_settings() -> None:
    if V.graph.cpp_wrapper:
        raise KeptOrderError("the wrapper is written in C++")
    if config.cpu_backend != "cpp":
        raise KeptOrderError(f"the CPU backend is {config.cpu_backend}")
    if config.memory_planning and V.graph.is_inference:
        raise KeptOrderError("memory_planning is on")
    if config.combo_kernels:
        raise KeptOrderError("combo_kernels is on: nodes are joined later")


def _require_node(node: Any) -> None:
    name, device = node.get_name(), node.get_device()
    if device is not None and device.type != "cpu":
        raise KeptOrderError(f"node {name!r} runs on {device}: only the CPU's wrapper is known")
    for inner in node.get_nodes():
        if isinstance(inner.node, _HOLDS_GRAPHS):
            raise KeptOrderError(f"node {name!r} holds graphs of its own")
        if is_collective(inner.node) or is_wait(inner.node):
            raise KeptOrderError(f"node {name!r} is a collective")
        if inner.is_template():
            raise KeptOrderError(f"node {name!r} is a template")
        if inner.node is not None and inner.node.get_unbacked_symbol_defs():
            raise KeptOrderError(f"node {name!r} gives sizes that are known only at run time")
