"""Facts of a joint graph: its loss, its calls, and reasons to leave its split to PyTorch.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import py_sym_types
from torch.multiprocessing.reductions import StorageWeakRef

from optsched.model.graph import Graph
from optsched.plugins.inductor.reading.support import KeptOrderError

_EFFECTS = ("with_effects", "auto_functionalized", "_c10d", "c10d", "triton_kernel_wrapper")
COLLECTIVES = ("_c10d_functional.", "_dtensor.")
"""Namespaces of the collectives that a plan may move, but must not repeat or exchange."""


Modules = tuple[GraphModule, GraphModule]
"""A forward and a backward graph."""


def computed(modules: Modules) -> list[str]:
    """Return the names of the calls of both graphs in order.

    The backward graph has inputs of the same names as the calls whose results are saved.
    """
    nodes = [node for module in modules for node in module.graph.nodes]
    return [node.name for node in nodes if node.op == "call_function"]


def size_ends(joint: GraphModule) -> dict[str, int]:
    """Return the upper ends of the symbolic sizes of a graph by symbol; empty if it has none.

    Raises
    ------
    KeptOrderError
        If a size has no upper end.
    """
    found: dict[str, int] = {}
    for node in joint.graph.nodes:
        value = node.meta.get("val")
        sizes = (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)
        for size in sizes:
            if isinstance(size, torch.SymInt):
                found |= {str(symbol): end for symbol, end in _ends(size, node.name).items()}
    return found


def _ends(size: torch.SymInt, name: str = "") -> dict[Any, int]:
    ranges, found = size.node.shape_env.var_to_range, {}
    for symbol in size.node.expr.free_symbols:
        end = ranges[symbol].upper if symbol in ranges else None
        # Without a range, the end is infinite, or the largest number that a size can have.
        if end is None or not end.is_Integer or end >= sys.maxsize // 2:
            raise KeptOrderError(
                f"node {name!r} has a symbolic size without an upper end: state it, as in "
                "torch._dynamo.mark_dynamic(x, 0, min=1, max=128)"
            )
        found[symbol] = int(end)
    return found


def is_size(node: Any) -> bool:
    """Return True for a node whose result is a symbolic number."""
    return isinstance(node, Node) and isinstance(node.meta.get("val"), py_sym_types)


def at_most(size: int | torch.SymInt) -> int:
    """Return a size at the upper ends of its symbols."""
    if isinstance(size, int):
        return size
    return int(size.node.expr.xreplace(_ends(size)))


def joint_digest(joint: GraphModule, how: Mapping[str, Any]) -> str:
    """Return a text that is equal for joint graphs of equal nodes, shapes and calls."""
    rows: list[Any] = [how.get("num_fwd_outputs"), how.get("static_lifetime_input_indices")]
    rows.append(_known_ends(joint))
    for node in joint.graph.nodes:
        value = node.meta.get("val")
        shape: Any = ()
        if isinstance(value, torch.Tensor):
            shape = (value.dtype, value.device, tuple(value.shape), tuple(value.stride()))
        rows.append((node.name, node.op, str(node.target), node.args, node.kwargs, shape))
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def _known_ends(joint: GraphModule) -> dict[str, int]:
    try:
        return size_ends(joint)
    except KeptOrderError:
        return {}


def is_on_cpu(joint: GraphModule) -> bool:
    """Return True if all inputs of a graph are on the CPU."""
    values = [node.meta.get("val") for node in joint.graph.find_nodes(op="placeholder")]
    return all(x.device.type == "cpu" for x in values if isinstance(x, torch.Tensor))


def is_collective(node: Node) -> bool:
    """Return True if a node communicates with other ranks in a way that a plan knows."""
    return str(node.target).startswith(COLLECTIVES)


def in_sequence(joint: GraphModule, graph: Graph) -> Graph:
    """Return the graph of a joint graph in which collectives keep their sequence."""
    names = [node.name for node in joint.graph.nodes if is_collective(node)]
    ops = [graph.op_ids[name] for name in names if name in graph.op_ids]
    return graph.with_control({v: (u,) for u, v in pairwise(ops)})


def storage_of(node: Any) -> StorageWeakRef | None:
    """Return the bytes that the result of a node lies in, if it is a tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return StorageWeakRef(value.untyped_storage()) if isinstance(value, torch.Tensor) else None


def saved_bytes(modules: Modules, outputs: int) -> int:
    """Return the bytes that a forward graph makes and saves: it ends with at least these live.

    `outputs` is the number of its outputs that are not saved.
    """
    inputs = modules[0].graph.find_nodes(op="placeholder")
    return made_bytes(modules[0].graph.output_node().args[0][outputs:], inputs)


