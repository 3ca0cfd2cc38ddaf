"""Packings of several pools: a JSON object, and a few lines of words."""

from __future__ import annotations

from typing import Any

from optsched.model.packing_problem import PackingProblem
from optsched.reports.capacity import Refusal, all_orders_refusal, pool_refusal, refusal
from optsched.reports.record import solve_record, versions
from optsched.reports.table import result_lines
from optsched.runtime.limits import Objective
from optsched.runtime.text import readable
from optsched.solver.spill.pack import PackedPool, PoolsResult
from optsched.solver.spill.solve import PooledResult

SHOWN = 10
"""Buffers named in text; records have all."""


def pools_record(problem: PackingProblem, result: PoolsResult) -> dict[str, Any]:
    """Return what `optsched pack --json` prints where there are pools."""
    names, offsets = result.places(len(problem))
    return {
        "instance": problem.name,
        "buffers": len(problem),
        "status": result.status,
        "stop_reason": result.stop_reason,
        "objective": Objective.SLAB,
        "slab": result.slab,
        "runtime": round(result.runtime, 6),
        **pools_fields(problem, result),
        "pool": dict(zip(problem.names, names, strict=True)),
        "offsets": {
            name: offset
            for name, offset in zip(problem.names, offsets.tolist(), strict=True)
            if offset >= 0
        },
        "memory_model": problem.memory_model,
        "versions": versions(),
    }


def pools_fields(problem: PackingProblem, result: PoolsResult) -> dict[str, Any]:
    """Return the fields that tell of the pools, what is spilled and why."""
    shortage = result.shortage
    return {
        "refuted": None if shortage is None else shortage.reason,
        **({} if shortage is None else pool_refusal(problem, shortage).record()),
        "pools": {part.pool.name: _pool_record(part) for part in result.packed},
        "short": {
            name: pool_refusal(problem, found).record() for name, found in result.short.items()
        },
        "spilled": [problem.names[i] for i in result.spilled],
        "spilled_bytes": result.spilled_bytes,
        "spilled_bound": result.spilled_bound,
        "unplaced": [problem.names[i] for i in result.unplaced],
    }


def _pool_record(part: PackedPool) -> dict[str, Any]:
    """Slab and proofs are of the buffers that lie in the pool."""
    return {
        "capacity": part.pool.capacity,
        "buffers": len(part.ids),
        "slab": part.result.slab,
        "slab_bound": part.result.slab_bound,
        "slab_proof": part.result.slab_proof,
    }


def pools_text(problem: PackingProblem, result: PoolsResult) -> str:
    """Return the result in a few lines of words."""
    lines = [f"{readable(problem.name)}: {len(problem)} buffers in {len(result.packed)} pools"]
    lines += pools_lines(problem, result)
    lines.append(f"  {result.status} ({result.stop_reason}) after {result.runtime:.2f} s")
    return "\n".join(lines)


def pools_lines(problem: PackingProblem, result: PoolsResult, short: bool = True) -> list[str]:
    """Return a line per pool, and what is spilled and, if `short`, why."""
    lines = []
    for part in result.packed:
        room = "" if part.pool.capacity is None else f" of {part.pool.capacity:,}"
        slab = "nothing found" if part.result.slab is None else f"{part.result.slab:,}{room} bytes"
        proof = part.result.slab_proof or f"bound {part.result.slab_bound:,}"
        lines.append(f"  {readable(part.pool.name)}  {slab}  {proof}  {len(part.ids)} buffers")
    if result.shortage is None and short:
        for name, found in result.short.items():
            lines.append(f"  pool {readable(name)}: {pool_refusal(problem, found).text()}")
    if result.spilled:
        fewest = result.spilled_bytes <= result.spilled_bound
        proof = "the fewest, proved" if fewest else f"at least {result.spilled_bound:,}"
        names = _names(problem, result.spilled)
        lines.append(f"  spilled: {len(result.spilled)} buffers, {names}")
        lines.append(f"    {result.spilled_bytes:,} bytes, {proof}")
    if result.unplaced:
        size = int(problem.size[list(result.unplaced)].sum())
        names = _names(problem, result.unplaced)
        lines.append(f"  without room: {len(result.unplaced)} buffers, {size:,} bytes: {names}")
    if result.shortage is not None:
        lines.append(f"  {result.shortage.reason}")
        lines.append(f"  {pool_refusal(problem, result.shortage).text()}")
    return lines


def pooled_record(found: PooledResult) -> dict[str, Any]:
    """Return what `optsched solve --json` prints where there are pools."""
    record = solve_record(found.graph, found.result)
    record |= {"status": found.status, "spilled_bound": found.spilled_bound}
    why = _why_all_orders(found)
    if why is not None:
        record |= why.record()
    if found.refuted is not None:
        return {**record, "refuted": found.refuted.reason}
    assert found.packing is not None
    assert found.problem is not None
    fields = pools_fields(found.problem, found.packing)
    # Of this order: the bound above is over all of them.
    fields["spilled_bound_of_order"] = fields.pop("spilled_bound")
    plan = found.result.plan
    if plan is not None:
        record["slabs"] = plan.slabs(found.graph)
        record["capacities"] = {
            part.pool.name: part.pool.capacity
            for part in found.packing.packed
            if part.pool.capacity is not None
        }
        record["pool"] = {
            buffer.name: plan.pools[b]
            for b, buffer in enumerate(found.graph.buffers)
            if plan.offsets[b] is not None and found.graph.roots[b] == b
        }
    return {**record, **fields, **({} if why is None else why.record())}


def pooled_text(found: PooledResult) -> str:
    """Return the result of a graph in pools in a few lines of words."""
    lines = result_lines(found.graph, found.result)
    why = _why_all_orders(found)
    if found.refuted is not None:
        lines.append(f"  {found.refuted.reason}")
    if why is not None:
        name = "" if found.refuted is not None else f"pool {readable(_only_pool(found))}: "
        lines.append(f"  {name}{why.text()}")
    if found.packing is not None and found.problem is not None:
        order_lines = pools_lines(found.problem, found.packing, short=why is None)
        lines += order_lines
        if found.spilled_bytes:
            proved = found.spilled_bytes <= found.spilled_bound
            most = "none spills fewer" if proved else f"at least {found.spilled_bound:,}"
            lines.append(f"    over all orders: {most}")
    result = found.result
    lines.append(f"  {found.status} ({result.stop_reason}) after {result.runtime:.2f} s")
    return "\n".join(lines)


def _only_pool(found: PooledResult) -> str:
    return next(iter({buffer.pool for buffer in found.graph.buffers}), "")


def _why_all_orders(found: PooledResult) -> Refusal | None:
    """Why no order has room in all pools, or why none has in the only pool that buffers name."""
    if found.refuted is not None:
        return all_orders_refusal(found.graph, found.before, found.refuted)
    return refusal(found.graph, found.before)


def _names(problem: PackingProblem, ids: tuple[int, ...]) -> str:
    return ", ".join(readable(problem.names[i]) for i in ids[:SHOWN]) + (
        ", ..." if len(ids) > SHOWN else ""
    )
