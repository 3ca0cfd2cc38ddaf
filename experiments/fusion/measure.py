"""Peaks of fused and unfused graphs: of Inductor's order, and the least of all orders."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.fusion.captured import TENSOR, examples, unfused_models, without_local
from experiments.fusion.fuse import accumulate, reductions
from heuristics import ORDERINGS
from optsched.errors import OptschedError
from optsched.formats.inductor import read_inductor
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.runtime.limits import Limits, Objective
from optsched.solver.pipeline import solve

INSTANCES = Path(__file__).parents[2] / "instances" / "inductor"
SECONDS = 120.0
"""Limit of our solver per graph."""


@dataclass(frozen=True, slots=True)
class Row:
    """One graph."""

    study: str
    """`built`, `captured` or `models`."""
    graph: str
    device: str
    fusion: str
    """`graph`, `device` and `fusion`: which graph, for which device, fused how."""
    ops: int
    """Count."""
    worst: int
    choice: int
    """`worst` and `choice`: peaks of the worst of Inductor's four orders and of the one it takes,
    bytes."""
    least: int
    bound: int
    proof: str
    """`least`, `bound` and `proof`: the least peak found, the proven bound on every order's, bytes,
    and its proof."""
    local_choice: int
    local_least: int
    local_bound: int
    """`local_choice`, `local_least` and `local_bound`: same figures if buffers inside one fused op
    take no bytes."""
    unit: int
    """Bytes that make one in the tables."""


def built_rows() -> Iterator[Row]:
    """Yield the examples as graphs of our own, fused more and more, in both memory models."""
    graphs = [
        (f"accumulate {terms}", _at_once(step, terms), accumulate(terms, 1, step))
        for terms in (4, 16, 64)
        for step in sorted({1, 2, 4, terms})
    ]
    graphs += [
        (f"{count} reductions", "all" if fused else "none", reductions(count, 100, 1, fused=fused))
        for count in (2, 8)
        for fused in (False, True)
    ]
    for name, fusion, graph in graphs:
        yield _built(name, fusion, graph)
        if graph.inplace_candidates:
            yield _built(f"{name}, in-place", fusion, graph.with_inplace())


def captured_rows() -> Iterator[Row]:
    """Yield the examples as Inductor lowers them."""
    for lowered in examples():
        where = (lowered.example, lowered.device, lowered.settings)
        yield _captured("captured", *where, lowered.document, TENSOR)


def model_rows(folder: Path) -> Iterator[Row]:
    """Yield each graph of the models as shipped, and without fusion in the scheduler."""
    for name, unfused in unfused_models(folder):
        fused = json.loads(gzip.decompress((INSTANCES / f"{name}.json.gz").read_bytes()))
        for fusion, document in (("default", fused), ("no fusion in the scheduler", unfused)):
            yield _captured("models", name, "cpu", fusion, document, 10**6)


def _at_once(step: int, terms: int) -> str:
    return "none" if step == 1 else "all" if step == terms else f"{step} at once"


def _built(name: str, fusion: str, graph: Graph) -> Row:
    peaks = [
        peak_memory(graph, ORDERINGS[method](graph, 0))
        for method in ("program", "lpmf", "bfs", "dfs")
    ]
    choice = peak_memory(graph, ORDERINGS["inductor"](graph, 0))
    least, bound, proof = _least(graph)
    found = (max(peaks), choice, least, bound, proof)
    return Row("built", name, "-", fusion, len(graph.ops), *found, choice, least, bound, 1)


def _captured(
    study: str, name: str, device: str, fusion: str, document: dict[str, Any], unit: int
) -> Row:
    peaks, chosen = document["extra"]["peaks"], document["extra"]["chosen"]
    order = document["extra"]["orders"][chosen]
    graph = read_inductor(document, name=name)
    if peak_memory(graph, order) != peaks[chosen]:
        raise OptschedError(f"{name}: torch's peak of {chosen} is not that of its order")
    local = read_inductor(without_local(document), name=f"{name} without local buffers")
    least, bound, proof = _least(graph)
    found = (max(peaks.values()), peaks[chosen], least, bound, proof)
    local_least, local_bound, _ = _least(local)
    local_found = (peak_memory(local, order), local_least, local_bound)
    return Row(study, name, device, fusion, len(graph.ops), *found, *local_found, unit)


def _least(graph: Graph) -> tuple[int, int, str]:
    result = solve(graph, objective=Objective.PEAK, limits=Limits(seconds=SECONDS))
    if result.peak is None:
        raise OptschedError(f"{graph.name}: no plan within {SECONDS} s")
    return result.peak, result.peak_bound, str(result.peak_proof or "")
