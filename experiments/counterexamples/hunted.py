"""The worst that `optsched hunt` finds for each method within ten ops or buffers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from heuristics import ORDERINGS, PACKINGS
from optsched.formats import packing_of, write_graph, write_packing
from optsched.hunt import GraphFind, Hunt, Quarry, hunt
from optsched.report.hunt import paragraph
from optsched.report.record import order_names

TRIES = {"ordering": 100_000, "packing": 40_000}
"""Instances per method: what a minute of one core does twice over, hill climbing excepted."""
MAX_OPS = 10


@dataclass(frozen=True, slots=True)
class Hunted:
    """A find, the name of its file, and the seconds of the search."""

    name: str
    method: str
    value: int
    optimum: int
    proof: str
    order: str
    size: int
    edges: int
    minimal: bool
    story: str
    tried: int
    seconds: float


def hunt_all(folder: Path, methods: Iterable[str] = (*ORDERINGS, *PACKINGS)) -> Iterator[Hunted]:
    """Hunt for each method, write what is found, and yield it."""
    for method in methods:
        tries = TRIES["ordering" if method in ORDERINGS else "packing"]
        started = time.perf_counter()
        name = f"hunted_{method}"
        quarry = Quarry(method, max_ops=MAX_OPS, seconds=None, tries=tries)
        found = _keep(folder, name, hunt(quarry, name=name), time.perf_counter() - started)
        if found is not None:
            yield found


def _keep(folder: Path, name: str, done: Hunt, seconds: float) -> Hunted | None:
    find = done.find
    if find is None or not find.optimum.proved:
        return None
    if isinstance(find, GraphFind):
        write_graph(folder / f"{name}.json", find.item)
        order = " ".join(order_names(find.item, find.plans[find.quarry.method].order))
        size, edges = len(find.item.ops), sum(len(op.reads) for op in find.item.ops)
    else:
        write_packing(folder / f"{name}.csv", packing_of(find.item))
        order, size, edges = "", len(find.item), 0
    return Hunted(
        name,
        find.quarry.method,
        find.loss.value,
        find.optimum.value,
        f"hunted; {find.optimum.proof}",
        order,
        size,
        edges,
        find.minimal,
        paragraph(find),
        done.tried,
        seconds,
    )
