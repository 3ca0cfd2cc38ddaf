"""What a graph is made of, in numbers."""

from __future__ import annotations

from typing import Any

from optsched.model.graph import Graph
from optsched.model.liveness import ESTIMATORS, peak_memory
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import readable


def describe(graph: Graph) -> dict[str, Any]:
    """Return counts, bytes, the peak of the program order and a simple bound, as plain JSON."""
    from heuristics import ORDERINGS

    arrays = graph.arrays
    order = ORDERINGS["program"](graph, 0)
    bound = peak_lower_bound(graph, [order])
    made = arrays.birth >= 0
    return {
        "instance": graph.name,
        "memory_model": graph.model_name,
        "ops": len(graph.ops),
        "buffers": len(graph.buffers),
        "views": sum(buffer.alias_of is not None for buffer in graph.buffers),
        "dependencies": len(arrays.pred.idx),
        "graph_inputs": int((~made).sum()),
        "graph_outputs": sum(buffer.output is not None for buffer in graph.buffers),
        "input_bytes": counted_input_bytes(graph),
        "kept_bytes": int(arrays.size[arrays.keep].sum()),
        "bytes_in_all": int(arrays.size.sum()),
        "program_order_peak": peak_memory(graph, order),
        "estimates": {name: measure(graph, order) for name, measure in ESTIMATORS.items()},
        "peak_bound": bound.value,
        "peak_bound_op": None if bound.op is None else graph.ops[bound.op].name,
        "pools": sorted({graph.buffers[b].pool for b in graph.roots}),
        "inplace_candidates": len(graph.inplace_candidates),
        "inplace_pairs": len(graph.with_inplace().arrays.inplace_op),
    }


def counted_input_bytes(graph: Graph) -> int:
    """Return the bytes of the graph inputs that count."""
    arrays = graph.arrays
    return int(arrays.size[arrays.birth < 0].sum())


def info_text(record: dict[str, Any]) -> str:
    """Return the same in lines of words."""
    at = record["peak_bound_op"]
    by_name = record.get("input_bytes_by_name", {})
    difference = by_name.get("true", 0) - by_name.get("recorded", 0)
    rows = [
        ("memory model", readable(record["memory_model"])),
        ("ops", f"{record['ops']:,}, {record['dependencies']:,} dependencies"),
        ("buffers", f"{record['buffers']:,}, {record['views']:,} of them views"),
        ("inputs", f"{record['graph_inputs']:,}, {format_bytes(record['input_bytes'])} counted"),
        *(
            [("true inputs", f"{difference:+,} bytes against the recorded sizes")]
            if len(by_name) > 1 and difference
            else []
        ),
        ("outputs", f"{record['graph_outputs']:,}, {format_bytes(record['kept_bytes'])} kept"),
        *(
            [
                (
                    "in-place",
                    f"{record['inplace_candidates']:,} candidates, "
                    f"{record['inplace_pairs']:,} admissible pairs",
                )
            ]
            if record["inplace_candidates"]
            else []
        ),
        ("without reuse", format_bytes(record["bytes_in_all"])),
        ("program order", f"peak {format_bytes(record['program_order_peak'])}"),
        (
            "any order",
            f"at least {format_bytes(record['peak_bound'])}" + (f", at op {at!r}" if at else ""),
        ),
    ]
    return "\n".join(
        [readable(record["instance"]), *(f"  {name:14} {text}" for name, text in rows)]
    )
