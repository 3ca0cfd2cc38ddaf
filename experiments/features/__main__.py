"""Table of least peaks and slabs of real graphs, feature by feature.

    python -m experiments.features DIR... [--seconds 20] [--csv FILE] [--table FILE]
    python -m experiments.features --rows FILE --table FILE

Each graph is solved without in-place and without workspace (`bare`), then with the workspace and
the candidates of its file (`both`), with workspace in a region of its own (`apart`), as it might be
at worst (`stress`, see :func:`stressed`), and in two pools, of which the first has three quarters
of the bare slab (`pools`). The last lines count what is proved; the second form says them, and
writes the table of graphs that have pairs or workspace, of rows that are there.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.inplace.__main__ import read_all
from optsched.model.elements import Buffer
from optsched.model.graph import Graph
from optsched.model.memory_model import MemoryModel
from optsched.model.pools import Pool
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from optsched.solver.result import Status
from optsched.solver.spill.solve import solve_in_pools
from optsched.solver.warmup import warm_up

Row = dict[str, object]
FAST_SHARE = 3, 4
"""Of the bare slab: bytes of the first pool."""
MAX_OUTPUTS = 8
"""An op of more outputs has no pairs of ours: a kernel that fuses many is not one loop."""


def bare(graph: Graph) -> Graph:
    """Return a graph without in-place, whose workspace has no bytes."""
    scratch = {op.workspace for op in graph.ops}
    buffers = tuple(
        replace(buffer, size=0) if b in scratch else buffer
        for b, buffer in enumerate(graph.buffers)
    )
    return replace(graph.without_inplace(), buffers=buffers)


def stressed(graph: Graph) -> Graph:
    """Return a graph with more pairs and workspace than its file knows of.

    Where it names no candidates, each output may be written into the first input of its size that
    no other output of the op has; where it has no workspace, each op needs a quarter of what it
    writes.
    """
    pairs = graph.inplace_candidates or tuple(_same_size_pairs(graph))
    ops, buffers = list(graph.ops), list(graph.buffers)
    if all(op.workspace is None for op in ops):
        for v, op in enumerate(graph.ops):
            size = sum(int(graph.arrays.size[b]) for b in op.writes) // 4
            if size:
                buffers.append(Buffer(f"{op.name}.scratch of ours", size))
                number = len(buffers) - 1
                ops[v] = replace(op, writes=(*op.writes, number), workspace=number)
    made = replace(graph, ops=tuple(ops), buffers=tuple(buffers), inplace_candidates=pairs)
    return made.with_inplace()


def _same_size_pairs(graph: Graph) -> Iterator[tuple[int, int, int]]:
    size = graph.arrays.size
    for v, op in enumerate(graph.ops):
        left = list(dict.fromkeys(op.reads)) if len(op.writes) <= MAX_OUTPUTS else []
        for output in op.writes:
            bytes_ = graph.buffers[output].size
            same = [b for b in left if bytes_ and size[graph.roots[b]] == bytes_]
            if same:
                left.remove(same[0])
                yield v, output, same[0]


MODELS: dict[str, Callable[[Graph], Graph]] = {
    "bare": bare,
    "both": Graph.with_inplace,
    "apart": lambda graph: MemoryModel(inplace=True, workspace_apart=True).apply(graph),
    "stress": stressed,
}


def measure(graph: Graph, limits: Limits) -> Row:
    """Solve a graph in every model."""
    row: Row = {
        "instance": graph.name,
        "ops": len(graph.ops),
        "pairs": len(graph.with_inplace().arrays.inplace_op),
        "workspaces": sum(op.workspace is not None for op in graph.ops),
    }
    for name, model in MODELS.items():
        begun = time.process_time()
        found = solve(model(graph), limits=limits)
        row |= {
            f"{name} status": found.status.value,
            f"{name} peak": found.peak,
            f"{name} slab": found.slab,
            f"{name} bound": found.slab_bound,
            f"{name} proof": found.slab_proof or "",
            f"{name} s": f"{time.process_time() - begun:.2f}",
        }
    slab = row["bare slab"]
    assert isinstance(slab, int)
    fast = Pool("fast", slab * FAST_SHARE[0] // FAST_SHARE[1])
    pooled = solve_in_pools(bare(graph), [fast, Pool("slow")], limits=limits)
    return row | {
        "pools status": pooled.status.value,
        "spilled": pooled.spilled_bytes,
        "spilled bound": pooled.spilled_bound,
    }


def summary(rows: Sequence[Row]) -> list[str]:
    """Return in words how many graphs each model is proved on, and what it gains."""
    proved = [row for row in rows if row["bare status"] == Status.OPTIMAL]
    lines = [f"{len(rows)} graphs, {len(proved)} of them proved bare; of these are proved"]
    for name in (*list(MODELS)[1:], "pools"):
        too = sum(row[f"{name} status"] == Status.OPTIMAL for row in proved)
        lines.append(f"  {name}: {too} ({100 * too / max(1, len(proved)):.1f} %)")
    for name in list(MODELS)[1:]:
        change = [_percent(row[f"{name} slab"], row["bare slab"]) for row in proved]
        lower, higher = (sum(sign * x > 0 for x in change) for sign in (-1, 1))
        lines.append(
            f"{name}: slab below bare on {lower} graphs, above on {higher}; "
            f"{min(change):+.2f} to {max(change):+.2f} %, mean {sum(change) / len(change):+.2f} %"
        )
    return lines


def table(rows: Sequence[Row]) -> list[str]:
    """Return a table in Markdown of the graphs whose files have pairs or workspace."""
    head = ["graph", "ops", "pairs", "workspaces", "bare", "both", "apart", "stress"]
    head += ["spilled", "least spilled"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for row in rows:
        if row["pairs"] or row["workspaces"]:
            cells = [row[key] for key in ("instance", "ops", "pairs", "workspaces")]
            cells.append(f"{row['bare slab']:,}{_mark(row, 'bare')}")
            for name in list(MODELS)[1:]:
                change = _percent(row[f"{name} slab"], row["bare slab"])
                cells.append(f"{change:+.2f} %{_mark(row, name)}")
            cells += [f"{row['spilled']:,}", f"{row['spilled bound']:,}"]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def _mark(row: Row, name: str) -> str:
    return "" if row[f"{name} status"] == Status.OPTIMAL else " ?"


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file that `--csv` wrote."""
    with path.open(newline="") as file:
        return [
            {key: int(text) if text.isdecimal() else text for key, text in row.items()}
            for row in csv.DictReader(file)
        ]


def _percent(value: object, base: object) -> float:
    assert isinstance(value, int)
    assert isinstance(base, int)
    return 100 * (value / max(1, base) - 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR")
    parser.add_argument("--rows", type=Path, help="rows that are there, instead of solving")
    parser.add_argument("--table", type=Path, help="write the table to this file")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit per graph and model")
    parser.add_argument("--csv", type=Path, help="write the rows to this file as well")
    args = parser.parse_args()
    rows: list[Row] = [] if args.rows is None else read_rows(args.rows)
    if args.folders:
        warm_up(lambda text: None)
    for graph in read_all(args.folders):
        rows.append(measure(graph, Limits(seconds=args.seconds)))
        print(*rows[-1].values(), flush=True)
        if args.csv:
            with args.csv.open("w", newline="") as file:
                writer = csv.DictWriter(file, rows[0])
                writer.writeheader()
                writer.writerows(rows)
    print("\n".join(summary(rows)))
    if args.table:
        args.table.write_text("\n".join(table(rows)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
