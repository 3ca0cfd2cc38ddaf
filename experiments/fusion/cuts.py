"""Least peak over all ways to undo fusions, of captured graphs with the parts of fused nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.tables import markdown
from optsched.formats.fused import read_fused
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.fusion.front import find_front, knee
from optsched.solver.fusion.search import search_fusion

WORK = 1_000_000
"""Units of work for the search of a graph, so that figures do not depend on the machine's load; the
prices get as much. About ten seconds of one processor."""


@dataclass(frozen=True, slots=True)
class CutRow:
    """One graph: peaks in bytes, kernels, and the bytes that they move."""

    graph: str
    parts: int
    nodes: int
    fused: int
    best: int
    bound: int
    """`fused`, `best` and `bound`: peak of whole nodes, least peak found over all splits and
    orders, and its bound."""
    fused_kernels: int
    cut: int
    kernels: int
    traffic: float
    """`cut`, `kernels` and `traffic`: nodes cut, kernels and traffic of the cheapest split found
    for the least peak."""
    knee_peak: int
    knee_cut: int
    knee_kernels: int
    knee_traffic: float
    """`knee_peak`, `knee_cut`, `knee_kernels` and `knee_traffic`: figures of the front's knee."""
    branches: int
    seconds: float
    """Processor's seconds."""


def cut_rows(folder: Path, work: int = WORK) -> Iterator[CutRow]:
    """Yield a row per captured graph of a folder."""
    for path in sorted(folder.glob("*.json.gz")):
        yield measure(path, work)


def measure(path: Path, work: int) -> CutRow:
    """Search one graph, and the prices of its splits."""
    fused, start = read_fused(path), time.process_time()
    result = search_fusion(fused, Clock.of(Limits(work=work)))
    front = find_front(result, Clock.of(Limits(work=work))).points
    last, middle, whole = front[-1], knee(front), result.whole
    base = max(1, whole.traffic)
    return CutRow(
        graph=path.name.removesuffix(".json.gz"),
        parts=len(fused.graph.ops),
        nodes=len(fused.nodes),
        fused=whole.peak,
        best=last.peak,
        bound=result.bound,
        fused_kernels=whole.kernels,
        cut=len(last.cut_nodes(fused)),
        kernels=last.kernels,
        traffic=last.traffic / base,
        knee_peak=middle.peak,
        knee_cut=len(middle.cut_nodes(fused)),
        knee_kernels=middle.kernels,
        knee_traffic=middle.traffic / base,
        branches=result.branches,
        seconds=time.process_time() - start,
    )


def cut_table(rows: Sequence[CutRow]) -> str:
    """Return the table of the README, the largest change first."""
    head = ["graph", "parts", "all fused", "best split", "change", "bound", "cut", "kernels"]
    head += ["traffic", "knee", "knee: cut", "knee: kernels", "knee: traffic", "branches", "s"]
    ranked = sorted(rows, key=lambda row: (row.best / row.fused, row.graph))
    return markdown(head, [_cells(row) for row in ranked])


def _cells(row: CutRow) -> list[str]:
    proved = "" if row.bound < row.best else " (proved)"
    return [
        row.graph,
        str(row.parts),
        _mega(row.fused),
        _mega(row.best),
        f"{100 * (row.best / row.fused - 1):.1f} %",
        f"{_mega(row.bound)}{proved}",
        str(row.cut),
        f"{row.fused_kernels} -> {row.kernels}",
        f"x{row.traffic:.3f}",
        _mega(row.knee_peak),
        str(row.knee_cut),
        f"{row.fused_kernels} -> {row.knee_kernels}",
        f"x{row.knee_traffic:.3f}",
        str(row.branches),
        f"{row.seconds:.0f}",
    ]


def _mega(size: int) -> str:
    return f"{size / 1e6:,.1f}"
