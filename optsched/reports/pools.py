"""Fields and lines about several pools in the records and texts of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsched.model.packing_problem import PackingProblem
from optsched.reports.capacity import Refusal, all_orders_refusal, pool_refusal, refusal_text
from optsched.runtime.limits import Proof
from optsched.runtime.text import counted, listed_names, readable
from optsched.solver.packing_result import PackingResult, Shortage
from optsched.solver.result import Result

SHOWN = 10
"""Maximum number of buffers named in text; records list all."""


def pools_fields(problem: PackingProblem, result: PackingResult) -> dict[str, Any]:
    """Return the fields about the pools, and about spilled buffers and the reasons.

    Slab and proof of a pool concern only the buffers placed in it.
    """
    return {
        "refuted": None if result.shortage is None else result.shortage.reason,
        **pool_refusal(problem, result.shortage),
        "pools": {
            part.pool.name: {
                "capacity": part.pool.capacity,
                "buffers": len(part.ids),
                "slab": part.result.slab,
                "slab_bound": part.result.slab_bound,
                "slab_proof": part.result.slab_proof,
            }
            for part in result.packed
        },
        "short": {name: pool_refusal(problem, found) for name, found in result.short.items()},
        "spilled": [problem.names[i] for i in result.spilled],
        "spilled_bytes": result.spilled_bytes,
        "spilled_bound": result.spilled_bound,
        "unplaced": [problem.names[i] for i in result.unplaced],
    }


def pool_lines(
    problem: PackingProblem, result: PackingResult, found: Mapping[str, Any], short: bool = True
) -> list[str]:
    """Return one line per pool, and the spilled buffers and, if `short`, the reasons."""
    lines = []
    for name, part in found["pools"].items():
        room = "" if part["capacity"] is None else f" of {part['capacity']:,}"
        slab = "nothing found" if part["slab"] is None else f"{part['slab']:,}{room} bytes"
        proof = part["slab_proof"]
        proof = Proof(proof).with_code if proof else f"bound {part['slab_bound']:,}"
        lines.append(f"  {readable(name)}  {slab}  {proof}  {counted(part['buffers'], 'buffer')}")
    if result.shortage is None and short:
        for name, refused in found["short"].items():
            lines.append(f"  pool {readable(name)}: {refusal_text(refused)}")
    if result.spilled:
        fewest = result.spilled_bytes <= result.spilled_bound
        proof = "the fewest, proved" if fewest else f"at least {result.spilled_bound:,}"
        if result.slab is None:
            proof = "and still no packing was found"
        names = listed_names(found["spilled"], SHOWN)
        lines.append(f"  spilled: {counted(len(result.spilled), 'buffer')}, {names}")
        lines.append(f"    {result.spilled_bytes:,} bytes, {proof}")
    if result.unplaced:
        size = int(problem.size[list(result.unplaced)].sum())
        names = listed_names(found["unplaced"], SHOWN)
        buffers = counted(len(result.unplaced), "buffer")
        lines.append(f"  not placed: {buffers}, {size:,} bytes: {names}")
    if result.shortage is not None:
        lines += [f"  {result.shortage.reason}", f"  {refusal_text(found)}"]
    return lines


def spilled_fields(found: Result) -> dict[str, Any]:
    """Return the fields of a plan in pools: its pools, spilled buffers, and why no order fits."""
    graph, why = found.graph, {} if found.shortage is None else _why(found, found.shortage)
    if found.refuted is not None:
        return {**why, "refuted": found.refuted.reason}
    assert graph is not None
    assert found.packing is not None
    assert found.packing.problem is not None
    fields = pools_fields(found.packing.problem, found.packing)
    # This bound holds for the chosen order; `spilled_bound` in the record holds for all orders.
    fields["spilled_bound_of_order"] = fields.pop("spilled_bound")
    plan = found.plan
    if plan is not None:
        fields["slabs"] = plan.slabs(graph)
        pools = [part.pool for part in found.packing.packed]
        fields["capacities"] = {p.name: p.capacity for p in pools if p.capacity is not None}
        fields["pool"] = {
            buffer.name: plan.pools[b]
            for b, buffer in enumerate(graph.buffers)
            if plan.offsets[b] is not None and graph.roots[b] == b
        }
    return {**fields, **why}


def spilled_lines(found: Result, record: Mapping[str, Any]) -> list[str]:
    """Return the lines of a plan in pools."""
    lines = []
    if found.refuted is not None:
        lines += [f"  {found.refuted.reason}", f"  {refusal_text(record)}"]
    elif found.shortage is not None:
        assert found.graph is not None
        only = next(iter({buffer.pool for buffer in found.graph.buffers}), "")
        lines.append(f"  pool {readable(only)}: {refusal_text(record)}")
    if found.packing is not None and found.packing.problem is not None:
        fields = pools_fields(found.packing.problem, found.packing)
        short = found.shortage is None
        lines += pool_lines(found.packing.problem, found.packing, fields, short=short)
        if found.spilled_bytes:
            # This bound holds for all orders, that in the lines above for the chosen one.
            proved = found.spilled_bytes <= found.spilled_bound
            most = "no order spills fewer" if proved else f"at least {found.spilled_bound:,}"
            lines.append(f"    over all orders: {most}")
    return lines


def _why(found: Result, shortage: Shortage) -> Refusal:
    assert found.graph is not None
    return all_orders_refusal(found.graph, found, shortage)