def waiting_bytes(modules: Modules, outputs: int) -> int:
    """Return the bytes that are live for a backward call alone while it waits.

    The outputs are left out: the next region often saves them as well.
    """
    listed = modules[0].graph.output_node().args[0]
    given = [*modules[0].graph.find_nodes(op="placeholder"), *listed[:outputs]]
    return made_bytes(listed[outputs:], given, together=sum)


def returned_bytes(modules: Modules, outputs: int) -> int:
    """Return the bytes that a forward graph makes, returns and saves, such as logits of a loss."""
    inputs = modules[0].graph.find_nodes(op="placeholder")
    listed = modules[0].graph.output_node().args[0]
    returned = {storage_of(node) for node in listed[:outputs]}
    return made_bytes([x for x in listed[outputs:] if storage_of(x) in returned], inputs)


def held_bytes(modules: Modules, outputs: int, static: Sequence[int]) -> int:
    """Return the bytes of all tensors that a forward graph saves, without the model's."""
    given = modules[0].graph.find_nodes(op="placeholder")
    listed = modules[0].graph.output_node().args[0][outputs:]
    return made_bytes(listed, [given[i] for i in static], together=sum)


def saved_inputs(modules: Modules, outputs: int, static: Sequence[int]) -> dict[str, int]:
    """Return the bytes of inputs that a forward graph saves, by name, without the model's."""
    given = modules[0].graph.find_nodes(op="placeholder")
    held = {storage_of(given[i]) for i in static}
    listed = modules[0].graph.output_node().args[0][outputs:]
    found = {node.name: node for node in listed if node in given and storage_of(node) not in held}
    return {name: made_bytes([node], ()) for name, node in found.items()}


def made_bytes(
    nodes: Sequence[Any], inputs: Sequence[Any], together: Callable[[Iterable[int]], int] = max
) -> int:
    """Return the bytes of results, those of inputs left out.

    Of several parts of one storage at least the largest one is there. With `together=sum` all of
    them are, and at most the storage: the three parts of a product that are saved apart, say.
    """
    given = {storage_of(node) for node in inputs}
    found: dict[Any, dict[tuple[str, int], int]] = {}
    for node in nodes:
        at = storage_of(node)
        if at is not None and at not in given:
            value = node.meta["val"]
            # Of a tensor that is a part of its storage, a compiler may make this part alone.
            parts = value.untyped_storage().nbytes(), value.numel() * value.element_size()
            whole, part = map(at_most, parts)
            # A view of equal elements adds nothing.
            found.setdefault((at, whole), {})[str(value.storage_offset()), part] = min(whole, part)
    return sum(min(whole, together(parts.values())) for (_, whole), parts in found.items())


def require_known(joint: GraphModule) -> None:
    """Raise unless a plan may change how a joint graph is split.

    Raise `KeptOrderError` for effects, unknown collectives, graphs within, and
    symbolic sizes without an upper end.
    """
    size_ends(joint)
    for node in joint.graph.nodes:
        target = str(node.target)
        # An op with effects must run once. Known collectives run once, too, in their sequence.
        known = is_collective(node)
        if node.op == "call_function" and not known and any(word in target for word in _EFFECTS):
            raise KeptOrderError(f"node {node.name!r} ({target}) has effects or communicates")
        if node.op == "get_attr" and isinstance(getattr(joint, target, None), GraphModule):
            raise KeptOrderError(f"node {node.name!r} holds a graph of its own")


def forward_ends(joint: GraphModule, graph: Graph, outputs: int) -> list[str]:
    """Return the ops that make the forward outputs, and those that write inputs before the loss."""
    end = next(iter(joint.graph.find_nodes(op="output")))
    listed = torch.utils._pytree.tree_leaves(end.args)
    makers = dict.fromkeys(
        name
        # A node that only takes a member of a tuple has no op in the plan.
        for node in listed[:outputs]
        if isinstance(node, Node) and (name := _maker(node)) in graph.op_ids
    )
    tangents = {x for x in joint.graph.find_nodes(op="placeholder") if "tangents" in str(x.target)}
    # All that depends on a tangent belongs to the backward graph.
    after = users_of(joint, tangents)
    for op in graph.ops:
        if any(graph.buffers[b].mutates for b in op.writes):
            if next(x for x in joint.graph.nodes if x.name == op.name) in after:
                raise KeptOrderError(f"node {op.name!r} overwrites an input in the backward graph")
            makers[op.name] = None
    if not makers:
        raise KeptOrderError("no forward output is computed")
    return list(makers)


def users_of(joint: GraphModule, nodes: Iterable[Node]) -> set[Node]:
    """Return some nodes and all that depend on them."""
    found = {*nodes}
    for node in joint.graph.nodes:
        if any(x in found for x in node.all_input_nodes):
            found.add(node)
    return found


def _maker(node: Node) -> str:
    """Return the name of the op whose result a node is a part of."""
    import operator

    while node.target is operator.getitem:
        node = node.args[0]
    return str(node.name)
