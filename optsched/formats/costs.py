"""Costs of running ops again: derived from a graph, or read from a file of measured times.

Importers count floating-point operations (:mod:`optsched.formats.fx.costs`). With the bytes that
an op reads and writes they give four cost models:

- `flops`: the operations counted;
- `bytes`: the bytes of the buffers that the op reads and writes;
- `roofline`: picoseconds on a device of 20 Tflop/s and 1.5 TB/s, the larger of the times for the
  operations and for the bytes;
- `kernel`: the same, but an op that TorchInductor computes inside the kernel of its reader costs
  only the other bytes that it reads, those that no op of the same kernel makes.

For example, let `gelu` read 3,000 bytes that a matrix product makes, and write 3,000 bytes. It
costs 4,000 ps by roofline (6,000 bytes at 1.5 bytes/ps), and 2,000 ps as a part of a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from optsched.errors import FormatError, UsageError
from optsched.formats.fields import Record, check_format
from optsched.formats.fusible import is_fusible
from optsched.formats.fx.costs import COST_UNIT
from optsched.formats.source import decode_text, errors_named, label_of, parse_json, read_bytes
from optsched.model.elements import Op
from optsched.model.graph import Graph
from optsched.runtime.limits import choose_member

COSTS_FORMAT = "optsched-costs/1"
FLOPS_PER_PS, BYTES_PER_PS = 20, 1.5
"""Imagined device of the cost models: 20 Tflop/s, 1.5 TB/s."""


class CostModel(StrEnum):
    """Cost of one more run of an op."""

    KERNEL = "kernel"
    ROOFLINE = "roofline"
    FLOPS = "flops"
    BYTES = "bytes"
    GIVEN = "given"
    """The costs that the graph or a file of costs states."""


def with_costs(graph: Graph, model: CostModel | str | None = None) -> Graph:
    """Return the graph with the costs of a model; by default `kernel` if the graph counts flops.

    Raise `UsageError` if the model is unknown, or needs operations but the graph states costs of
    another unit.
    """
    if model is None:
        # A cost without a unit, or counted by an importer, says nothing about seconds.
        model = CostModel.KERNEL if graph.cost_unit in ("", COST_UNIT) else CostModel.GIVEN
    chosen = choose_member(CostModel, model, "cost model")
    if chosen is CostModel.GIVEN:
        if not graph.cost_unit:
            raise UsageError(f"graph {graph.name!r} states no costs: choose another cost model")
        return graph
    if graph.cost_unit not in ("", COST_UNIT) and chosen is not CostModel.BYTES:
        raise UsageError(
            f"cost model {str(chosen)!r} needs {COST_UNIT!r}, but graph {graph.name!r} states "
            f"{graph.cost_unit!r}: use the cost model 'given' or 'bytes'"
        )
    costs = [_cost(graph, op, chosen) for op in graph.ops]
    device = ", 20 Tflop/s, 1.5 TB/s"
    units = {CostModel.FLOPS: COST_UNIT, CostModel.BYTES: "bytes read and written"}
    return graph.with_costs(costs, units.get(chosen, f"ps ({chosen}{device})"))


def _cost(graph: Graph, op: Op, model: CostModel) -> int:
    if model is CostModel.FLOPS:
        return op.cost
    # A view that only renames bytes costs nothing.
    made = [graph.buffers[b] for b in op.writes]
    if made and all(x.alias_of is not None and not x.mutates for x in made):
        return 0
    flops = op.cost if graph.cost_unit == COST_UNIT else 0
    fused = model is CostModel.KERNEL and is_fusible(op.kind)
    read = {graph.roots[b] for b in op.reads}
    if fused:
        # Fused, an op reads its other operands only, and its own result stays in a register.
        moved = sum(graph.buffers[b].size for b in read if not _is_fused(graph, b))
    else:
        moved = sum([graph.buffers[b].size for b in (*read, *op.writes)])
    if model is CostModel.BYTES:
        return moved
    # The roofline: the slower one of arithmetic and memory decides.
    return max(flops // FLOPS_PER_PS, int(moved / BYTES_PER_PS))


def moved_cost(bytes_: int, model: CostModel | str) -> int:
    """Return the cost of bytes that are read or written besides ops; 0 if a model counts none."""
    if model in (CostModel.KERNEL, CostModel.ROOFLINE):
        return int(bytes_ / BYTES_PER_PS)
    return bytes_ if model == CostModel.BYTES else 0


def _is_fused(graph: Graph, b: int) -> bool:
    maker = graph.producers[b]
    return maker is not None and is_fusible(graph.ops[maker].kind)


def read_costs(path: str | Path, graph: Graph) -> Graph:
    """Return the graph with the costs of a file `{"format": ..., "unit": ..., "costs": {op: n}}`.

    The file may name its graph under `graph`.

    Raise `FormatError` if the file is malformed, or a cost is missing, negative or of an op of
    another graph.
    """
    data = read_bytes(path)
    with errors_named(label_of(path)):
        top = Record(parse_json(decode_text(data)), "costs")
        check_format(top, COSTS_FORMAT)
        top.refuse_unknown({"format", "unit", "costs", "graph"})
        named = top.text("graph", graph.name)
        if named != graph.name:
            raise FormatError(f"costs are of graph {named!r}, this is {graph.name!r}")
        costs = Record(top.mapping("costs"), "costs")
        return costs_of(graph, {name: costs.count(name) for name in costs.value}, top.text("unit"))


def costs_of(graph: Graph, costs: Mapping[str, int], unit: str) -> Graph:
    """Return the graph with costs by the names of ops."""
    unknown = [name for name in costs if name not in graph.op_ids]
    if unknown:
        raise FormatError(
            f"costs name op {unknown[0]!r}, which is not in graph {graph.name!r}: "
            "they may be of another graph"
        )
    # All or none: a missing cost would count as 0 and the op would be run again for nothing.
    missing = [op.name for op in graph.ops if op.name not in costs]
    if missing:
        raise FormatError(f"costs miss op {missing[0]!r} of graph {graph.name!r}")
    return graph.with_costs([costs[op.name] for op in graph.ops], unit or "given")
