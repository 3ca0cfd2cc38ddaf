"""Results and graphs as JSON objects with stable keys, and as short texts.

The texts are made from the objects, so that expensive parts, such as the culprits of a capacity
that is too small, are computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from optsched.errors import UsageError
from optsched.formats.format import FileFacts
from optsched.formats.minimalloc import PackingTable
from optsched.model.antichain import largest_antichain
from optsched.model.elements import MAX_ADDRESS, OutputPolicy
from optsched.model.graph import Graph
from optsched.model.limits import buffer_count
from optsched.model.liveness import ESTIMATORS, peak_memory
from optsched.model.packing_problem import PackingProblem
from optsched.model.pools import apart_in_every_order
from optsched.model.regions import CONSTANTS, WORKSPACE, region_sizes
from optsched.model.reserved import Reserved
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.reports.arena import arena_lines, within_line
from optsched.reports.capacity import SHOWN, fullest_set, packing_refusal, refusal, refusal_text
from optsched.reports.pools import pool_lines, pools_fields, spilled_fields, spilled_lines
from optsched.runtime.bytes import format_bytes, spelled_bytes
from optsched.runtime.clock import Clock
from optsched.runtime.facts import versions
from optsched.runtime.limits import Event, Limits, Objective, Proof, StopReason
from optsched.runtime.text import counted, listed_names, most_less, readable
from optsched.solver.packing_result import PackingResult
from optsched.solver.result import Result

DESCRIBED_SECONDS = 0.5
"""Seconds for the bound of a description: beyond 3,000 ops not every op can be looked at."""
_NAMED = 6
"""Maximum number of buffers on several streams that are named in text."""
_PROOF_WORDS = {
    Proof.PACKING: "live bytes of one step",
    Proof.BOUND: "live at some op in every order",
    Proof.SEARCH: "no order has less",
    Proof.PACKING_SEARCH: "no packing of this order is smaller",
    Proof.JOINT: "equals the bound on the peak",
    Proof.JOINT_SEARCH: "no packing of any order is smaller",
    Proof.CLAIMED: "by a solver, not checked",
}


def plan_record(result: Result, *, listed: bool = True) -> dict[str, Any]:
    """Return the record that `optsched solve --json` prints; `listed` as of `Result.to_dict`."""
    graph = result.graph
    if graph is None:
        raise UsageError("a result without its question has no record")
    slabs = {} if result.plan is None else result.plan.slabs(graph)
    return {
        "graph": graph.name,
        "ops": len(graph.ops),
        "buffers": buffer_count(graph),
        # The graph is too large for a record of its result.
        **{key: value for key, value in result.to_dict(listed=listed).items() if key != "graph"},
        **refusal(graph, result),
        **({"slabs": slabs} if len(slabs) > 1 else {}),
        **_region_fields(graph, result),
        **_apart_fields(graph),
        **_stream_fields(graph, result),
        "order_search": dict(result.order_search),
        "memory_model": graph.model_name,
        "versions": versions(),
        **(spilled_fields(result) if result.in_pools else {}),
    }


def _apart_fields(graph: Graph) -> dict[str, Any]:
    """Return the field `kept_apart` if some buffers are kept apart in every order."""
    apart = [graph.buffers[b] for b in apart_in_every_order(graph)]
    if not apart:
        return {}
    names = [buffer.name for buffer in apart]
    return {"kept_apart": {"bytes": sum(buffer.size for buffer in apart), "buffers": names}}


def _stream_fields(graph: Graph, result: Result) -> dict[str, Any]:
    """Return the field `streams` of a plan on several streams.

    It holds the names of the streams, and the buffers that pairwise may be in use at the same time
    and form the peak, largest first.
    """
    if result.plan is None or not graph.on_streams:
        return {}
    order = result.plan.order
    # The peak of several streams is the heaviest set of pairwise concurrent buffers.
    found = [graph.buffers[b] for b in largest_antichain(graph, order).buffers]
    buffers = [buffer.name for buffer in sorted(found, key=lambda buffer: -buffer.size)]
    return {"streams": {"names": list(graph.streams), "antichain": buffers}}


def packing_record(result: PackingResult) -> dict[str, Any]:
    """Return the record that `optsched pack --json` prints."""
    problem = _problem(result)
    pools, offsets = result.places(len(problem))
    # Buffers without an offset were not placed.
    placed = {name: x for name, x in zip(problem.names, offsets.tolist(), strict=True) if x >= 0}
    pool = {"pool": dict(zip(problem.names, pools, strict=True))}
    # Reserved regions count as buffers: they take room too, and can be why the others do not fit.
    planned = Reserved(result.reserved, result.capacity).reduce(problem)[0]
    return {
        "graph": problem.name,
        "buffers": len(problem),
        "status": result.status,
        "stop_reason": result.stop_reason,
        "objective": Objective.SLAB,
        "capacity": result.capacity,
        "slab": result.slab,
        "slab_bound": result.slab_bound,
        "slab_proof": result.slab_proof,
        "runtime": round(result.runtime, 6),
        "compile_seconds": round(result.compile_seconds, 6),
        **packing_refusal(planned, result),
        **({"left_out": dict(result.left_out)} if result.left_out else {}),
        **_sharing_fields(problem),
        **({"reserved": [*map(str, result.reserved)]} if result.reserved else {}),
        **(pools_fields(problem, result) | pool if result.in_pools else {}),
        "offsets": placed if result.in_pools or result.offsets is not None else None,
        "memory_model": problem.memory_model,
        "versions": versions(),
    }


def plan_text(result: Result, record: Mapping[str, Any]) -> str:
    """Return a result and its :func:`plan_record` as a short text."""
    pools = spilled_lines(result, record) if result.in_pools else []
    return "\n".join([*result_lines(result, record), *pools, end_line(result)])


def packing_text(result: PackingResult, record: Mapping[str, Any]) -> str:
    """Return a packing's result and its :func:`packing_record` as a short text."""
    problem = _problem(result)
    if result.in_pools:
        pools = counted(len(result.packed), "pool")
        head = f"{readable(problem.name)}: {counted(len(problem), 'buffer')} in {pools}"
        return "\n".join([head, *pool_lines(problem, result, record), end_line(result)])
    why = _packing_bound(problem, result)
    lines = [
        f"{readable(problem.name)}: {counted(len(problem), 'buffer')}",
        f"  slab  {_value_line(result.slab, result.slab_bound, result.slab_proof, why)}",
        *_sharing_lines(record),
        *_capacity_lines(result, record),
        *(f"  not tried: {name}, {why}" for name, why in result.left_out.items()),
        end_line(result),
    ]
    return "\n".join(lines)


