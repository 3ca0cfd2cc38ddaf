"""ExecuTorch's memory planning pass with our order and our packing.

ExecuTorch runs a program in the order of its nodes, and its memory planning pass gives tensors
offsets in that order. This pass first reorders the nodes, then packs the lifetimes of the new
order.

Example: `big` makes 8 KiB, `sum` reduces them to 1 KiB, `other` makes 4 KiB, and `join` reads the
two small results. In the order other, big, sum, join the arena needs 13 KiB, in the order big, sum,
other, join 9 KiB.

This module imports executorch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from executorch.exir.memory_planning import (
    MemoryAlgoResult,
    MemoryPlanningAlgorithmSuite,
    SpecAllocResult,
    Verifier,
    collect_specs_from_nodes,
    greedy,
)
from executorch.exir.passes import MemoryPlanningPass

from optsched.check.packing import check_packing
from optsched.errors import OptschedError, PlanError
from optsched.model.graph import Graph
from optsched.model.order_rules import moved_ops
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.pools import Pool
from optsched.plugins.executorch.program import FixedOrderError, ProgramGraph, reorder
from optsched.plugins.gain import MinGain, kept_reason, worth_it
from optsched.plugins.records import CompiledGraph, remember
from optsched.runtime.bytes import round_up
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.pack import pack
from optsched.solver.packing_result import PackingResult
from optsched.solver.pipeline import solve

DEFAULT_MEMORY = 1
"""The `mem_id` of tensors that have none."""
BEFORE_SHARE, SOLVE_SHARE = 0.1, 0.7
"""Shares of the time left for the arena of the program's own order, and then for a better order."""
_LOG = logging.getLogger(__name__)


def planning_pass(
    reordering: bool,
    pools: Sequence[Pool],
    limits: Limits,
    min_gain: MinGain,
    options: Mapping[str, Any],
) -> MemoryPlanningPass:
    """Return the pass; the arguments are those of :func:`optsched.plugins.executorch`."""
    return OptimalPlanning(reordering, pools, limits, min_gain, **options)


