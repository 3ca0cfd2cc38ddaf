"""Terminal tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optsched.graph import Graph
from optsched.packer import PackingResult
from optsched.problem import PackingProblem
from optsched.report.bytes import format_bytes
from optsched.report.capacity import Refusal, packing_refusal, refusal
from optsched.result import Proof, Result, StopReason, optimality_gap

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from optsched.compare import Comparison, Row

SHOWN = {
    "program": "program",
    "lpmf": "lpmf",
    "bfs": "bfs",
    "dfs": "dfs",
    "inductor": "inductor",
    "xla_default": "xla",
    "greedy_by_size": "greedy",
    "first_fit_area": "first fit",
}
"""Methods with a column in the gap table, and its heading."""
EXPENDABLE = ("first_fit_area", "program", "bfs", "dfs", "lpmf", "greedy_by_size")
"""Columns to leave out, in this sequence, where the console is too narrow."""

_PROOF_WORDS = {
    Proof.PACKING: "live bytes of one step",
    Proof.BOUND: "bound over all orders",
    Proof.SEARCH: "exhaustive search of orders",
    Proof.PACKING_SEARCH: "exhaustive search of packings",
    Proof.JOINT: "joint: equals the bound on the peak",
    Proof.CLAIMED: "a solver's word only",
}


def gap_table(comparisons: Sequence[Comparison], console: Console) -> Table:
    """Return one line a graph: gaps of orders and packers, then our plan and its proof.

    Of the methods that ran, those of :data:`SHOWN` have a column, as many as the console is wide
    enough for; the JSON and the report have all.
    """
    from optsched.compare import OUR_METHOD

    ran = {row.method for c in comparisons for row in c.rows}
    shown = [method for method in SHOWN if method in ran] or sorted(ran - {OUR_METHOD})
    table = _gap_table(comparisons, shown)
    for method in EXPENDABLE:
        wanted = console.measure(table, options=console.options.update(max_width=1000)).maximum
        if wanted <= console.width:
            break
        if method in shown:
            shown.remove(method)
            table = _gap_table(comparisons, shown)
    return table


def _gap_table(comparisons: Sequence[Comparison], shown: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        title="Gap to the proven bound in % (of the peak for orders, of the slab for packers)",
        caption="proofs of peak and slab: L2 bound over all orders, L3 search of all orders, "
        "L4 of all packings, L5 slab equal to the least peak, - none",
        box=box.SIMPLE_HEAD,
        show_footer=len(comparisons) > 1,
    )
    table.add_column("instance", no_wrap=True, footer="worst")
    table.add_column("ops", justify="right", no_wrap=True)
    gaps = [{row.method: _gap(row) for row in c.rows} for c in comparisons]
    for method in shown:
        worst = max((gap[method] for gap in gaps if method in gap), default=0.0)
        heading = SHOWN.get(method, method)
        table.add_column(heading, justify="right", no_wrap=True, footer=_percent(worst))
    for heading in ("peak", "slab", "proofs", "s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for c, gap in zip(comparisons, gaps, strict=True):
        table.add_row(
            c.graph.name,
            str(len(c.graph.ops)),
            *(_percent(gap[method]) if method in gap else "-" for method in shown),
            format_bytes(c.result.peak),
            format_bytes(c.result.slab),
            f"{c.result.peak_proof or '-'} {c.result.slab_proof or '-'}",
            f"{c.result.runtime:.2f}",
        )
    return table


def _gap(row: Row) -> float:
    return row.slab_gap if row.kind == "packing" else row.peak_gap


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
        every = " in every order" if proof is Proof.PACKING_SEARCH else ""
        lines.append(f"  {what}  {_value_line(value, bound, proof)}{every}")
    slabs = {} if result.plan is None else result.plan.slabs(graph)
    if len(slabs) > 1:
        pools = ", ".join(f"{pool!r} {slab:,}" for pool, slab in slabs.items())
        lines.append(f"  the slabs of {len(slabs)} pools together: {pools} bytes")
    if result.claimed_bound is not None:
        lines.append(f"  a solver claims a bound of {result.claimed_bound:,} bytes")
    if result.capacity is not None:
        lines.append(f"  {_capacity_line(result, refusal(graph, result))}")
    lines.append(f"  {result.status} ({result.stop_reason}) after {result.runtime:.2f} s")
    return "\n".join(lines)


def _value_line(value: int | None, bound: int, proof: Proof | None) -> str:
    if value is None:
        return f"none found; at least {bound:,} bytes"
    text = f"{value:,} bytes ({format_bytes(value)})"
    if proof is not None:
        return f"{text}  {proof}: {_PROOF_WORDS[proof]}"
    return f"{text}  at least {bound:,}, gap {100 * optimality_gap(value, bound):.2f} %"


def _capacity_line(result: Result | PackingResult, refused: Refusal | None) -> str:
    capacity = result.capacity or 0
    if refused is not None:
        return refused.text()
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
        lines.append(f"  {_capacity_line(result, packing_refusal(problem, result))}")
    lines.append(f"  {result.status} ({result.stop_reason}) after {result.runtime:.2f} s")
    return "\n".join(lines)


def gap_summary(comparisons: Sequence[Comparison]) -> str:
    """Return one sentence over all graphs: how many are proved, and how far the best order is."""
    proved = (None, Proof.CLAIMED)
    peaks = sum(c.result.peak_proof not in proved for c in comparisons)
    slabs = sum(c.result.slab_proof not in proved for c in comparisons)
    equal = sum(c.result.slab_proof is Proof.JOINT for c in comparisons)
    return (
        f"{len(comparisons)} graphs: least slab proved on {slabs}, on {equal} of them equal to the "
        f"least peak; peak of the plan proved least on {peaks}"
    )