def _problem(result: PackingResult) -> PackingProblem:
    if result.problem is None:
        raise UsageError("a result without its live ranges has no record")
    return result.problem


def _packing_bound(problem: PackingProblem, result: PackingResult) -> str:
    """Return the reason for the bound of a packing, unless it is the usual one."""
    if result.slab_proof is not Proof.PACKING or result.slab is None:
        return ""
    # A region reserved by the caller may be the reason.
    if result.reserved:
        return "live and reserved bytes of one step, or the end of a region"
    if result.slab > problem.max_load:
        return "one buffer alone ends there"
    return "buffers that are all kept apart" if problem.max_load > problem.peak else ""


def _sharing_fields(problem: PackingProblem) -> dict[str, Any]:
    """Return the numbers of pairs and groups, and the heaviest set of buffers kept apart."""
    if not len(problem.keep_apart) and not problem.must_share:
        return {}
    culprits, where = fullest_set(problem)
    return {
        "peak": problem.peak,
        "keep_apart": len(problem.keep_apart),
        "must_share": len(problem.must_share),
        "heaviest_set": {
            "bytes": problem.max_load,
            "live": where,
            "buffers": [name for name, _ in culprits],
        },
    }


def _sharing_lines(record: Mapping[str, Any]) -> list[str]:
    heaviest = record.get("heaviest_set")
    if heaviest is None:
        return []
    pairs, groups = record["keep_apart"], record["must_share"]
    names = listed_names(heaviest["buffers"], SHOWN)
    return [
        f"  {counted(pairs, 'pair')} kept apart, {counted(groups, 'group')} sharing an offset",
        f"  at least {heaviest['bytes']:,} bytes: {names}, live {heaviest['live']}",
    ]


