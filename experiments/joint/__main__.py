"""Plan all graphs of folders, order and offsets: `python -m experiments.joint DIR...`."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heuristics import PACKINGS
from optsched.formats import read_graph
from optsched.model.packing_problem import packing_problem
from optsched.runtime.limits import Limits, Proof, optimality_gap
from optsched.solver.pipeline import solve

PACKER = "greedy_by_size"


@dataclass(frozen=True, slots=True)
class Row:
    """Results for one graph; `greedy` is the slab of the greedy packer on the same order."""

    name: str
    ops: int
    peak: int
    slab: int
    bound: int
    proof: str
    joint: bool
    greedy: int
    closed_by: str
    seconds: float

    @property
    def gap(self) -> float:
        """Between the slab and what every slab has at least."""
        return optimality_gap(self.slab, self.bound)

    @property
    def lost(self) -> float:
        """Fragmentation of the greedy packer, as a part of the peak."""
        return self.greedy / max(1, self.peak) - 1


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.joint", description=__doc__)
    parser.add_argument("folder", nargs="+", type=Path)
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write the table here as well")
    args = parser.parse_args(argv)
    limits = Limits(seconds=args.time_limit, seed=args.seed)
    rows = []
    for path in graph_files(args.folder):
        rows.append(measure(path, limits))
        print(f"{rows[-1].name} {rows[-1].seconds:.2f} s", file=sys.stderr)
    text = markdown(rows)
    if args.output is not None:
        args.output.write_text(text)
    print(text, end="")


def graph_files(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the graphs of folders by name; files stand for themselves."""
    for folder in folders:
        if folder.is_file():
            yield folder
        else:
            yield from sorted({*folder.glob("*.json"), *folder.glob("*.json.gz")})


def measure(path: Path, limits: Limits) -> Row:
    """Plan a graph, and pack the same order greedily."""
    graph = read_graph(path)
    result = solve(graph, limits=limits)
    if result.plan is None or result.peak is None or result.slab is None:
        raise RuntimeError(f"{path}: no plan")
    problem, _ = packing_problem(graph, np.array(result.plan.order, np.int64))
    greedy = problem.slab_size(PACKINGS[PACKER](problem))
    sources = [event.source for event in result.trace if event.incumbent == result.slab]
    return Row(
        name=path.name.removesuffix(".gz").removesuffix(".json"),
        ops=len(graph.ops),
        peak=result.peak,
        slab=result.slab,
        bound=result.slab_bound,
        proof=f"{result.peak_proof or '-'} {result.slab_proof or '-'}",
        joint=result.slab_proof not in (None, Proof.CLAIMED),
        greedy=greedy,
        closed_by=sources[0].rpartition(" + ")[2],
        seconds=result.runtime,
    )


def markdown(rows: Sequence[Row]) -> str:
    """One line a graph, then how many are jointly optimal."""
    heads = ["graph", "ops", "peak", "slab", "gap %", "proofs", "greedy loses %", "by", "s"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for row in rows:
        cells = [row.name, str(row.ops), f"{row.peak:,}", f"{row.slab:,}", percent(row.gap)]
        cells += [row.proof, percent(row.lost), row.closed_by, f"{row.seconds:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    if rows:
        seconds = [row.seconds for row in rows]
        lines += [
            "",
            f"{len(rows)} graphs: {sum(row.joint for row in rows)} jointly optimal, proved; "
            f"{sum(row.slab == row.peak == row.bound for row in rows)} with slab = least peak; "
            f"greatest gap {percent(max(row.gap for row in rows))} %; "
            f"median {statistics.median(seconds):.2f} s, most {max(seconds):.2f} s; "
            f"the greedy packer loses up to {percent(max(row.lost for row in rows))} % "
            f"and nothing on {sum(row.greedy == row.peak for row in rows)}.",
        ]
    return "\n".join(lines) + "\n"


def percent(part: float) -> str:
    """A part in percent; 0 only if it is 0."""
    return "0" if part == 0 else f"{100 * part:.2f}" if part >= 0.0001 else "<0.01"


if __name__ == "__main__":
    main(sys.argv[1:])
