"""Run every sorter with every packer on a graph, and keep the bytes beside the proved least."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from heuristics import ORDERINGS, PACKINGS
from optsched.compare import OUR_METHOD, compare_methods
from optsched.model.graph import Graph
from optsched.runtime.limits import Limits

HEAD = ("instance", "family", "ops", "least_peak", "least_slab", "proved", "sorter", "peak")


@dataclass(frozen=True)
class GraphFigures:
    """Results for one graph."""

    instance: str
    family: str
    ops: int
    """`instance`, `family` and `ops`: the graph."""
    least_peak: int
    least_slab: int
    """`least_peak` and `least_slab`: bytes: the least of all orders, and of all orders and
    packings; the best known if not `proved`."""
    proved: bool
    """True if both are proved."""
    peaks: dict[str, int]
    """By sorter."""
    slabs: dict[tuple[str, str], int]
    """By sorter and packer; the sorter `optsched` is the order of our plan."""


def measure(graph: Graph, family: str, seconds: float) -> GraphFigures:
    """Run all pairs; raise if one has no plan."""
    limits = Limits(seconds)
    compared = compare_methods(graph, methods=["all-pairs", "all-packings"], limits=limits)
    if compared.failed:
        raise RuntimeError(f"{graph.name}: {compared.failed[0].method} {compared.failed[0].reason}")
    rows = {row.method: row for row in compared.rows}
    peaks, slabs = {}, {}
    # A sorter's peak is the same with each packer: it is written over, and stays.
    for sorter in ORDERINGS:
        for packer in PACKINGS:
            row = rows[f"{sorter}+{packer}"]
            peaks[sorter], slabs[sorter, packer] = row.peak, row.slab
    # A packer alone is run on the order of our plan.
    slabs |= {(OUR_METHOD, packer): rows[packer].slab for packer in PACKINGS}
    ours, result = rows[OUR_METHOD], compared.result
    peaks[OUR_METHOD] = ours.peak
    # Of a graph whose least slab needs an order above the least peak, another has the least peak.
    least = min(peaks.values()), min(ours.slab, *slabs.values())
    return GraphFigures(
        instance=graph.name,
        family=family,
        ops=len(graph.ops),
        least_peak=least[0],
        least_slab=least[1],
        proved=least == (result.peak_bound, result.slab_bound),
        peaks=peaks,
        slabs=slabs,
    )


def excess(value: int, least: int) -> float:
    """Return `value / least - 1`; 0 where both are 0."""
    return value / least - 1 if least else float(value > 0)


def mean_excess(values: Sequence[float]) -> float:
    """Return the geometric mean of `1 + value`, less 1."""
    # Geometric, as excesses are ratios: twice and half as much cancel out.
    return exp(sum(log(1 + value) for value in values) / len(values)) - 1


def write_found(path: Path, found: Sequence[GraphFigures]) -> None:
    """Write a row for each graph and sorter, with a column for each packer."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        packers = [p for s, p in found[0].slabs if s == OUR_METHOD]
        writer.writerow([*HEAD, *packers])
        for x in found:
            for sorter, peak in x.peaks.items():
                head = (x.instance, x.family, x.ops, x.least_peak, x.least_slab, int(x.proved))
                writer.writerow([*head, sorter, peak, *(x.slabs[sorter, p] for p in packers)])


def read_found(path: Path) -> Iterator[GraphFigures]:
    """Read what :func:`write_found` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        packers = [name for name in reader.fieldnames or () if name not in HEAD]
    for name in dict.fromkeys((row["instance"], row["family"]) for row in rows):
        own = [row for row in rows if (row["instance"], row["family"]) == name]
        yield GraphFigures(
            *name,
            int(own[0]["ops"]),
            int(own[0]["least_peak"]),
            int(own[0]["least_slab"]),
            own[0]["proved"] == "1",
            {row["sorter"]: int(row["peak"]) for row in own},
            {(row["sorter"], p): int(row[p]) for row in own for p in packers},
        )