def end_line(result: Any) -> str:
    """Return the line on how a search ended."""
    return f"  {result.status} ({result.stop_reason}) after {result.runtime:.2f} s"


def result_lines(result: Result, record: Mapping[str, Any]) -> list[str]:
    """Return all lines of a result except the last, which tells how the search ended."""
    lines = [
        f"{readable(record['graph'])}: {counted(record['ops'], 'op')}, "
        f"{counted(record['buffers'], 'buffer')}"
        f"  (memory model: {readable(record['memory_model'])})",
        *([f"  only {result.restriction}:"] if result.restriction else []),
        f"  peak  {_value_line(result.peak, result.peak_bound, result.peak_proof)}",
        f"  slab  {_value_line(result.slab, result.slab_bound, result.slab_proof)}",
    ]
    # A slab above the peak of all pools can still be proved: each pool has its own peak.
    if result.slab_proof is Proof.JOINT and (result.slab or 0) > result.peak_bound:
        lines[-1] += ", summed over separate pools"
    if streams := record.get("streams"):
        lines.append(
            f"  {counted(len(streams['names']), 'stream')}: the peak consists of buffers that "
            f"pairwise may be in use at once: {listed_names(streams['antichain'], _NAMED)}"
        )
    slabs = record.get("slabs", {})
    if len(slabs) > 1:
        pools = ", ".join(f"{pool!r} {slab:,}" for pool, slab in slabs.items())
        lines.append(f"  the slabs of {len(slabs)} pools together: {pools} bytes")
    if sizes := record.get("regions"):
        workspace = sizes["workspace"]
        lines.append(
            f"  regions: blob {sizes['blob']:,}, constants {sizes['constants']:,}, workspace "
            f"{workspace['unique']:,} of ops alone and {workspace['shared']:,} shared"
        )
    if result.moved is not None:
        # Only where a baseline was given: without one, moves have no meaning.
        lines.append(f"  order {_moves(record['ops'], result)}")
    if apart := record.get("kept_apart"):
        lines.append(
            f"  at least {apart['bytes']:,} bytes are pairwise kept apart in every order: "
            f"{listed_names(apart['buffers'], SHOWN)}"
        )
    if result.claimed_bound is not None:
        lines.append(f"  a solver claims a bound of {result.claimed_bound:,} bytes")
    return lines + _capacity_lines(result, record) + arena_lines(record)


def _moves(ops: int, result: Result) -> str:
    """Return a phrase on how far the order is from the baseline."""
    near = result.baseline
    text = f"{result.moved} of {ops} ops moved from the baseline"
    if near is not None and near.max_moved is not None:
        text += f" (at most {near.max_moved} allowed)"
    if near is None or not near.fewest_moves:
        return text
    if result.moved == result.moved_bound:
        return f"{text}; proved: no plan as good moves fewer"
    return f"{text}; any plan as good moves at least {result.moved_bound}"


def _region_fields(graph: Graph, result: Result) -> dict[str, Any]:
    """Return the field `regions` if workspace or constants have separate regions."""
    if result.plan is None or not {WORKSPACE, CONSTANTS} & set(result.plan.slabs(graph)):
        return {}
    return {"regions": asdict(region_sizes(graph, result.plan))}


