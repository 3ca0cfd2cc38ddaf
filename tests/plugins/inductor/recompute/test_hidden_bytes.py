"""Bytes that only a lowered step shows, in the graph of the recompute planner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from optsched.check.runs import check_runs
from optsched.errors import PlanError
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from optsched.plugins.inductor.recompute.hidden_bytes import (
    HiddenBytes,
    read_copies,
    read_workspaces,
    with_hidden,
)
from optsched.plugins.inductor.sizes.kernels import KernelMemory

BACKWARD = object()
"""Stands for the overload of an operator."""


def step() -> Graph:
    """Return a step: conv(x, w), loss, conv_backward(gradient, w), and a view of w."""
    buffers = (
        Buffer("x", 10, input=InputPolicy.EXCLUDED),
        Buffer("w", 20, input=InputPolicy.EXCLUDED),
        Buffer("y", 8),
        Buffer("loss", 1),
        Buffer("dw", 20, output=OutputPolicy.LIVE),
        Buffer("w_t", 0, alias_of=1),
    )
    ops = (
        Op("t", reads=(1,), writes=(5,)),
        Op("conv", reads=(0, 1), writes=(2,), cost=5),
        Op("loss", reads=(2,), writes=(3,), cost=1),
        Op("conv_backward", reads=(3, 5), writes=(4,), cost=9),
    )
    return Graph("step", ops, buffers)


def test_workspaces_and_copies_count_in_the_planned_peak() -> None:
    plain = step()
    assert check_runs(plain, (0, 1, 2, 3)).peak == 21
    graph = with_hidden(plain, HiddenBytes({"conv_backward": 30, "gone": 7}, {"w": 20}))
    assert [op.name for op in graph.ops] == [*(op.name for op in plain.ops), "w copy"]
    # The loss, the gradient, the copy that was saved, and the workspace.
    assert check_runs(graph, (4, 0, 1, 2, 3)).peak == 1 + 20 + 20 + 30
    with pytest.raises(PlanError):
        check_runs(graph, (0, 1, 2, 3))
    # A view is still one: it does not read the copy.
    assert graph.ops[0] == plain.ops[0]


def test_nothing_hidden_changes_nothing() -> None:
    assert with_hidden(step(), HiddenBytes({}, {})) == step()


def kernel(name: str, origin: str | None, *origins: str) -> Any:
    """Return a scheduler's node of an extern kernel, with the calls that it stems from."""
    nodes = [SimpleNamespace(name=x, target=BACKWARD if "backward" in x else None) for x in origins]
    own = None if origin is None else SimpleNamespace(name=origin)
    target = SimpleNamespace(
        get_name=lambda: name,
        get_origin_node=lambda: own,
        get_origins=lambda: nodes,
        op_overload=BACKWARD,
    )
    return SimpleNamespace(is_extern=lambda: True, node=target)


def test_workspaces_have_the_names_of_ops_also_where_these_run_again() -> None:
    nodes = [
        kernel("buf0", "conv_1_again_2"),
        kernel("buf1", "conv_1"),
        kernel("buf2", None, "mul", "backward_again"),
        kernel("buf3", "mm"),
        SimpleNamespace(is_extern=lambda: False, node=None),
    ]
    kernels = {f"buf{i}": KernelMemory(size) for i, size in enumerate((5, 7, 9, 0))}
    assert read_workspaces(nodes, kernels) == {"conv_1": 7, "backward": 9}


def test_an_input_that_the_forward_graph_returns_as_a_buffer_is_a_copy() -> None:
    buffers = {"buf0": SimpleNamespace(name="buf0", size=12, view_of=None)}
    facts: Any = SimpleNamespace(buffers=buffers, worst={})
    outputs = [SimpleNamespace(get_name=lambda x=x: x) for x in ("buf1", "primals_1", "buf0")]
    assert read_copies(facts, outputs, ["", "primals_1", "primals_2"]) == {"primals_2": 12}
    # Of a symbolic size, the bytes at its upper end count.
    facts.worst["buf0"] = 48
    assert read_copies(facts, outputs, ["", "primals_1", "primals_2"]) == {"primals_2": 48}
