"""Bytes that a forward graph saves, where several saved tensors are parts of one storage."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import fx  # noqa: E402

from optsched.plugins.inductor.recompute.joint_graph import saved_bytes, waiting_bytes  # noqa: E402

SIZE = 4 * 6 * 4
"""Bytes of the product."""


def saving(*parts: Any) -> Any:
    """Return a forward graph whose only result is its loss, and which saves parts of a product."""
    graph, whole = fx.Graph(), torch.empty(4, 6)
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(4, 6)
    made = []
    for value in (torch.empty(()), *(part(whole) for part in parts)):
        node = graph.call_function(torch.relu, (x,))
        node.meta["val"] = value
        made.append(node)
    graph.output(tuple(made))
    module = fx.GraphModule({}, graph)
    return module, module


def test_parts_that_are_saved_apart_are_live_together() -> None:
    thirds = [lambda x, i=i: x[:, 2 * i : 2 * i + 2] for i in range(3)]
    assert waiting_bytes(saving(*thirds), 1) == SIZE
    assert waiting_bytes(saving(*thirds[:2]), 1) == SIZE * 2 // 3
    # At least one of them is there, be the others made of it.
    assert saved_bytes(saving(*thirds), 1) == SIZE // 3


def test_views_of_equal_elements_are_one_part() -> None:
    left = [lambda x: x[:, :2], lambda x: x[:, :2].unsqueeze(0)]
    assert waiting_bytes(saving(*left), 1) == SIZE // 3
    # Parts that overlap count at most as the storage.
    assert waiting_bytes(saving(lambda x: x, lambda x: x.t(), lambda x: x[:2]), 1) == SIZE