class OptimalPlanning(MemoryPlanningPass):  # type: ignore[misc]
    """A planning pass that chooses an order of minimum arena, then offsets for its lifetimes.

    `reordering`, `pools`, `limits`, `min_gain`, `options`: as in
    :func:`optsched.plugins.executorch.memory_planning`.
    """

    def __init__(
        self,
        reordering: bool,
        pools: Sequence[Pool],
        limits: Limits,
        min_gain: MinGain,
        **options: Any,
    ) -> None:
        # With capacities the framework's algorithm is left out: it would put everything into one
        # arena.
        algorithms = [self.optimal] if pools else [self.optimal, greedy]
        super().__init__(memory_planning_algo=MemoryPlanningAlgorithmSuite(algorithms), **options)
        self.reordering, self.pools, self.limits = reordering, pools, limits
        # Set again by `run`: one pass object may plan several methods.
        self.clock = Clock.of(limits)
        self.min_gain = min_gain

    def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
        """Plan one method, all of it within the limits."""
        self.clock = Clock.of(self.limits)
        begun = time.perf_counter()
        record = self._try_to_reorder(graph_module, graph_signature) if self.reordering else None
        seconds = time.perf_counter() - begun
        # Now the framework calls `optimal` with the new order.
        result = super().run(graph_module, graph_signature)
        specs = list(self._specs(graph_module, graph_signature))
        # In the final order. The framework's own test compares all pairs, which takes a minute for
        # 3,000 tensors, but it also knows tensors that may lie inside others.
        if not are_apart(specs):
            self._verifier(graph_module, graph_signature).verify_storage_reuse()
        if record is not None:
            remember(replace(as_allocated(record, specs), seconds=seconds))
        return result

    def _plans_mutable(self) -> bool:
        return bool(self.alloc_mutable_buffers and not self.share_mutable_buffers)

    def _verifier(self, module: Any, signature: Any) -> Verifier:
        return Verifier(
            module,
            self.alloc_graph_input,
            self.alloc_graph_output,
            self._plans_mutable(),
            signature,
        )

    def _try_to_reorder(self, module: Any, signature: Any) -> CompiledGraph:
        """Choose an order; if anything fails, the program keeps its own."""
        try:
            return self._choose_order(module, signature)
        except FixedOrderError as error:
            _LOG.info("order of the program kept: %s", error)
            return _record(0, reason=str(error))
        except Exception as error:
            _LOG.warning("order of the program kept: %r", error)
            return _record(0, reason=repr(error))

    def _choose_order(self, module: Any, signature: Any) -> CompiledGraph:
        program = ProgramGraph(
            module, self._sizes(module, signature), _mutable(signature), self.alignment
        )
        graph = program.graph
        # The arena of the program's own order, for comparison.
        before = self._slab(graph, range(len(graph.ops)))
        result = solve(graph, pools=self.pools, limits=self.clock.share(SOLVE_SHARE))
        best = before if result.plan is None or result.slab is None else result.slab
        gains = worth_it(before, best, self.min_gain)
        after = best if gains else before
        # The bound is about the arena, so it proves the order only if the arena meets it.
        proof = result.slab_proof if result.slab_bound == after else None
        record = _record(
            len(program.nodes),
            before=before,
            after=after,
            bound=result.slab_bound,
            proof="" if proof is None else proof.words,
            solver_seconds=result.runtime,
        )
        if result.plan is None or not gains:
            return replace(record, reason=kept_reason(before, best, self.min_gain))
        # The last op may stand for copies of outputs; the program has no node for it.
        order = [v for v in result.plan.order if v < len(program.nodes)]
        reorder(module, [program.nodes[v] for v in order])
        moved = moved_ops(order, range(len(order)))
        return replace(record, order=f"optimum, {moved} of {len(order)} ops moved")

    def _sizes(self, module: Any, signature: Any) -> dict[Any, int]:
        """Return the bytes of each planned storage, by the tensor that owns it."""
        return {
            spec: round_up(spec.nbytes(), self.alignment)
            for spec in self._specs(module, signature)
            # A tensor inside another one's storage has no bytes of its own.
            if spec.storage_base is None
        }

    def _specs(self, module: Any, signature: Any) -> Iterable[Any]:
        """Return the tensors that are planned."""
        specs: Iterable[Any] = collect_specs_from_nodes(
            module.graph.nodes,
            signature,
            ignore_graph_input=not self.alloc_graph_input,
            ignore_graph_output=not self.alloc_graph_output,
            ignore_mutable_buffers=not self._plans_mutable(),
            ignore_out_var_node=False,
            do_assertion=False,
        )
        return specs

    def _slab(self, graph: Graph, order: Sequence[int]) -> int:
        """Return the bytes of all arenas of an order."""
        problem, ids = packing_problem(graph, order)
        own_pools = [graph.buffers[b].pool for b in ids.tolist()]
        packed = self._pack(problem, own_pools, self.clock.share(BEFORE_SHARE))
        assert packed.slab is not None
        return packed.slab

    def _pack(
        self, problem: PackingProblem, own_pools: Sequence[str], clock: Clock
    ) -> PackingResult:
        """Give each tensor an arena, its own pool if that has room, and an offset there."""
        unlimited = [
            Pool(name) for name in sorted({str(DEFAULT_MEMORY), *own_pools} - {""}, key=int)
        ]
        packed = pack(problem, pools=self.pools or unlimited, own_pools=own_pools, limits=clock)
        if packed.shortage is not None:
            short = packed.shortage
            raise PlanError(f"{short.reason}: {short.required} of {short.available} bytes")
        if packed.slab is None:
            raise PlanError("tensors were not packed into the capacities within the limit")
        return packed

    def optimal(
        self, alignment: int, specs: Any, module: Any, signature: Any, padding: int = 0
    ) -> MemoryAlgoResult:
        """Choose offsets: a memory planning algorithm of the framework's suite."""
        del signature
        for spec in specs:
            # The framework asks for this: allocated sizes depend on the alignment.
            spec.realign(alignment)
        roots = [spec for spec in specs if spec.storage_base is None]
        try:
            own_pools = [_own_pool(spec) for spec in roots]
            packed = self._pack(_lifetimes(roots, alignment), own_pools, self.clock)
        except Exception as error:
            # With capacities only this algorithm keeps them, so its error counts.
            if self.pools:
                raise
            _LOG.warning("offsets are those of the framework's greedy algorithm: %r", error)
            return greedy(alignment, specs, module, None, padding)
        # Bytes at the beginning of an arena that the framework has given to inputs.
        reserved = getattr(module, "input_mem_buffer_sizes", None) or []
        # Arena 0 is never used, but the list is by `mem_id`.
        result = MemoryAlgoResult({}, [0, 0])
        for part in packed.packed:
            memory_id = int(part.pool.name)
            first = reserved[memory_id] if memory_id < len(reserved) else 0
            first = round_up(first, alignment)
            if part.result.offsets is None or not len(part.ids):
                continue
            result.bufsizes.extend([0] * (memory_id + 1 - len(result.bufsizes)))
            result.bufsizes[memory_id] = first + (part.result.slab or 0) + padding
            for i, offset in zip(part.ids.tolist(), part.result.offsets.tolist(), strict=True):
                result.spec_dict[roots[i]] = SpecAllocResult(memory_id, 0, first + offset)
        for spec in specs:
            if spec.storage_base is not None:
                result.spec_dict[spec] = _inside(spec, result.spec_dict)
        return result