def _value_line(value: int | None, bound: int, proof: Proof | None, why: str = "") -> str:
    if value is None:
        least = f"none found; at least {counted(bound, 'byte')}"
        return "impossible" if bound > MAX_ADDRESS else least
    text = spelled_bytes(value)
    if proof is not None:
        return f"{text}  {proof.with_code}: {why or _PROOF_WORDS[proof]}"
    return f"{text}  at least {bound:,}, gap {most_less(value, bound)}"


def _capacity_lines(result: Result | PackingResult, record: Mapping[str, Any]) -> list[str]:
    if result.capacity is None:
        return []
    refused = "culprits" in record
    fits = result.stop_reason is StopReason.DECIDED and not refused
    # The reason was worked out when the record was made.
    lines = [f"  {refusal_text(record)}"] if refused else []
    if "within" in record:
        return [within_line(record, fits), *lines]
    if refused:
        return lines
    return [f"  {'fits' if fits else 'unknown if it fits'} in {result.capacity:,} bytes"]


def describe(graph: Graph) -> dict[str, Any]:
    """Return counts, bytes, the program order's peak and a simple bound, ready for JSON."""
    from heuristics import ORDERINGS

    arrays = graph.arrays
    # A simple bound, not a search, and of a large graph that of its fullest ops alone: `info`
    # answers at once for any graph.
    order = ORDERINGS["program"](graph, 0)
    bound = peak_lower_bound(graph, [order], clock=Clock.of(Limits(DESCRIBED_SECONDS)))
    return {
        "graph": graph.name,
        "memory_model": graph.model_name,
        "ops": len(graph.ops),
        "buffers": buffer_count(graph),
        "views": sum(buffer.alias_of is not None for buffer in graph.buffers),
        "dependencies": len(arrays.pred.idx),
        "graph_inputs": int((arrays.birth < 0).sum()),
        "graph_outputs": sum(buffer.output is not None for buffer in graph.buffers),
        "input_bytes": counted_input_bytes(graph),
        "unmanaged": [b.name for b in graph.buffers if b.output is OutputPolicy.OWN],
        "kept_bytes": int(arrays.size[arrays.keep].sum()),
        "bytes_in_all": int(arrays.size.sum()),
        "program_order_peak": peak_memory(graph, order),
        "estimates": {name: measure(graph, order) for name, measure in ESTIMATORS.items()},
        "peak_bound": bound.value,
        "peak_bound_op": None if bound.op is None else graph.ops[bound.op].name,
        "pools": sorted({graph.buffers[b].pool for b in graph.roots}),
        "inplace_candidates": len(graph.inplace_candidates),
        "keep_apart": len(graph.keep_apart),
        "must_share": len(graph.must_share),
        # What the in-place model would admit, whether or not the graph is read in it.
        "inplace_pairs": _count_pairs(graph) if graph.inplace_candidates else 0,
        "streams": list(graph.streams) if graph.on_streams else [],
    }


def _count_pairs(graph: Graph) -> int:
    return len(graph.without_streams().with_inplace().arrays.inplace_op)


def counted_input_bytes(graph: Graph) -> int:
    """Return the bytes of the graph inputs that count toward the peak."""
    return int(graph.arrays.size[graph.arrays.birth < 0].sum())


