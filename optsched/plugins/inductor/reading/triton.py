"""Rules of the wrapper for kernels that Triton compiles, on a GPU.

They differ from those for C++ kernels in four ways:

1. Each kernel is called at once, so dead buffers are freed after each kernel.
2. A scan along a long axis (`cumsum`) has a workspace of bytes.
3. Reductions along both axes of a tensor may share a kernel (`FusedMixOrderReductions`). Partial
   sums go to a workspace, whose size depends on the number of multiprocessors of the GPU; the
   wrapper makes the final sums of it. The nodes that would have made these sums vanish.
4. A reduction over a long axis is a series of loops. Elements that one loop writes and a later one
   reads do not stay in registers, so they have a buffer even if no other kernel uses them.

Example: after kernel `k1`, `buf0` has no reader left. On the CPU the wrapper may free it only after
the next extern kernel; here it is freed at once, before `k2` allocates.

References
----------
torch/_inductor/codegen/simd.py, `_codegen_mix_order_reduction`, `generate_node_schedule`;
codegen/triton_split_scan.py, `scan`; codegen/common.py, `CSEProxy.load` (torch 2.13.0).

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._inductor import config, ir
from torch._inductor.codegen.common import WorkspaceArg, WorkspaceZeroMode
from torch._inductor.codegen.simd_kernel_features import (
    DisableReduction,
    EnableReduction,
    SIMDKernelFeatures,
)
from torch._inductor.codegen.triton import upcast_compute_type
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.runtime.runtime_utils import last_power_of_2
from torch._inductor.scheduler import FusedMixOrderReductions, MixOrderReduction
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import CeilDiv

from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.sizes.storages import reuse_key
from optsched.plugins.inductor.wrapper.facts import (
    Allocation,
    ExternCall,
    Returned,
    Scratch,
    WrapperBuffer,
    WrapperFacts,
    WrapperNode,
)


def runs_on_gpu(nodes: Iterable[Any]) -> bool:
    """Return True if a node runs on a device other than the CPU."""
    devices = (node.get_device() for node in nodes)
    return any(device is not None and device.type != "cpu" for device in devices)


def add_triton_rules(facts: WrapperFacts, nodes: Sequence[Any]) -> WrapperFacts:
    """Return the facts of a graph whose kernels Triton compiles.

    Raise `KeptOrderError` if a kernel has a workspace of a kind that is not known.
    """
    mixed = {
        v: _MixedSums(n) for v, n in enumerate(nodes) if isinstance(n, FusedMixOrderReductions)
    }
    partial = {name for sums in mixed.values() for name in sums.partial}
    final = {name for sums in mixed.values() for name in sums.final}
    vanished = {name for sums in mixed.values() for name in sums.vanished}
    buffers = {name: buffer for name, buffer in facts.buffers.items() if name not in partial}
    changed = []
    # Three changes: sums move to the workspace, vanished nodes call nothing, workspaces are
    # buffers.
    for v, (node, facts_of_node) in enumerate(zip(nodes, facts.nodes, strict=True)):
        known = _without(facts_of_node, partial, final)
        if all(inner.get_name() in vanished for inner in node.get_nodes()):
            # No kernel is called, so nothing is freed here.
            known = replace(known, arguments=frozenset())
        workspace = mixed[v].workspace if v in mixed else _scan_workspace(node)
        if workspace is not None:
            known = mixed[v].add_to(known) if v in mixed else known
            name = f"workspace of {known.name}"
            buffers[name] = _workspace_buffer(name, workspace)
            known = replace(known, scratch=replace(known.scratch or Scratch(""), buffer=name))
        changed.append(known)
    return replace(
        facts,
        nodes=tuple(changed),
        buffers=buffers,
        # A kernel that makes and reads a final sum does not keep it: the wrapper makes it.
        local=facts.local.difference(final, partial, *map(_find_crossing, nodes)),
        # No argument fits: each kernel is called at once.
        max_arguments=-1,
    )


def _without(node: WrapperNode, partial: set[str], final: set[str]) -> WrapperNode:
    """Return a node that does not make the final sums, and knows nothing of partial sums."""
    return replace(
        node,
        used=node.used - partial,
        arguments=node.arguments - partial,
        outputs=tuple(name for name in node.outputs if name not in partial | final),
        definitions=tuple(d for d in node.definitions if d.buffer not in partial | final),
    )


@dataclass(frozen=True, slots=True)
class _Workspace:
    device: Any
    dtype: Any
    count: Any
    """Elements, which may be symbolic."""


def _workspace_buffer(name: str, workspace: _Workspace) -> WrapperBuffer:
    """Describe a workspace, which the wrapper allocates and reuses as any buffer."""
    argument = WorkspaceArg(
        count=workspace.count,
        zero_mode=WorkspaceZeroMode.UNINITIALIZED,
        device=workspace.device,
        outer_name=name,
        dtype=workspace.dtype,
    )
    count = _hint(workspace.count)
    return WrapperBuffer(
        name,
        count * workspace.dtype.itemsize,
        Allocation.OWN,
        reuse_key=reuse_key(argument),
    )


def _scan_workspace(node: Any) -> _Workspace | None:
    """Return the workspace of a kernel with scans: a flag and a value for each block."""
    scans = [inner for inner in node.get_nodes() if not inner.is_extern() and inner.is_split_scan()]
    if not scans:
        return None
    # The grid of Inductor's split scan: one flag and one value per block.
    numel, rnumel = scans[0].group[1]
    blocks = numel * CeilDiv(rnumel, config.triton.min_split_scan_rblock)
    with V.graph.set_current_device(node.get_device()):
        each = sum(_scan_bytes(dtype) for inner in scans for dtype in inner.node.data.dtypes)
    return _Workspace(node.get_device(), torch.uint8, blocks * each)


def _scan_bytes(dtype: Any) -> int:
    """Return the bytes per block: a word for flag and value, or three words for 64 bits."""
    itemsize = upcast_compute_type(dtype).itemsize
    # Flag and value of at most 2 bytes share a word; with 4 bytes they are two words.
    return 4 if itemsize <= 2 else 8 if itemsize == 4 else 24


def _find_crossing(node: Any) -> set[str]:
    """Return the buffers of a kernel that one of its loops writes and a later one reads."""
    if node.is_extern() or type(node).__name__ not in ("SchedulerNode", "FusedSchedulerNode"):
        return set()
    # As the code generator itself chooses the node that decides the loops.
    inner = list(node.get_nodes())
    _, (numel, rnumel) = max(inner, key=lambda n: n.is_reduction()).group
    if rnumel == 1 or node.is_split_scan():
        return set()
    # Some backends combine several; the one for Triton is inside.
    backend = V.graph.scheduler.get_backend(node.get_device())
    backend = getattr(backend, "_triton_scheduling", backend)
    schedule = backend.generate_node_schedule(inner, numel, rnumel)
    features = SIMDKernelFeatures(schedule, numel, rnumel)
    if V.choices.should_use_persistent_reduction(features, False):
        # A persistent reduction has the whole row in registers: one loop only.
        return set()
    return _read_in_later_loops(schedule)


def _read_in_later_loops(schedule: Iterable[Any]) -> set[str]:
    loop, inside = 0, True
    written: dict[str, int] = {}
    found = set()
    for entry in schedule:
        if entry is DisableReduction:
            inside = False
        elif entry is EnableReduction:
            loop, inside = loop + 1, True
        else:
            names = {read.name for read in entry.read_writes.reads}
            found |= {name for name in names if written.get(name, loop) != loop}
            # The result of a reduction and what is made after a loop stay in registers.
            whole = not entry.is_reduction() or isinstance(entry.node.data, ir.Scan)
            if inside and whole:
                written.update((write.name, loop) for write in entry.read_writes.writes)
    return found


class _MixedSums:
    """The sums of a kernel that reduces along both axes."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.sums = [inner for inner in node.node2.get_nodes() if inner.is_reduction()]
        if not self.sums or any(not inner.node._split_size for inner in self.sums):
            raise KeptOrderError(f"node {node.get_name()!r} sums along both axes in one step")
        outputs = [inner.get_outputs()[0] for inner in self.sums]
        users = [output.users[0].node for output in outputs]
        self.partial = [output.get_name() for output in outputs]
        self.vanished = [user.get_name() for user in users]
        self.final = [user.get_outputs()[0].get_name() for user in users]
        known = {*(inner.get_name() for inner in self.sums), *self.vanished}
        if any(inner.get_name() not in known for inner in node.node2.get_nodes()):
            raise KeptOrderError(f"node {node.get_name()!r} sums along both axes, and more")

    @property
    def workspace(self) -> _Workspace:
        """A row of float32 sums for each part of the longer axis."""
        numel, rnumel = MixOrderReduction.get_numel_rnumel(self.node.node1)
        # The formula of `_pick_split_size` in torch/_inductor/codegen/simd.py.
        split = config.triton.mix_order_reduction_split_size
        if split is None:
            device = DeviceProperties.create(self.node.get_device())
            rows = _hint(numel) // (device.multi_processor_count * 8)
            split = min(max(last_power_of_2(rows), 16), 128)
        return _Workspace(
            self.node.get_device(),
            torch.float32,
            len(self.sums) * rnumel * ((numel + split - 1) // split),
        )

    def add_to(self, node: WrapperNode) -> WrapperNode:
        """Return the node of the kernel with the final sums among its outputs."""
        return replace(
            node,
            outputs=(*node.outputs, *self.final),
            scratch=Scratch("", tuple(self._results())),
        )

    def _results(self) -> Iterator[ExternCall]:
        for name in self.final:
            buffer = V.graph.get_buffer(name)
            # Sums of another type are converted from a tensor of float32.
            # The float32 sum and the converted one exist together for a moment.
            converted = buffer.get_dtype() != torch.float32
            temporary = 4 * math.prod(_hint(size) for size in buffer.get_size())
            yield ExternCall(Returned.TENSOR, name, workspace=temporary if converted else 0)


def _hint(value: Any) -> int:
    return int(V.graph.sizevars.optimization_hint(value, fallback=0))
