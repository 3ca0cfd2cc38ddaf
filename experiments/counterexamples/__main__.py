"""Write the counterexamples and their tables: `python -m experiments.counterexamples [PART...]`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from experiments.counterexamples.change import losing_changes
from experiments.counterexamples.graphs import (
    XLA_EDGES,
    XLA_SIZES,
    accumulated_reads,
    one_buffer_per_edge,
    one_buffer_per_op,
)
from experiments.counterexamples.growth import measure_growth
from experiments.counterexamples.hunted import hunt_all
from experiments.counterexamples.joint import (
    freest_of_eight,
    least_joint,
    peak_given_up,
    shortest_chain,
    smallest_and_freest,
)
from experiments.counterexamples.search import Loss, build, smallest_graphs, smallest_packings
from experiments.counterexamples.versus import versus_table
from experiments.tables import read_rows, write_rows
from heuristics import ORDERINGS, PACKINGS
from optsched.formats import packing_of, write_graph, write_packing
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.steps import Order
from tests.support.brute import least_peak

SEQUENCES = {
    "comment's list schedule": "ADEFBCG",
    "comment's optimum": "ABCDEFG",
    "B alive while F executes": "ADEBFCG",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of `best_known.csv`."""

    instance: str
    method: str
    value: int
    optimum: int
    proof: str
    order: str = ""


def main(folder: Path, parts: Sequence[str], methods: Sequence[str] = ()) -> None:
    """Make some parts, or all; lines of the others stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    makers = {**PARTS, "hunted": partial(_hunted, methods=methods)}
    entries = [entry for part in parts or makers for entry in makers[part](folder)]
    made = {entry.instance for entry in entries}
    path = folder / "best_known.csv"
    # A part that is not made now keeps its lines.
    old = read_rows(path, Entry) if path.exists() else []
    entries = [*(entry for entry in old if entry.instance not in made), *entries]
    write_rows(path, entries)
    _print(
        ("instance", "method", "value", "optimum", "proof", "order"),
        [(e.instance, e.method, e.value, e.optimum, e.proof, e.order) for e in entries],
    )


def _comment(folder: Path) -> Iterable[Entry]:
    """The graph in the XLA scheduler's comment, as drawn and with the least changes."""
    for make in (one_buffer_per_op, one_buffer_per_edge):
        graph = make(f"xla_comment_{make.__name__}", XLA_SIZES, XLA_EDGES)
        yield from _judge(folder, graph, _all_orders(graph))
    print("\nLeast changes of the drawing under which XLA's list scheduler loses:")
    changes = losing_changes()
    _print(
        ("change", "list", "optimum"),
        [(c.words, c.list_peak, c.least_peak) for c in changes],
    )
    # The one change of a size after which the comment's own words hold: 6 bytes, 5 possible.
    meant = next(c for c in changes if "B's buffer" in c.words)
    graph = replace(meant.graph, name="xla_comment_meant")
    yield from _judge(folder, graph, _all_orders(graph))


def _all_orders(graph: Graph) -> dict[str, Order]:
    written = {
        words: [graph.op_ids[letter] for letter in sequence]
        for words, sequence in SEQUENCES.items()
    }
    return {**written, **{name: make(graph, 0) for name, make in ORDERINGS.items()}}


def _judge(folder: Path, graph: Graph, orders: dict[str, Order]) -> Iterable[Entry]:
    write_graph(graph, folder / f"{graph.name}.json")
    # By the tests' enumeration, which shares no code with the search.
    optimum = least_peak(graph)
    for method, order in orders.items():
        value = peak_memory(graph, order)
        yield Entry(graph.name, method, value, optimum, "exhaustion", _names(graph, order))


def _fusion(folder: Path) -> Iterable[Entry]:
    """A fused sum needs all its terms at once; unfused, one at a time."""
    for fused in (False, True):
        graph = accumulated_reads(8, 4, fused=fused)
        yield from _judge(folder, graph, {"program": ORDERINGS["program"](graph, 0)})


def _orderings(folder: Path) -> Iterable[Entry]:
    for connected in (False, True):
        found = smallest_graphs(ORDERINGS, most_ops=5, largest=3, connected=connected)
        for method, (wiring, loss) in found.items():
            name = f"{method}_{'connected' if connected else 'smallest'}"
            graph = build(wiring, name)
            write_graph(graph, folder / f"{name}.json")
            yield _entry(name, method, loss, _names(graph, ORDERINGS[method](graph, 0)))


def _packings(folder: Path) -> Iterable[Entry]:
    found = smallest_packings(PACKINGS, most=9, steps=5, largest=4, tries=20_000, seed=1)
    for method, (problem, loss) in found.items():
        name = f"{method}_packing"
        write_packing(packing_of(problem), folder / f"{name}.csv")
        yield _entry(name, method, loss)


def _joint(folder: Path) -> Iterable[Entry]:
    """Graphs whose least slab is above their least peak, without any alignment."""
    graphs = (*smallest_and_freest(), *freest_of_eight(), peak_given_up(), shortest_chain())
    for graph in graphs:
        write_graph(graph, folder / f"{graph.name}.json")
        found = least_joint(graph)
        proof = f"exhaustion; {found.orders} orders and {found.least} of least peak"
        order = _names(graph, found.order)
        yield Entry(graph.name, "joint", found.slab, found.peak, proof, order)


def _hunted(folder: Path, methods: Sequence[str] = ()) -> Iterable[Entry]:
    """The worst instances of up to ten ops or buffers."""
    for h in hunt_all(folder, methods):
        yield Entry(h.name, h.method, h.value, h.optimum, h.proof, h.order)


def _versus(folder: Path) -> Iterable[Entry]:
    """A table only: nothing is kept among the instances."""
    del folder
    versus_table()
    return ()


def _growth(folder: Path) -> Iterable[Entry]:
    """Families in which losses grow; one member of each is kept."""
    for m in measure_growth(folder):
        yield Entry(m.instance, m.method, m.value, m.optimum, m.proof, m.order)


def _entry(name: str, method: str, loss: Loss, order: str = "") -> Entry:
    proof = "exhaustion; nothing smaller loses" if loss.exhaustive else "exhaustion; shrunk"
    return Entry(name, method, loss.value, loss.optimum, proof, order)


def _names(graph: Graph, order: Order) -> str:
    return " ".join(graph.ops[int(v)].name for v in order)


def _print(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [[str(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


PARTS: dict[str, Callable[[Path], Iterable[Entry]]] = {
    "comment": _comment,
    "fusion": _fusion,
    "orderings": _orderings,
    "packings": _packings,
    "joint": _joint,
    "hunted": _hunted,
    "growth": _growth,
    "versus": _versus,
}
"""Parts of the study that can be made alone."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m experiments.counterexamples")
    parser.add_argument("part", nargs="*", choices=(*PARTS, []), help="all of them by default")
    parser.add_argument(
        "--method", nargs="+", default=(), choices=(*ORDERINGS, *PACKINGS), metavar="NAME",
        help="hunt for these methods only",
    )  # fmt: skip
    parser.add_argument("--folder", type=Path, default=Path("instances/counterexamples"))
    args = parser.parse_args()
    main(args.folder, args.part, args.method)
