"""Facts about the wrapper that Inductor will write for a graph, read from its scheduler.

They must be read where Inductor calls a pass after fusion: `V.graph` has the scheduler then, and
`torch._inductor.memory.prepare_planning_info` must have been called for the nodes.

Example: a graph of two fused nodes gives two :class:`WrapperNode` objects. The first makes `buf0`;
the second reads it for the last time and makes `buf1` of the same size. Its facts list `buf0` as a
buffer that `buf1` may overwrite.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import torch
from torch._inductor import ir, memory
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.scheduler import NopKernelSchedulerNode
from torch._inductor.virtualized import V

from optsched.plugins.inductor.reading.guards import find_draws, find_guards, settle_conflicts
from optsched.plugins.inductor.reading.inplace import find_candidates, find_local_buffers, find_rows
from optsched.plugins.inductor.reading.ownership import Ownership
from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.reading.triton import add_triton_rules, runs_on_gpu
from optsched.plugins.inductor.sizes.kernels import KernelMemory, Path, ReturnedTensor, path_of
from optsched.plugins.inductor.sizes.storages import find_root, reuse_key, storage_bytes
from optsched.plugins.inductor.wrapper.facts import (
    Allocation,
    Definition,
    EstimatedBuffer,
    ExternCall,
    Member,
    OwnedInput,
    Returned,
    WrapperBuffer,
    WrapperFacts,
    WrapperNode,
)

_NO_BYTES = (ir.NoneLayout, ir.MultiOutputLayout)
_NOTHING_NEW = (ir.NoneLayout, ir.MutationLayoutSHOULDREMOVE)


def read_facts(
    nodes: Sequence[Any],
    owned: Ownership,
    kernels: Mapping[str, KernelMemory],
) -> WrapperFacts:
    """Read the facts of a graph.

    Raise `KeptOrderError` if a kernel may overwrite an input that something outside of the graph
    holds.

    `nodes`: the scheduler's fused nodes, in the order of the hook. `owned`: inputs that the graph
    owns. `kernels`: memory of the extern kernels, by the name of the buffer that each makes.
    """
    outputs = frozenset(V.graph.get_output_names())
    read = _read_nodes(nodes, kernels)
    # Before anything else is read: a graph that is not understood is left to Inductor.
    _require_owned(read, owned.expected)
    facts = WrapperFacts(
        nodes=read,
        buffers={
            b.get_name(): _read_buffer(b, kernels) for node in nodes for b in node.get_outputs()
        },
        inputs=_find_released(owned.expected, outputs),
        extreme_inputs=tuple(_find_released(o, outputs) for o in owned.extremes),
        outputs=outputs,
        local=frozenset().union(*(find_local_buffers(node) for node in nodes)),
        graph_inputs=frozenset(V.graph.graph_inputs),
        estimate=_read_estimate(nodes, outputs),
        max_arguments=CppScheduling.MAX_FUSED_KERNEL_ARGS_NUM,
        misaligned=frozenset(V.graph.unaligned_buffers),
        tuples=not V.graph.cpp_wrapper,
    )
    # Rules for C++ kernels are the base; those of Triton change some facts.
    return add_triton_rules(facts, nodes) if runs_on_gpu(nodes) else facts


def _find_released(owned: Sequence[OwnedInput], outputs: frozenset[str]) -> tuple[OwnedInput, ...]:
    """Return the inputs that are freed when the call ends, if not before; outputs are returned."""
    kept = {given.storage for given in owned if given.name in outputs}
    return tuple(given for given in owned if given.storage not in kept)


def _require_owned(nodes: Sequence[WrapperNode], owned: Sequence[OwnedInput]) -> None:
    """Raise if a kernel may overwrite an input whose bytes are not counted."""
    counted = {given.name for given in owned}
    for definition in (d for node in nodes for d in node.definitions):
        for candidate in definition.candidates:
            if candidate.source in V.graph.graph_inputs and candidate.source not in counted:
                raise KeptOrderError(
                    f"input {candidate.source!r} is donated, but also held outside"
                )


def _read_nodes(
    nodes: Sequence[Any], kernels: Mapping[str, KernelMemory]
) -> tuple[WrapperNode, ...]:
    # By inner name, because dependencies name inner nodes.
    position = {n.get_name(): v for v, fused in enumerate(nodes) for n in fused.get_nodes()}
    index = {node: v for v, node in enumerate(nodes)}
    real = V.graph.scheduler.mutation_real_name
    used = [
        # The name as it was before a mutation and the name after it are one storage.
        frozenset(real.get(name, name) for name in node.used_or_aliased_buffer_names())
        for node in nodes
    ]
    known = [frozenset(index[u] for u in node.mpi_node.pred_nodes) for node in nodes]
    needed = find_guards(nodes)
    # Two sets of guards: with draws for our orders, without them to judge Inductor's own.
    drawn = [own | draws for own, draws in zip(needed, find_draws(nodes), strict=True)]
    guards = settle_conflicts(drawn, known)
    apart = settle_conflicts(needed, known)
    members: dict[str, list[Any]] = {}
    # Members of a tuple are nodes of their own; the call that returns it must know them.
    for node in nodes:
        if isinstance(node.node, ir.MultiOutput):
            members.setdefault(node.node.inputs[0].get_name(), []).append(node.node)
    return tuple(
        WrapperNode(
            name=node.get_name(),
            used=used[v],
            definitions=_read_definitions(node, position),
            outputs=tuple(b.get_name() for b in node.get_outputs()),
            predecessors=known[v] | guards[v],
            extern=_read_extern(node, members, kernels),
            on_device=node.get_device() is not None,
            arguments=_read_arguments(node),
            kind=_kind(node),
            # Edges needed only for random numbers, without those of mutations and dependencies.
            draws_after=guards[v] - apart[v] - known[v],
        )
        for v, node in enumerate(nodes)
    )


def _kind(node: Any) -> str:
    target = node.node
    if target is None:
        return type(node).__name__
    return str(getattr(target, "python_kernel_name", None) or type(target).__name__)


def _read_definitions(fused: Any, position: Mapping[str, int]) -> tuple[Definition, ...]:
    rows = find_rows(fused)
    return tuple(
        Definition(output.get_name(), find_candidates(fused, inner, output, position, rows))
        for inner in fused.get_nodes()
        for output in inner.get_outputs()
        # Removed buffers were fused away, so the wrapper has no line for them.
        if output.node.should_allocate() and output.get_name() not in V.graph.removed_buffers
    )


def _read_arguments(node: Any) -> frozenset[str]:
    if node.is_extern() or isinstance(node, NopKernelSchedulerNode):
        return frozenset()
    return frozenset(d.name for d in node.read_writes.reads_and_writes())


def _read_extern(
    node: Any, members: Mapping[str, Sequence[Any]], kernels: Mapping[str, KernelMemory]
) -> ExternCall | None:
    if not (node.is_extern() or node.is_template()):
        return None
    target = node.node
    name = target.get_name()
    memory = kernels.get(name, KernelMemory())
    scratch = memory.workspace
    layout = target.get_output_spec()
    if isinstance(target, ir.MultiOutput):
        return ExternCall(Returned.MEMBER, name, parent=target.inputs[0].get_name())
    # Members that are read come first, then those that only the tuple holds.
    if isinstance(layout, ir.MultiOutputLayout):
        read = members.get(name, ())
        found = tuple(_read_member(m, target, memory) for m in read)
        found += tuple(_find_unread(target, memory, {path_of(m) for m in read}))
        return ExternCall(Returned.TUPLE, name, members=found, workspace=scratch)
    if target.get_mutation_names() or isinstance(layout, _NOTHING_NEW):
        return ExternCall(Returned.NOTHING, name, workspace=scratch)
    if aliases := _viewed(target, memory.returned.get(()), _aliases(target)):
        return ExternCall(Returned.ALIAS, name, aliases=aliases, workspace=scratch)
    return ExternCall(Returned.TENSOR, name, workspace=scratch)


def _read_member(member: Any, kernel: Any, memory: KernelMemory) -> Member:
    """Describe a member of a kernel's result: as it was measured, else by the kernel's schema."""
    returned = memory.returned.get(path_of(member))
    size = storage_bytes(member) if returned is None else returned.place.storage
    return Member(member.get_name(), size, _viewed(kernel, returned, _aliases(kernel)))


def _find_unread(kernel: Any, memory: KernelMemory, read: Set[Path]) -> Iterator[Member]:
    """Yield the members of a tuple that no node reads; the tuple holds them as well."""
    for path, returned in memory.returned.items():
        if path not in read:
            name = f"{kernel.get_name()}{list(path)}"
            yield Member(name, returned.place.storage, _viewed(kernel, returned, ()))


def _viewed(
    kernel: Any, returned: ReturnedTensor | None, declared: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the operands whose storage holds a tensor that a kernel returns."""
    if returned is None:
        return declared
    return () if returned.operand is None else (kernel.inputs[returned.operand].get_name(),)


