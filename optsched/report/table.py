"""Terminal tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optsched.compare import OUR_METHOD, Comparison
from optsched.graph import Graph
from optsched.packer import PackingResult
from optsched.problem import PackingProblem
from optsched.report.bytes import format_bytes
from optsched.result import Proof, Result, Status, StopReason, optimality_gap

if TYPE_CHECKING:
    from rich.table import Table

_PROOF_WORDS = {
    Proof.PACKING: "live bytes of one step",
    Proof.BOUND: "bound over all orders",
    Proof.SEARCH: "exhaustive search of orders",
    Proof.PACKING_SEARCH: "exhaustive search of packings",
    Proof.JOINT: "joint: equals the bound on the peak",
    Proof.CLAIMED: "a solver's word only",
}


def gap_table(comparisons: Sequence[Comparison]) -> Table:
    """Return one line a graph: each order's gap to the bound, then our plan and its proof."""
    from rich.table import Table

    methods = [r.method for r in comparisons[0].rows if r.kind == "order"] if comparisons else []
    packings = [r.method for r in comparisons[0].rows if r.kind == "packing"] if comparisons else []
    table = Table(
        title="Gap to the proven bound, in % of the value (peak of orders, slab of packings)",
        caption="proof: L2 bound over all orders, L3 exhaustive search, L5 joint; - not proved",
    )
    table.add_column("instance", overflow="fold")
    for heading in ("ops", *(m.replace("_", " ") for m in (*methods, *packings))):
        table.add_column(heading, justify="right")
    for heading in ("peak", "slab", "proof", "s"):
        table.add_column(heading, justify="right")
    for c in comparisons:
        rows = {row.method: row for row in c.rows}
        table.add_row(
            c.graph.name,
            str(len(c.graph.ops)),
            *(_percent(rows[m].peak_gap) if m in rows else "-" for m in methods),
            *(_percent(rows[m].slab_gap) if m in rows else "-" for m in packings),
            format_bytes(rows[OUR_METHOD].peak if OUR_METHOD in rows else None),
            format_bytes(rows[OUR_METHOD].slab if OUR_METHOD in rows else None),
            f"{c.result.peak_proof or '-'}/{c.result.slab_proof or '-'}",
            f"{c.result.runtime:.2f}",
        )
    return table


def _percent(gap: float) -> str:
    return "0" if gap == 0 else f"{100 * gap:.1f}" if gap >= 0.0005 else "<0.1"


def result_text(graph: Graph, result: Result) -> str:
    """Return a result in a few lines of words."""
    lines = [
        f"{graph.name}: {len(graph.ops)} ops, {len(graph.buffers)} buffers"
        f"  (memory model: {graph.memory_model})"
    ]
    for what, value, bound, proof in (
        ("peak", result.peak, result.peak_bound, result.peak_proof),
        ("slab", result.slab, result.slab_bound, result.slab_proof),
    ):
        lines.append(f"  {what}  {_value_line(value, bound, proof)}")
    if result.claimed_bound is not None:
        lines.append(f"  a solver claims a bound of {result.claimed_bound:,} bytes")
    if result.capacity is not None:
        lines.append(f"  {_capacity_line(result)}")
    lines.append(f"  {result.status} ({result.stop_reason}) after {result.runtime:.2f} s")
    return "\n".join(lines)


def _value_line(value: int | None, bound: int, proof: Proof | None) -> str:
    if value is None:
        return f"none found; at least {bound:,} bytes"
    text = f"{value:,} bytes ({format_bytes(value)})"
    if proof is not None:
        return f"{text}  {proof}: {_PROOF_WORDS[proof]}"
    return f"{text}  at least {bound:,}, gap {100 * optimality_gap(value, bound):.2f} %"


def _capacity_line(result: Result | PackingResult) -> str:
    capacity = result.capacity or 0
    if result.status is Status.INFEASIBLE:
        excess = result.slab_bound - capacity
        return f"does not fit in {capacity:,} bytes: {excess:,} too few, proved"
    if result.stop_reason is StopReason.DECIDED:
        return f"fits in {capacity:,} bytes"
    return f"not known whether it fits in {capacity:,} bytes"


def packing_text(problem: PackingProblem, result: PackingResult) -> str:
    """Return a packing's result in a few lines of words."""
    lines = [
        f"{problem.name}: {len(problem)} buffers",
        f"  slab  {_value_line(result.slab, result.slab_bound, result.slab_proof)}",
    ]
    if result.capacity is not None:
        lines.append(f"  {_capacity_line(result)}")
    lines.append(f"  {result.status} ({result.stop_reason}) after {result.runtime:.2f} s")
    return "\n".join(lines)


def gap_summary(comparisons: Sequence[Comparison]) -> str:
    """Return one sentence over all graphs: how many are proved, and how far the best order is."""
    proved_peak = sum(c.result.peak_proof not in (None, Proof.CLAIMED) for c in comparisons)
    proved_slab = sum(c.result.slab_proof is Proof.JOINT for c in comparisons)
    return (
        f"{len(comparisons)} graphs: least peak proved on {proved_peak}, "
        f"slab equal to it (joint optimum) on {proved_slab}"
    )
