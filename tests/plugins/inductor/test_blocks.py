"""Branches and loops: graphs inside of nodes, which have no kernels when the hook is called."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch._inductor import config  # noqa: E402
from torch._inductor.graph import SubgraphLowering  # noqa: E402
from torch._inductor.virtualized import V  # noqa: E402

from optsched import plugins  # noqa: E402
from optsched.plugins.inductor import enabled, scheduler_pass  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402

WEIGHT = torch.randn(8, 8)


def branches(x: Any) -> Any:
    def long(x: Any) -> Any:
        return ((x @ WEIGHT).sin() @ WEIGHT).cos()

    return torch.cond(x.sum() > 0, long, lambda x: x @ WEIGHT, ((x @ WEIGHT).relu(),)).sum()


def loop(x: Any) -> Any:
    def body(i: Any, x: Any) -> tuple[Any, Any]:
        return i + 1, (x @ WEIGHT).sin() @ WEIGHT

    return while_loop(lambda i, x: i < 3, body, (torch.zeros((), dtype=torch.int64), x))[1].sum()


def _inner_graphs(nodes: Sequence[Any]) -> Iterator[Any]:
    for node in nodes:
        for part in node.get_nodes():
            if part.node is not None:
                yield from (block.graph for block in part.node.get_subgraphs())


@pytest.mark.parametrize("function", [branches, loop], ids=["torch.cond", "a loop"])
def test_blocks_are_scheduled_after_the_graph_that_holds_them(
    function: Callable[[Any], Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """So their kernels and bytes are unknown at the hook; Inductor's own order stays, by name."""
    asked: list[tuple[bool, int, int]] = []
    real = scheduler_pass.SchedulerPass.__call__

    def call(self: Any, nodes: list[Any]) -> list[Any]:
        blocks = list(_inner_graphs(nodes))
        scheduled = sum(block.scheduler is not None for block in blocks)
        asked.append((isinstance(V.graph, SubgraphLowering), len(blocks), scheduled))
        ordered = real(self, nodes)
        assert ordered == nodes
        return ordered

    monkeypatch.setattr(scheduler_pass.SchedulerPass, "__call__", call)
    torch._dynamo.reset()
    plugins.forget()
    with (
        caplog.at_level(logging.INFO, logger="optsched"),
        no_kernels(),
        config.patch(NO_CACHE),
        enabled(time_limit=1, min_gain=0),
        torch.no_grad(),
    ):
        torch.compile(function)(torch.randn(4, 8))
    # The graph is asked about first, with two blocks that have no scheduler, then each block.
    assert asked == [(False, 2, 0), (True, 0, 0), (True, 0, 0)]
    (record,) = plugins.records()
    assert record.planned is None
    assert "holds graphs of its own, which Inductor schedules after this one" in record.reason
    assert [r.message for r in caplog.records] == [
        f"{record.name}: order left to Inductor: {record.reason}"
    ]