def _aliases(target: Any) -> tuple[str, ...]:
    return tuple(target.get_inputs_that_alias_output())


def _read_buffer(output: Any, kernels: Mapping[str, KernelMemory]) -> WrapperBuffer:
    node, name = output.node, output.get_name()
    returned = kernels.get(name, KernelMemory()).returned.get(())
    layout = node.get_output_spec()
    allocation, view_of = _allocation(node)
    kept = name in V.graph.never_reuse_buffers or name in V.graph.constants
    return WrapperBuffer(
        name=name,
        size=0 if isinstance(layout, _NO_BYTES) else _size(node, returned),
        allocation=allocation,
        view_of=view_of,
        freed=output.can_free() and not kept,
        reuse_key=_reuse_key(node),
    )


def _size(node: Any, returned: ReturnedTensor | None) -> int:
    """Return the bytes of a buffer; a kernel that allocates it may allocate more than it fills."""
    if returned is None or node.should_allocate():
        return storage_bytes(node)
    return returned.place.storage


def _allocation(node: Any) -> tuple[Allocation, str | None]:
    made_by_kernel = isinstance(node.get_defining_op(), (ir.ExternKernelAlloc, ir.MultiOutput))
    layout = node.get_output_spec()
    if isinstance(layout, _NOTHING_NEW) or (made_by_kernel and not node.should_allocate()):
        return Allocation.NONE, None
    if isinstance(layout, ir.NonOwningLayout):
        return Allocation.VIEW, find_root(layout.view).get_name()
    return Allocation.OWN, None


