"""Buffers that a generated kernel may overwrite, and buffers that exist only inside a kernel.

Inductor decides both while it generates code. What does not depend on the order of the nodes is
worked out here beforehand.

Example: `y = relu(x)`, and `x` has no later use: the kernel may write `y` into the bytes of `x`. In
`y = x + x.flip(0)` it may not, since the kernel reads `x` by two indices.

References
----------
torch/_inductor/scheduler.py, `SchedulerNode.decide_inplace_update`; codegen/common.py,
`Kernel.remove_kernel_local_buffers`; codegen/cpp.py, `CppScheduling.codegen_outer_loop_node`
(torch 2.13.0).

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch._inductor import config, ir
from torch._inductor.codegen.common import BackendFeature, DataTypePropagation
from torch._inductor.codegen.cpp import OuterLoopFusedSchedulerNode, TilingSelect
from torch._inductor.codegen.wrapper import can_match_buffer_size
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch._inductor.dependencies import MemoryDep, WeakDep
from torch._inductor.scheduler import (
    BaseSchedulerNode,
    NopKernelSchedulerNode,
    OutputNode,
    SchedulerNode,
)
from torch._inductor.virtualized import V

from optsched.plugins.inductor.wrapper.facts import InplaceCandidate

_NEVER_OVERWRITTEN = (
    ir.NoneLayout,
    ir.MultiOutputLayout,
    ir.MutationLayoutSHOULDREMOVE,
    ir.CommBufferLayout,
)


def find_candidates(
    fused: Any, inner: Any, output: Any, position: Mapping[str, int], rows: set[str]
) -> tuple[InplaceCandidate, ...]:
    """Return the buffers that an output of an inner node may overwrite, in the order of codegen.

    `fused`, `inner`, `output`: the fused node, the node inside it, and the scheduler's buffer.
    `position`: position of the fused node, by the name of each op inside it. `rows`: buffers
    of `fused` that its outer loop keeps as a row inside the kernel.
    """
    # The conditions of this function are those of `decide_inplace_update` in Inductor's scheduler,
    # one by one.
    if not isinstance(inner, SchedulerNode) or not config.inplace_buffers:
        return ()
    if not V.graph.has_feature(inner.get_device(), BackendFeature.INPLACE_BUFFERS):
        return ()
    node, name = output.node, output.get_name()
    if name in V.graph.removed_buffers or name in rows or not node.should_allocate():
        return ()
    if node.get_inputs_that_alias_output() or node.get_mutation_names():
        return ()
    if isinstance(node.get_output_spec(), ir.CommBufferLayout):
        return ()
    # Names of the whole kernel: a reader within it does not count as a later one.
    ops = {n.get_name() for n in fused.get_nodes()}
    found = []
    for read in inner.read_writes.reads:
        scheduler = V.graph.scheduler
        source = scheduler.name_to_donated_buffer.get(read.name)
        source = source or scheduler.name_to_buf.get(read.name)
        if source is None or source.node is None or source.get_name() in rows:
            continue
        # The sizes must agree, as one tensor object becomes the other.
        if _may_be_overwritten(source, inner, ops) and can_match_buffer_size(source.node, node):
            found.append(InplaceCandidate(source.get_name(), _others(source, inner, ops, position)))
    return tuple(found)


def _may_be_overwritten(source: Any, inner: Any, ops: set[str]) -> bool:
    if not _is_at_our_disposal(source.get_name()):
        return False
    if isinstance(source.node.get_output_spec(), _NEVER_OVERWRITTEN):
        return False
    # A node without a kernel, such as a view of a constant, has no bytes of its own to give.
    maker = source.defining_op
    if isinstance(maker, NopKernelSchedulerNode):
        return False
    made_by_call = maker is not None and isinstance(maker.node, (ir.FallbackKernel, ir.MultiOutput))
    if made_by_call and source.node.get_inputs_that_alias_output():
        return False
    return _used_last_by(source, inner, ops) and _accessed_alike(source, ops)


def _is_at_our_disposal(name: str) -> bool:
    graph = V.graph
    if name in graph.graph_inputs:
        return isinstance(graph.graph_inputs_original[name], ir.DonatedBuffer)
    taken = (graph.removed_buffers, graph.constants, graph.torchbind_constants)
    return not any(name in names for names in (*taken, graph.never_reuse_buffers))


def _used_last_by(source: Any, inner: Any, ops: set[str]) -> bool:
    """Return True if `inner` is the last user in its kernel and the graph does not return it."""
    own = [user for user in source.users if user.node is inner]
    # `can_inplace` is the scheduler's word on this one use.
    if not own or not own[0].can_inplace:
        return False
    for user in source.users:
        if isinstance(user.node, OutputNode):
            return False
        same_kernel = user.node is not inner and user.node.get_name() in ops
        if same_kernel and user.node.get_name() not in inner.ancestors:
            return False
    return True


def _accessed_alike(source: Any, ops: set[str]) -> bool:
    """Return True if the kernel accesses `source` by one index only, so elements stay apart."""
    accesses = set()
    for user in source.users:
        if isinstance(user.node, BaseSchedulerNode) and user.node.get_name() in ops:
            dependencies = user.node.read_writes.reads_and_writes()
            accesses |= {d for d in dependencies if d.name == source.get_name()}
    return len(accesses) <= 1


def _others(source: Any, inner: Any, ops: set[str], position: Mapping[str, int]) -> frozenset[int]:
    names = {user.node.get_name() for user in source.users} - ops - set(inner.ancestors)
    # All other readers must have run; that depends on the order, so their positions are listed.
    return frozenset(position[name] for name in names - set(V.graph.removed_operations))


def find_local_buffers(fused: Any) -> set[str]:
    """Return the buffers of a fused node that have no use outside its kernel.

    They get no bytes, unless the kernel writes one of them in place of a buffer that does.
    """
    if isinstance(fused, OuterLoopFusedSchedulerNode):
        inner = [find_local_buffers(node) for node in fused.get_outer_nodes()]
        return set().union(*inner) | find_kept_rows(fused)
    if fused.is_extern() or isinstance(fused, NopKernelSchedulerNode):
        return set()
    ops = {node.get_name(): node for node in fused.get_nodes()}
    return {
        buffer.get_name()
        for node in ops.values()
        for buffer in node.get_outputs()
        if _is_local(buffer, node, ops)
    }


def _is_local(buffer: Any, node: Any, ops: Mapping[str, Any]) -> bool:
    name, scheduler = buffer.get_name(), V.graph.scheduler
    if name in scheduler.mutation_real_name or name in scheduler.mutation_renames:
        return False
    if buffer.get_mutations():
        return False
    if not all(user.is_weak or user.node.get_name() in ops for user in buffer.users):
        return False
    readers = [ops[u.node.get_name()] for u in buffer.users if u.node.get_name() in ops]
    found = {d for reader in readers for d in reader.read_writes.reads if d.name == name}
    # A weak dependency says that its node comes later: it reads nothing.
    reads = {d for d in found if not isinstance(d, WeakDep)}
    writes = [d for d in node.read_writes.writes if d.name == name]
    written = {d.normalize().index for d in writes if isinstance(d, MemoryDep)}
    # A value that is read where it was written stays in a register.
    return all(isinstance(d, MemoryDep) and d.normalize().index in written for d in reads)


def find_kept_rows(fused: Any) -> set[str]:
    """Return the buffers that a kernel with a common outer loop holds one row at a time."""
    rows = find_rows(fused)
    return rows if rows and _keeps_loop(fused) else set()


def find_rows(fused: Any) -> set[str]:
    """Return the buffers that need a row only if the kernel keeps its common outer loop.

    No other buffer is written in their bytes, also where the kernel does not keep the loop.
    """
    if not isinstance(fused, OuterLoopFusedSchedulerNode):
        return set()
    depth = fused.outer_loop_fusion_depth
    if not all(len(_loops(node)) == depth + 1 for node in fused.get_outer_nodes()):
        return set()
    nodes = list(fused.get_nodes())
    return {
        node.get_outputs()[0].get_name()
        for node in nodes
        if not node.is_reduction() and len(node.get_outputs()) == 1 and _is_row(node, nodes)
    }


def _keeps_loop(fused: Any) -> bool:
    """Return True if all parts of a node are tiled alike in their common outer loop.

    Inductor else writes loops of their own for them, between which whole buffers are passed.
    """
    if not pick_vec_isa():
        return True
    depth, tilings = fused.outer_loop_fusion_depth, set()
    for outer in fused.get_outer_nodes():
        nodes, count = outer.get_nodes(), len(_loops(outer))
        for node in nodes:
            DataTypePropagation.propagate_scheduler_node(node)
        chosen = TilingSelect().select_tiling([x._body for x in nodes], [x.group[1] for x in nodes])
        tilings.add(
            tuple((at % count, f) for f, at in zip(*chosen[:2], strict=True) if at % count < depth)
        )
    return len(tilings) == 1


def _loops(outer: Any) -> tuple[Any, ...]:
    # The node with a reduction has all loops of the kernel.
    _, (group, reduction) = max(outer.get_nodes(), key=lambda node: int(node.is_reduction())).group
    return (*group, *reduction)


def _is_row(node: Any, nodes: Sequence[Any]) -> bool:
    """Return True if nodes of this kernel write and read the buffer of a node contiguously."""
    buffer = node.get_outputs()[0]
    if not all(user.node in nodes for user in buffer.users):
        return False
    if not buffer.node.get_layout().is_contiguous():
        return False
    # The index of element (i, j, k) of a contiguous buffer, built from the innermost loop out.
    index, stride = 0, 1
    for variable, size in reversed(node._body.var_ranges.items()):
        index += stride * variable
        stride *= size
    name = buffer.get_name()
    if node._body.get_write_expr(name) != index:
        return False
    return all(
        isinstance(user.node, SchedulerNode) and user.node._body.get_read_expr(name) == index
        for user in buffer.users
    )
