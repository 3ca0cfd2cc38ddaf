"""The graphs of the study, by family: files of `instances/`, and generated ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from optsched.formats import read_graph
from optsched.model.graph import Graph
from tests.support.families.cells import darts_cell, randwire_cell
from tests.support.families.shapes import layered, series_parallel, unet
from tests.support.families.wiring import checkpointed, random_wiring, training

INSTANCES = Path(__file__).parents[2] / "instances"
MADE_TO_FAIL = "counterexamples"
"""The family of graphs found by looking for those on which a heuristic is bad."""

Maker = Callable[[], Graph]


def files(folder: Path = INSTANCES) -> dict[str, list[Maker]]:
    """Makers of all graphs in files, by family; packings without a graph are left out."""
    found: dict[str, list[Maker]] = {}
    for path in sorted(folder.glob("*/*.json*")):
        found.setdefault(family_of(path), []).append(partial(read_graph, path))
    return found


def family_of(path: Path) -> str:
    """Return the family of a file: its folder, and of a captured graph the part of the program."""
    if path.parent.name != "inductor":
        return path.parent.name
    part = path.name.split(".")[-3]
    if part == "bwd" and "_ac0.5" in path.name:
        return "captured backward, checkpointed"
    return {"fwd": "captured forward", "bwd": "captured backward", "infer": "captured inference"}[
        part
    ]


GENERATED: dict[str, list[Maker]] = {
    "training": [partial(training, n, seed) for n in (28, 140) for seed in (1, 2, 3)],
    "checkpointed training": [partial(checkpointed, n) for n in (2, 4, 8, 12)],
    "U-Net": [partial(unet, depth) for depth in (3, 4, 5, 6)],
    "U-Net training": [partial(unet, depth, train=True) for depth in (3, 4, 5, 6)],
    "layered": [partial(layered, 16, seed, w) for w in (3, 6) for seed in (0, 1, 2)],
    "series-parallel": [partial(series_parallel, n, s) for n in (40, 120) for s in (0, 1, 2)],
    "random wiring": [
        partial(random_wiring, 48, seed, unit=unit) for unit in (True, False) for seed in (0, 1, 2)
    ],
    "DARTS cell": [darts_cell, partial(darts_cell, preprocess=False)],
    "RandWire cell": [partial(randwire_cell, seed) for seed in range(6)],
}
"""Makers of generated graphs by family."""


def all_families() -> dict[str, list[Maker]]:
    """Every family."""
    return {**files(), **GENERATED}