def _reuse_key(node: Any) -> Hashable:
    """Return the key that must be equal for reuse, or None if nothing can be reused."""
    layout = node.get_output_spec()
    if isinstance(layout, (*_NOTHING_NEW, ir.MultiOutputLayout)) or _aliases(node):
        return None
    return reuse_key(node)


def _read_estimate(nodes: Sequence[Any], outputs: Iterable[str]) -> tuple[EstimatedBuffer, ...]:
    index = {node: v for v, node in enumerate(nodes)}
    kept = set(outputs)
    graph_inputs = torch.utils._ordered_set.OrderedSet(V.graph.graph_inputs)
    freeable = memory.get_freeable_input_buf(nodes, graph_inputs)
    found = [
        EstimatedBuffer(
            producer=None,
            allocated=given.mpi_buffer.size_free,
            freed=given.mpi_buffer.size_free,
            readers=tuple(index[n] for n in given.mpi_buffer.succ_nodes),
            kept=name in kept,
            read_sizes=_read_sizes(name, given.mpi_buffer.succ_nodes_for_ordering, index),
        )
        for name, given in freeable.items()
    ]
    found += [
        EstimatedBuffer(
            producer=v,
            allocated=output.mpi_buffer.size_alloc,
            freed=output.mpi_buffer.size_free,
            readers=tuple(index[n] for n in output.mpi_buffer.succ_nodes),
            kept=output.get_name() in kept,
        )
        for v, node in enumerate(nodes)
        for output in node.get_outputs()
    ]
    return tuple(found)


def _read_sizes(name: str, readers: Iterable[Any], index: Mapping[Any, int]) -> dict[int, int]:
    return {
        index[node]: V.graph.get_dep_size_hint(
            # The last one, as in Inductor.
            [d for d in node.read_writes.reads if d.name == name][-1]
        )
        for node in readers
    }
