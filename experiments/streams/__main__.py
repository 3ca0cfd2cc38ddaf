"""Slabs of real graphs on one stream and on several: `python -m experiments.streams FILE...`.

Each graph is planned as it is, with its branches on two and on three streams, and in levels of at
most two ops.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.streams.live_states import most_live_at_once
from experiments.tables import markdown, replace_table, write_rows
from optsched.formats import read_graph
from optsched.model.graph import Graph
from optsched.model.streams import in_levels, with_streams
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve

HERE = Path(__file__).parent
HEAD = (
    *("graph", "ops", "streams", "slab", "of one stream", "peak", "live at once"),
    *("bound", "proof"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One graph on some streams; `one` is the least slab of one stream, bytes like the rest."""

    graph: str
    ops: int
    streams: str
    one: int
    slab: int
    peak: int
    """Largest total size of buffers that pairwise may be in use at once: a bound for the order."""
    live: int
    """Most bytes live at once in an execution; 0 where the states are too many to count."""
    bound: int
    """No plan of any order has a smaller slab."""
    proof: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.streams")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit per plan")
    parser.add_argument("--write", action="store_true", help="replace the README's table, and CSV")
    options = parser.parse_args(arguments)
    rows = []
    for path in options.files:
        # Ops on several streams cannot write in place, as some files say that theirs may.
        for row in measure(read_graph(path).without_inplace(), Limits(seconds=options.seconds)):
            print(*row_cells(row), sep="  ", flush=True)
            rows.append(row)
    if options.write:
        write_rows(HERE / "rows.csv", rows)
        replace_table(HERE / "README.md", "streams", markdown(HEAD, map(row_cells, rows)))


def measure(graph: Graph, limits: Limits) -> Iterator[Row]:
    """Plan a graph in all ways."""
    one = solve(graph, limits=limits)
    assert one.slab is not None
    ways = {f"{k} of branches": with_streams(graph, branches(graph, k)) for k in (2, 3)}
    ways["levels of 2"] = in_levels(graph, most=2)
    for name, made in ways.items():
        started = time.process_time()
        found = solve(made, limits=limits)
        assert found.plan is not None
        assert found.slab is not None
        assert found.peak is not None
        yield Row(
            graph=graph.name,
            ops=len(graph.ops),
            streams=name,
            one=one.slab,
            slab=found.slab,
            peak=found.peak,
            live=most_live_at_once(made, found.plan.order) or 0,
            bound=found.slab_bound,
            proof=str(found.slab_proof or ""),
            seconds=round(time.process_time() - started, 1),
        )


def branches(graph: Graph, count: int) -> list[str]:
    """The stream of each op, by its branch.

    An op continues the branch of its latest predecessor that no other op continues yet. Without
    such a predecessor it starts a branch, on the stream that has fewest ops.
    """
    streams, open_ends, load = [0] * len(graph.ops), set[int](), [0] * count
    for v, row in enumerate(graph.predecessors):
        before = next((u for u in reversed(row) if u in open_ends), None)
        open_ends -= {before}
        open_ends.add(v)
        streams[v] = load.index(min(load)) if before is None else streams[before]
        load[streams[v]] += 1
    return [f"stream {s}" for s in streams]


def row_cells(row: Row) -> list[str]:
    """A line of the table; slabs also as a multiple of that of one stream."""
    more = 100 * (row.slab / max(1, row.one) - 1)
    return [
        row.graph,
        f"{row.ops:,}",
        row.streams,
        f"{row.slab:,}",
        f"{more:+.1f} %",
        f"{row.peak:,}",
        f"{row.live:,}" if row.live else "-",
        "=" if row.bound == row.slab else f"{row.bound:,}",
        row.proof or "-",
    ]


if __name__ == "__main__":
    main()
