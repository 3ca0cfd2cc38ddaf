"""Results in a few lines of words."""

from __future__ import annotations

from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.reports.capacity import Refusal, packing_refusal, refusal
from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import Proof, StopReason, optimality_gap
from optsched.runtime.text import readable
from optsched.solver.result import PackingResult, Result

_PROOF_WORDS = {
    Proof.PACKING: "live bytes of one step",
    Proof.BOUND: "bound over all orders",
    Proof.SEARCH: "exhaustive search of orders",
    Proof.PACKING_SEARCH: "exhaustive search of packings",
    Proof.JOINT: "joint: equals the bound on the peak",
    Proof.JOINT_SEARCH: "joint: exhaustive search of packings in every order",
    Proof.CLAIMED: "a solver's word only",
}


def result_text(graph: Graph, result: Result) -> str:
    """Return a result in a few lines of words."""
    lines = result_lines(graph, result)
    lines.append(f"  {result.status} ({result.stop_reason}) after {result.runtime:.2f} s")
    return "\n".join(lines)


def result_lines(graph: Graph, result: Result) -> list[str]:
    """Return a result's lines but for the last, which says how it ended."""
    lines = [
        f"{readable(graph.name)}: {len(graph.ops)} ops, {len(graph.buffers)} buffers"
        f"  (memory model: {readable(graph.model_name)})"
    ]
    for what, value, bound, proof in (
        ("peak", result.peak, result.peak_bound, result.peak_proof),
        ("slab", result.slab, result.slab_bound, result.slab_proof),
    ):
        apart = ""
        if what == "slab" and proof is Proof.JOINT and (value or 0) > result.peak_bound:
            apart = " of each pool by itself, added up"
        lines.append(f"  {what}  {_value_line(value, bound, proof)}{apart}")
    slabs = {} if result.plan is None else result.plan.slabs(graph)
    if len(slabs) > 1:
        pools = ", ".join(f"{pool!r} {slab:,}" for pool, slab in slabs.items())
        lines.append(f"  the slabs of {len(slabs)} pools together: {pools} bytes")
    if result.claimed_bound is not None:
        lines.append(f"  a solver claims a bound of {result.claimed_bound:,} bytes")
    if result.capacity is not None:
        lines.append(f"  {_capacity_line(result, refusal(graph, result))}")
    return lines


def _value_line(value: int | None, bound: int, proof: Proof | None) -> str:
    if value is None:
        return f"none found; at least {bound:,} bytes"
    text = f"{value:,} bytes ({format_bytes(value)})"
    if proof is not None:
        return f"{text}  {proof}: {_PROOF_WORDS[proof]}"
    percent = 100 * optimality_gap(value, bound)
    # A gap that is there is not called none.
    shown = f"{percent:.1g}" if 0 < percent < 0.005 else f"{percent:.2f}"
    return f"{text}  at least {bound:,}, gap {shown} %"


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
        f"{readable(problem.name)}: {len(problem)} buffers",
        f"  slab  {_value_line(result.slab, result.slab_bound, result.slab_proof)}",
    ]
    if result.capacity is not None:
        lines.append(f"  {_capacity_line(result, packing_refusal(problem, result))}")
    lines += [f"  not tried: {name}, {why}" for name, why in result.left_out.items()]
    lines.append(f"  {result.status} ({result.stop_reason}) after {result.runtime:.2f} s")
    return "\n".join(lines)
