"""The worst that `optsched hunt` finds for each method within ten ops or buffers."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.tables import markdown, read_rows, replace_table, write_rows
from heuristics import ORDERINGS, PACKINGS
from optsched.counterexamples import Counterexample, HuntTarget, hunt
from optsched.counterexamples.search import HuntSearch
from optsched.counterexamples.spaces import GraphSpace, PackingSpace
from optsched.formats import packing_of, write_graph, write_packing
from optsched.model.graph import Graph
from optsched.reports.hunt import paragraph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

HERE = Path(__file__).parent
TABLE = HERE / "hunted.csv"
ORDERING_TRIES, PACKING_TRIES = 60_000, 25_000
"""Instances per hunt."""
BYTES = {"ordering": (100,), "packing": (12, 100)}
"""Most bytes of a buffer; one hunt each, the worse result counts."""
MAX_OPS = 10


@dataclass(frozen=True, slots=True)
class Hunted:
    """A counterexample, how it was found, and the worst of all tiny instances."""

    name: str
    method: str
    value: int
    optimum: int
    size: int
    edges: int
    minimal: int
    tried: int
    seconds: float
    tiny_value: int
    tiny_optimum: int
    proof: str
    order: str
    story: str

    @property
    def ratio(self) -> float:
        """The loss."""
        return self.value / self.optimum


def hunt_all(folder: Path, methods: Collection[str] = ()) -> Iterator[Hunted]:
    """Hunt for some methods or for all, write what is found, yield it, and make the tables.

    Rows of methods that are not hunted stay as they are.
    """
    rows = {row.method: row for row in read_rows(TABLE, Hunted)} if methods else {}
    everything = (*ORDERINGS, *PACKINGS)
    for method in (m for m in everything if m in methods or not methods):
        found = rows[method] = _hunt(folder, method)
        print(f"{method}: {found.ratio:.3f} in {found.seconds:.1f} s", file=sys.stderr)
        yield found
    write_rows(TABLE, [rows[method] for method in everything])
    write_tables()


def _hunt(folder: Path, method: str) -> Hunted:
    name, started = f"hunted_{method}", time.perf_counter()
    kind = "ordering" if method in ORDERINGS else "packing"
    tries = ORDERING_TRIES if kind == "ordering" else PACKING_TRIES
    done = [
        hunt(
            HuntTarget(method, max_ops=MAX_OPS, max_bytes=most, seconds=None, tries=tries),
            name=name,
        )
        for most in BYTES[kind]
    ]
    example: Counterexample = max(
        (d.counterexample for d in done if d.counterexample), key=lambda example: example.loss.score
    )
    seconds = time.perf_counter() - started
    if not example.optimum.proved:
        raise RuntimeError(f"{name}: {example.optimum.proof}")
    if isinstance(example.item, Graph):
        write_graph(example.item, folder / f"{name}.json")
        order = " ".join(example.item.ops[v].name for v in example.plans[method].order)
        size, edges = len(example.item.ops), sum(len(op.reads) for op in example.item.ops)
    else:
        write_packing(packing_of(example.item), folder / f"{name}.csv")
        order, size, edges = "", len(example.item), 0
    return Hunted(
        name,
        method,
        example.loss.value,
        example.loss.rival,
        size,
        edges,
        int(example.minimal),
        sum(d.tried for d in done),
        round(seconds, 1),
        *tiny_worst(method),
        f"hunted; {example.optimum.proof}",
        order,
        paragraph(example),
    )


def tiny_worst(method: str) -> tuple[int, int]:
    """Return the worst value and optimum of all that a hunt enumerates; 0, 0 without a loss."""
    space = GraphSpace if method in ORDERINGS else PackingSpace
    search = HuntSearch(space(HuntTarget(method, max_ops=5, max_bytes=3)), Clock(Limits()))
    search.enumerate()
    return (search.loss.value, search.loss.rival) if search.loss else (0, 0)


def write_tables() -> None:
    """Make the tables of the README from the stored results."""
    rows = read_rows(TABLE, Hunted)
    head = ("method", "ratio", "bytes", "optimum", "ops", "edges", "tiny", "tried", "seconds")
    for name, methods in (("orderings", ORDERINGS), ("packings", PACKINGS)):
        lines = [_line(row) for row in rows if row.method in methods]
        replace_table(HERE / "README.md", name, markdown(head, lines))
    told = "".join(f"- **{r.method}**, {r.value} and not {r.optimum}: {r.story}\n" for r in rows)
    replace_table(HERE / "README.md", "stories", told)


def _line(row: Hunted) -> tuple[str, ...]:
    tiny = f"{row.tiny_value / row.tiny_optimum:.2f}" if row.tiny_optimum else "never"
    return (
        row.method,
        f"{row.ratio:.2f}",
        str(row.value),
        str(row.optimum),
        str(row.size),
        str(row.edges) if row.edges else "",
        tiny,
        f"{row.tried:,}",
        f"{row.seconds:.0f}",
    )
