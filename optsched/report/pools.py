"""Packings of several pools: a JSON object, and a few lines of words."""

from __future__ import annotations

from typing import Any

from optsched.pools import PackedPool, PoolsResult
from optsched.problem import PackingProblem
from optsched.report.record import versions
from optsched.result import Objective


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
        "refuted": result.refuted,
        "runtime": round(result.runtime, 6),
        "pools": {part.pool.name: _pool_record(part) for part in result.packed},
        "pool": dict(zip(problem.names, names, strict=True)),
        "offsets": {
            name: offset
            for name, offset in zip(problem.names, offsets.tolist(), strict=True)
            if offset >= 0
        },
        "spilled": [problem.names[i] for i in result.spilled],
        "spilled_bytes": int(problem.size[list(result.spilled)].sum()),
        "unplaced": [problem.names[i] for i in result.unplaced],
        "memory_model": problem.memory_model,
        "versions": versions(),
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
    lines = [f"{problem.name}: {len(problem)} buffers in {len(result.packed)} pools"]
    for part in result.packed:
        room = "" if part.pool.capacity is None else f" of {part.pool.capacity:,}"
        slab = "nothing found" if part.result.slab is None else f"{part.result.slab:,}{room} bytes"
        proof = part.result.slab_proof or f"bound {part.result.slab_bound:,}"
        lines.append(f"  {part.pool.name}  {slab}  {proof}  {len(part.ids)} buffers")
    for what, ids in (("spilled", result.spilled), ("without room", result.unplaced)):
        if ids:
            size = int(problem.size[list(ids)].sum())
            names = ", ".join(problem.names[i] for i in ids[:10]) + (
                ", ..." if len(ids) > 10 else ""
            )
            lines.append(f"  {what}: {len(ids)} buffers, {size:,} bytes: {names}")
    if result.refuted is not None:
        lines.append(f"  does not fit: {result.refuted}")
    lines.append(f"  {result.status} ({result.stop_reason}) after {result.runtime:.2f} s")
    return "\n".join(lines)
