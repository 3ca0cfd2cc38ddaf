"""Snapshot of Inductor's scheduler right before it reorders for peak memory, as plain data.

Example: two fused nodes, where the second reads what the first writes, become two records with
their buffers and sizes and with the dependency of the second on the first.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from torch._inductor import memory
from torch._inductor.virtualized import V

from optsched.plugins.inductor.sizes.storages import input_bytes

_Node = Any
_Buffer = Any


def take_snapshot(
    nodes: Sequence[_Node],
    name_to_buf: Mapping[str, _Buffer],
    name_to_fused_node: Mapping[str, _Node],
    graph_inputs: Iterable[str],
    graph_outputs: Iterable[str],
) -> dict[str, Any]:
    """Describe a scheduler graph.

    Takes what `torch._inductor.memory.reorder_for_peak_memory` takes, and has to be called where
    Inductor calls that: `V.graph` is asked for sizes and for the scheduler.

    It is the simulator file as torch writes it (`nodes`, `buffers`) and the key `extra`.
    """
    baseline, freeable = memory.prepare_planning_info(
        nodes, name_to_buf, name_to_fused_node, graph_inputs, graph_outputs
    )
    # The tests that Inductor itself makes before it reorders.
    memory.validate_graph_acyclic(nodes)
    memory.validate_unique_buffer_names(nodes, name_to_buf, freeable)
    document = _export(nodes, freeable, name_to_fused_node, graph_inputs, graph_outputs)
    orders = _orders(nodes, freeable, name_to_buf, graph_outputs)
    peaks = {
        method: memory.estimate_peak_memory(order, freeable, graph_outputs)[0]
        for method, order in orders.items()
    }
    position = {node: i for i, node in enumerate(nodes)}
    document["extra"] = {
        # Kept for captured files, which are read years later.
        "torch": torch.__version__,
        "peaks": {"baseline": baseline, **peaks},
        "orders": {
            "baseline": list(range(len(nodes))),
            **{method: [position[n] for n in order] for method, order in orders.items()},
        },
        # `min` keeps the first of equals, as Inductor does: the baseline wins ties.
        "chosen": min({"baseline": baseline, **peaks}.items(), key=lambda item: item[1])[0],
        "graph_outputs": list(graph_outputs),
        **_relations(nodes, freeable, position),
        **_node_facts(nodes),
        **_buffer_facts(nodes, name_to_buf),
        "nonfreeable_inputs": {b: input_bytes(b) for b in graph_inputs if b not in freeable},
        "freeable_true_nbytes": {b: input_bytes(b) for b in freeable},
    }
    return document


def _export(*args: object) -> dict[str, Any]:
    """Let torch write its simulator file, and catch the text on its way to the trace log."""
    caught: list[str] = []

    def trace(*_: object, payload_fn: Callable[[], str], **__: object) -> None:
        caught.append(payload_fn())

    # Torch writes the file to its trace log only, so the log is replaced for a moment.
    with mock.patch.object(torch._logging, "trace_structured", trace):
        memory.export_graph_for_simulator(*args)
    document: dict[str, Any] = json.loads(caught[-1])
    return document


def _orders(
    nodes: Sequence[_Node],
    freeable: Mapping[str, _Buffer],
    name_to_buf: Mapping[str, _Buffer],
    graph_outputs: Iterable[str],
) -> dict[str, list[_Node]]:
    return {
        "lpmf": memory.topological_sort_lpmf(nodes, freeable, name_to_buf, graph_outputs),
        "bfs": memory.topological_sort_bfs(nodes),
        "dfs": memory.topological_sort_dfs(nodes),
    }


def _relations(
    nodes: Sequence[_Node], freeable: Mapping[str, _Buffer], position: Mapping[_Node, int]
) -> dict[str, Any]:
    """Return the dependencies, and the readers that keep each buffer alive, by node position."""
    buffers = [*_outputs(nodes), *freeable.values()]
    readers = {b.get_name(): _positions(b.mpi_buffer.succ_nodes, position) for b in buffers}
    waiting = {
        b.get_name(): _positions(b.mpi_buffer.succ_nodes_for_ordering, position) for b in buffers
    }
    return {
        "pred_nodes": [_positions(n.mpi_node.pred_nodes, position) for n in nodes],
        "unmet_dep_names": [sorted({d.name for d in n.unmet_dependencies}) for n in nodes],
        "succ": readers,
        "succ_for_ordering": {b: ps for b, ps in waiting.items() if ps != readers[b]},
    }


def _node_facts(nodes: Sequence[_Node]) -> dict[str, Any]:
    return {
        "kinds": [_kind(n) for n in nodes],
        "n_inner": [len(n.get_nodes()) for n in nodes],
    }


def _buffer_facts(nodes: Sequence[_Node], name_to_buf: Mapping[str, _Buffer]) -> dict[str, Any]:
    outputs = {b.get_name(): b for b in _outputs(nodes)}
    layouts = {name: type(b.node.layout).__name__ for name, b in outputs.items()}
    return {
        # The order of this map matters: lifetimes are handed on in reverse of it.
        "mutation_real_name": dict(V.graph.scheduler.mutation_real_name),
        "aliases": {name: list(b.get_aliases()) for name, b in outputs.items() if b.get_aliases()},
        "layouts": {name: layout for name, layout in layouts.items() if layout != "FixedLayout"},
        "removed_buffers": len(V.graph.removed_buffers),
        "names_in_name_to_buf_not_in_nodes": sorted(set(name_to_buf) - set(outputs)),
    }


def _outputs(nodes: Iterable[_Node]) -> list[_Buffer]:
    return [buffer for node in nodes for buffer in node.get_outputs()]


def _positions(nodes: Iterable[_Node], position: Mapping[_Node, int]) -> list[int]:
    return sorted(position[n] for n in nodes)


def _kind(node: _Node) -> str:
    scheduler_kind = type(node).__name__
    return scheduler_kind if node.node is None else f"{scheduler_kind}:{type(node.node).__name__}"
