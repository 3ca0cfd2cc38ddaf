"""The tables of the study as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.fusion.measure import Row
from experiments.fusion.smallest import QUESTIONS, smallest
from experiments.tables import markdown
from optsched.model.graph import Graph

MOST_OPS = 5
"""Most ops of the graphs tried for the smallest."""


def built(rows: Sequence[Row]) -> str:
    """Return peaks of the examples built here, in buffers (reductions: sums have size 1)."""
    head = ["graph", "fused", "ops", "worst of Inductor's four", "Inductor's choice"]
    head += ["least", "proof"]
    return markdown(
        head,
        [
            [
                r.graph,
                r.fusion,
                str(r.ops),
                *(_in(r, v) for v in (r.worst, r.choice, r.least)),
                _proof(r),
            ]
            for r in rows
            if r.study == "built"
        ],
    )


def captured(rows: Sequence[Row]) -> str:
    """Return peaks of the examples as Inductor lowers them, in tensors."""
    head = ["example", "for", "settings", "ops", "worst", "choice", "least", "proof"]
    head += ["without local buffers: choice", "least"]
    lines = []
    for r in (r for r in rows if r.study == "captured"):
        peaks = [_in(r, v) for v in (r.worst, r.choice, r.least)]
        local = [_in(r, r.local_choice), _in(r, r.local_least)]
        lines.append([r.graph, r.device, r.fusion, str(r.ops), *peaks, _proof(r), *local])
    return markdown(head, lines)


def models(rows: Sequence[Row]) -> str:
    """Return peaks of whole models in MB: fused, and without the scheduler's fusion."""
    head = ["graph", "ops", "Inductor's choice", "least", "least without local buffers"]
    head += ["unfused: ops", "Inductor's choice", "least", "fused / unfused, %"]
    shown = [r for r in rows if r.study == "models"]
    lines = []
    for fused, apart in zip(shown[::2], shown[1::2], strict=True):
        cells = [str(fused.ops), _mb(fused.choice), _least(fused), _mb(fused.local_least)]
        cells += [str(apart.ops), _mb(apart.choice), _least(apart)]
        ratio = 100 * (fused.local_least / apart.least - 1)
        lines.append([fused.graph, *cells, f"{ratio:+.2f}"])
    return markdown(head, lines)


def smallest_graphs() -> str:
    """Return the answers to each question of the exhaustive search."""
    head = ["fusion", "sizes up to", "smallest graph (op:bytes<-reads)", "fused", "least peak"]
    head += ["fusions of fewer ops tried"]
    lines = []
    for question in QUESTIONS:
        found = smallest(question, MOST_OPS)
        cells = [f"none up to {MOST_OPS} ops", "", "", ""]
        if found is not None:
            u, v = (found.graph.ops[w].name for w in found.pair)
            change = f"{found.before} -> {found.after}"
            cells = [_drawn(found.graph), f"{u}, {v}", change, str(found.fewer)]
        lines.append([question.text, str(question.largest), *cells])
    return markdown(head, lines)


def _drawn(graph: Graph) -> str:
    words = []
    for op in graph.ops:
        reads = "".join(graph.buffers[b].name for b in op.reads)
        size = sum(graph.buffers[b].size for b in op.writes)
        words.append(f"{op.name}:{size}" + (f"<-{reads}" if reads else ""))
    return "`" + " ".join(words) + "`"


def _in(row: Row, value: int) -> str:
    return f"{value / row.unit:.2f}".removesuffix(".00")


def _mb(value: int) -> str:
    return f"{value / 1e6:,.1f}"


def _proof(row: Row) -> str:
    return row.proof or f"above {_in(row, row.bound)}"


def _least(row: Row) -> str:
    return _mb(row.least) + ("" if row.least == row.bound else f" (above {_mb(row.bound)})")