def info_text(found: dict[str, Any]) -> str:
    """Return the text of a graph's description."""
    at = found["peak_bound_op"]
    by_name = found.get("input_bytes_by_name", {})
    # Both readings must be known.
    difference = by_name.get("true", 0) - by_name.get("recorded", 0) if len(by_name) > 1 else 0
    pairs = f"{found['inplace_candidates']:,} candidates, {found['inplace_pairs']:,} admissible"
    bound = f"at least {format_bytes(found['peak_bound'])}"
    rows = {
        "memory model": readable(found["memory_model"]),
        "ops": f"{found['ops']:,}, {counted(found['dependencies'], 'dependency')}",
        "streams": ", ".join(map(repr, found["streams"][:8])),
        "buffers": f"{found['buffers']:,}, {found['views']:,} of them views",
        "inputs": f"{found['graph_inputs']:,}, {format_bytes(found['input_bytes'])} counted",
        "true inputs": f"{difference:+,} bytes against the recorded sizes" if difference else "",
        "outputs": f"{found['graph_outputs']:,}, {format_bytes(found['kept_bytes'])} kept",
        "in-place": f"{pairs} pairs" if found["inplace_candidates"] else "",
        "kept apart": counted(found["keep_apart"], "pair") if found["keep_apart"] else "",
        "one offset": counted(found["must_share"], "group") if found["must_share"] else "",
        "unmanaged": listed_names(found["unmanaged"], 8),
        "without reuse": format_bytes(found["bytes_in_all"]),
        "program order": f"peak {format_bytes(found['program_order_peak'])}",
        "any order": bound if at is None else f"{bound}, at op {at!r}",
    }
    lines = [f"  {name:14} {text}" for name, text in rows.items() if text]
    return "\n".join([readable(found["graph"]), *lines])


def packing_facts(table: PackingTable) -> dict[str, Any]:
    """Return a description of a packing problem, ready for JSON."""
    problem = table.problem
    pools = sorted({name for name in table.pools or [] if name})
    return {
        "graph": problem.name,
        "buffers": len(problem),
        "steps": len({*problem.start.tolist(), *problem.end.tolist()}),
        "pools": pools,
        "has_offsets": table.offsets is not None,
        "bytes_in_all": sum(problem.size.tolist()),
        "bound": problem.slab_bound,
    }


def packing_info_text(found: dict[str, Any]) -> str:
    """Return the text of a packing problem's description."""
    rows = {
        "buffers": f"{found['buffers']:,}, allocated or freed at {counted(found['steps'], 'step')}",
        "pools": listed_names(found["pools"], 8),
        "offsets": "in the file" if found["has_offsets"] else "",
        "without reuse": format_bytes(found["bytes_in_all"]),
        "any packing": f"at least {format_bytes(found['bound'])}",
        "plan": "optsched pack FILE",
    }
    lines = [f"  {name:14} {text}" for name, text in rows.items() if text]
    return "\n".join([readable(found["graph"]), *lines])


def blocked_text(path: str, facts: FileFacts, blocked: str) -> str:
    """Return the text of a model file that cannot be planned yet, with the reason last."""
    # Most frequent first; equal counts by name, so that the text is the same each time.
    kinds = sorted(facts.ops.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{count} {kind}" for kind, count in kinds[:8])
    more = f", {len(kinds) - 8} more types" if len(kinds) > 8 else ""
    rows = {
        "inputs": listed_names(facts.inputs, 8),
        "outputs": listed_names(facts.outputs, 8),
        "ops": f"{sum(facts.ops.values()):,}: {shown}{more}",
        "open": ", ".join(facts.open[:8]),
        # Most reasons end with it.
        "try": "" if facts.suggestion in blocked else facts.suggestion,
        "not planned": blocked.removeprefix(f"{path}: "),
    }
    lines = [f"  {name:14} {text}" for name, text in rows.items() if text]
    return "\n".join([readable(path, 300), *lines])


def trace_rows(trace: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the events of a search in the form of plan files."""
    return [
        {
            # Integers, so that a file reads back to the same text.
            "microseconds": round(event.seconds * 1e6),
            "incumbent": event.incumbent,
            "bound": event.bound,
            "source": event.source,
        }
        for event in trace
    ]


def trace_events(rows: Sequence[Mapping[str, Any]]) -> tuple[Event, ...]:
    """Return the events of a search from the rows of :func:`trace_rows`."""
    return tuple(
        Event(row["microseconds"] / 1e6, row["incumbent"], row["bound"], row["source"])
        for row in rows
    )