def are_apart(specs: Sequence[Any]) -> bool:
    """Return True if no two tensors that are live together share bytes.

    False says nothing: tensors that lie inside others, or have no place, are not compared here.
    """
    if any(spec.storage_base is not None for spec in specs):
        return False
    try:
        for memory_id in {spec.mem_id for spec in specs}:
            mine = [spec for spec in specs if spec.mem_id == memory_id]
            check_packing(_lifetimes(mine, 1), [spec.mem_offset for spec in mine])
    except (OptschedError, TypeError):
        return False
    return True


def as_allocated(record: CompiledGraph, specs: Sequence[Any]) -> CompiledGraph:
    """Return a record with the bytes of the arenas, which a short limit may leave above the plan's.

    Bytes that the framework adds after the last tensor of an arena do not count.
    """
    ends: dict[int, int] = {}
    for spec in specs:
        if spec.mem_offset is not None:
            end = spec.mem_offset + spec.allocated_memory
            ends[spec.mem_id] = max(ends.get(spec.mem_id, 0), end)
    # Nothing is known of a program whose order was not looked at.
    after = sum(ends.values()) if record.before else record.after
    return replace(record, after=after, proof=record.proof if after == record.bound else "")


def _record(ops: int, **known: Any) -> CompiledGraph:
    return CompiledGraph("executorch", "method", ops, **known)


def _mutable(signature: Any) -> frozenset[str]:
    """Return the placeholders of buffers that the method changes."""
    if signature is None:
        return frozenset()
    changed = set(signature.buffers_to_mutate.values())
    named = signature.inputs_to_buffers.items()
    return frozenset(node for node, buffer in named if buffer in changed)


def _own_pool(spec: Any) -> str:
    return "" if spec.mem_id is None else str(spec.mem_id)


def _lifetimes(specs: Sequence[Any], alignment: int) -> PackingProblem:
    """Return the packing problem of tensors, whose lifetimes end with their last node."""
    count = len(specs)
    return PackingProblem(
        start=np.array([spec.lifetime[0] for spec in specs], np.int64),
        # The framework's lifetimes include the last node, ours end before it.
        end=np.array([spec.lifetime[1] + 1 for spec in specs], np.int64),
        size=np.array([spec.allocated_memory for spec in specs], np.int64),
        alignment=np.full(count, alignment, np.int64),
        name="executorch",
    )


def _inside(spec: Any, placed: Mapping[Any, SpecAllocResult]) -> SpecAllocResult:
    """Return the place of a tensor that lies in another one's storage."""
    offset, base = 0, spec
    while base.storage_base is not None:
        offset, base = offset + base.storage_base_offset, base.storage_base
    root = placed[base]
    return SpecAllocResult(root.mem_id, 0, root.mem_offset + offset)
