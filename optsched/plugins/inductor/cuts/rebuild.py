"""Fused nodes of Inductor's scheduler rebuilt from some of their parts.

A group of one part is the part itself; several are a `FusedSchedulerNode`. Parts of several nodes
under a common outer loop are put under such a loop again. Within a group, parts keep the sequence
that fusion gave them.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from torch._inductor.codegen.cpp import OuterLoopFusedSchedulerNode
from torch._inductor.scheduler import FusedSchedulerNode
from torch._inductor.virtualized import V

from optsched.model.fused import Group
from optsched.plugins.inductor.cuts.parts import FusedParts
from optsched.plugins.inductor.reading.planning import holders, prepare


def rebuilt(parts: FusedParts, groups: Sequence[Group]) -> list[Any]:
    """Return the scheduler's nodes of all groups, in the order in which they run."""
    fused, made = parts.fused, list[Any]()
    for group in groups:
        k = fused.node_of.get(group[0])
        if k is None:
            made += parts.nodes[group[0]]
        elif set(group) == set(fused.nodes[k]):
            made.append(parts.origin[k])
        else:
            wanted = {part for v in group for part in parts.nodes[v]}
            made.append(_join(parts.origin[k], wanted))
    return made


def use_nodes(nodes: Sequence[Any]) -> None:
    """Tell the scheduler which node holds each op."""
    known: dict[str, Any] = V.graph.scheduler.name_to_fused_node
    known.update(holders(nodes))


def restore_nodes(nodes: Sequence[Any]) -> None:
    """Let scheduler and planning information describe nodes again, after others were tried."""
    prepare(nodes)
    use_nodes(nodes)


def _join(node: Any, wanted: Collection[Any]) -> Any:
    """Return a node of some parts of a fused node."""
    if type(node) is not OuterLoopFusedSchedulerNode:
        return _fused([part for part in node.get_nodes() if part in wanted])
    pieces = []
    for outer in node.get_outer_nodes():
        inside = [part for part in outer.get_nodes() if part in wanted]
        if inside:
            whole = len(inside) == len(outer.get_nodes())
            pieces.append(outer if whole else _fused(inside))
    if len(pieces) == 1:
        return pieces[0]
    return OuterLoopFusedSchedulerNode(V.graph.scheduler, pieces, node.outer_loop_fusion_depth)


def _fused(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else FusedSchedulerNode(V.graph.scheduler, list(parts))
