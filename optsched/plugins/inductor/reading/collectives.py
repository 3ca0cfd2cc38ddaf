"""Order that collectives keep in a graph that Inductor compiles.

A *launch* starts a collective, such as `all_gather`, and a *wait* ends it: what runs between the
two hides the time of the communication. So an order is chosen only among those in which the
launches keep their sequence, as all processes must make the same calls, and in which what Inductor
runs between a launch and its wait stays between them.

Example: Inductor runs `launch, matmul, wait, add`. No other order runs `matmul` before the launch
or after the wait; `add` may run anywhere that its operands allow.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from torch._inductor import config, ir
from torch._inductor.utils import is_collective, is_wait
from torch._inductor.virtualized import V

from optsched.plugins.inductor.reading.guards import storage_of
from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts

_WAITED, _DONE = "_c10d_functional", "_dtensor"
"""Namespaces of the collectives that make their results: with a wait until which their operands
live, and done at their end, such as the exchange of shards when a sharded dimension changes."""


def require_known_collectives(nodes: Sequence[Any]) -> None:
    """Raise an error for communication whose memory or order is not known.

    Raise `KeptOrderError` for symmetric memory, collectives of other libraries, and a pass of
    Inductor that moves collectives after the plan is made.
    """
    moves = config.reorder_for_compute_comm_overlap
    for inner in (inner for node in nodes for inner in node.get_nodes()):
        name, target = inner.get_name(), inner.node
        space = str(getattr(getattr(target, "op_overload", None), "namespace", ""))
        layout = None if target is None else target.get_output_spec()
        if isinstance(layout, ir.CommBufferLayout) or space == "symm_mem":
            raise KeptOrderError(f"node {name!r} uses symmetric memory, which all processes share")
        if not (is_collective(target) or is_wait(target)):
            continue
        if space not in (_WAITED, _DONE):
            raise KeptOrderError(f"node {name!r} is a collective of {space or 'another library'}")
        if moves:
            raise KeptOrderError(
                f"reorder_for_compute_comm_overlap is on: it moves collective {name!r} later"
            )


def keep_windows(facts: WrapperFacts, nodes: Sequence[Any], own: Order) -> WrapperFacts:
    """Return the facts of a graph whose orders keep what collectives need.

    `facts`: facts of the graph. `nodes`: the scheduler's nodes in the order of the hook. `own`: the
    order in which Inductor would run them.
    """
    after: list[set[int]] = [set(node.predecessors) for node in facts.nodes]
    step = {v: i for i, v in enumerate(own)}
    starts = _launches(nodes)
    for u, v in pairwise(sorted(starts, key=step.__getitem__)):
        after[v].add(u)
    ends = dict(_waits(nodes, starts))
    for wait, launch in ends.items():
        first = 0 if launch is None else step[launch] + 1
        for v in own[first : step[wait]]:
            after[wait].add(v)
            if launch is not None:
                after[v].add(launch)
    # The caller waits for the others.
    for launch in {v for v in starts if not _is_done(nodes[v])} - set(ends.values()):
        for v in own[step[launch] + 1 :]:
            after[v].add(launch)
    kept = zip(facts.nodes, after, strict=True)
    return replace(facts, nodes=tuple(replace(node, predecessors=frozenset(x)) for node, x in kept))


def _is_done(node: Any) -> bool:
    """Return True for a collective that is done at its end."""
    launches = (inner.node for inner in node.get_nodes() if is_collective(inner.node))
    return all(launch.op_overload.namespace == _DONE for launch in launches)


def _launches(nodes: Sequence[Any]) -> dict[int, set[str]]:
    """Return the storages that each launch writes, by the position of its node."""
    found: dict[int, set[str]] = {}
    for v, node in enumerate(nodes):
        for inner in node.get_nodes():
            if is_collective(inner.node):
                names = {inner.get_name(), inner.node.get_name(), *inner.node.get_mutation_names()}
                names.update(inner.get_buffer_names())
                found.setdefault(v, set()).update(storage_of(name) for name in names)
    return found


def _waits(nodes: Sequence[Any], launches: dict[int, set[str]]) -> Iterator[tuple[int, int | None]]:
    """Yield the position of each wait and of its launch; None for a launch of another graph."""
    position = {op.get_operation_name(): i for i, op in enumerate(V.graph.operations)}
    lowered = {v: position[nodes[v].get_nodes()[0].get_name()] for v in launches}
    for v, node in enumerate(nodes):
        for inner in node.get_nodes():
            if not is_wait(inner.node):
                continue
            operand = inner.node.inputs[0]
            if isinstance(operand, ir.MultiOutput):
                operand = operand.inputs[0]
            storage, at = storage_of(operand.get_name()), position[inner.get_name()]
            # Of several collectives in one storage, the last one before the wait.
            begun = [u for u, written in launches.items() if storage in written and lowered[u] < at]
            yield v, max(begun, key=lowered.__getitem__, default=None)
