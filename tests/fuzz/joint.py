"""Exactness of solve() on random small graphs.

Question: are slab and peak of `solve` what exhaustion over all orders and offsets says, and is
nothing called optimal that is not? Graphs of up to six ops have all that a graph can have; each
kind adds places: alignments, pins, pools, ops that write in place, pairs of buffers that are kept
apart and groups that share an offset ("sharing"), upper limits of addresses. The oracle
(`tests/support/brute.py`) shares no code with the solver. Pins that clash in every order must be
refused.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from optsched.check.plan import check_plan
from optsched.errors import GraphError
from optsched.model.graph import Graph
from optsched.runtime.limits import SIZES, Limits, Objective
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.status import Status
from tests.support import brute
from tests.support.generators import PLANNABLE, random_graph, with_limits, with_sharing

PLAIN = PLANNABLE - {"alignment"}
KINDS = {
    "no places": PLAIN,
    "alignment": PLANNABLE,
    "pins": PLAIN | {"pins"},
    "alignment and pins": PLANNABLE | {"pins"},
    "pools": PLANNABLE | {"pools"},
    "pools and pins": PLANNABLE | {"pools", "pins"},
    "in-place": PLANNABLE,
    "in-place and pools": PLANNABLE | {"pools"},
    "sharing": PLAIN,
    "sharing, pins and pools": PLAIN | {"pins", "pools"},
    "in-place and sharing": PLAIN,
    "limits": PLANNABLE,
    "limits, sharing, pins and pools": PLAIN | {"pins", "pools"},
    "in-place and limits": PLAIN,
}
"""Kinds of graphs by name, and the features they are made of."""
BUFFERS = 7
"""Buffers with bytes that the oracle for offsets takes."""


@dataclass
class Row:
    """Results for one kind and objective."""

    kind: str
    objective: Objective
    graphs: int = 0
    refused: int = 0
    sharing: int = 0
    above: int = 0
    proved: int = 0
    reached: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def main(count: int = 300, seed: int = 1, *, time_limit: float = 30.0) -> int:
    rows = [
        run_kind(kind, objective, count, seed, time_limit) for objective in SIZES for kind in KINDS
    ]
    print(table(rows), end="")
    return 1 if any(row.wrong for row in rows) else 0


def run_kind(kind: str, objective: Objective, graphs: int, seed: int, seconds: float) -> Row:
    """Compare solve with the oracle on a number of graphs of a kind."""
    # A stream of random numbers per kind, so that one can be run alone with the same graphs.
    rng = np.random.default_rng([seed, list(KINDS).index(kind), SIZES.index(objective)])
    row = Row(kind, objective)
    started = time.perf_counter()
    inplace = kind.startswith("in-place")
    while row.graphs < graphs:
        # Choices of pairs multiply the orders, so graphs are smaller.
        most, size = (5, 4) if inplace else (6, 8)
        graph = random_graph(
            rng, int(rng.integers(1, most + 1)), max_size=size, features=KINDS[kind]
        )
        # Too many for the oracle; drawn again, not counted.
        if np.count_nonzero(graph.arrays.size) > BUFFERS:
            continue
        if "sharing" in kind:
            graph = with_sharing(rng, graph)
            row.sharing += bool(graph.keep_apart or graph.must_share)
        if "limits" in kind:
            graph = with_limits(rng, graph)
        compare(row, graph.with_inplace() if inplace else graph, seconds)
        row.graphs += 1
    row.seconds = time.perf_counter() - started
    print(f"{row.kind}, {row.objective}: {len(row.wrong)} wrong", file=sys.stderr, flush=True)
    return row


def compare(row: Row, graph: Graph, seconds: float) -> None:
    """Solve a graph, and note what is not as the oracle says."""
    peak, slab = brute.least_peak(graph), brute.least_slab_of(graph)
    try:
        result = solve(graph, objective=row.objective, limits=Limits(seconds=seconds))
    except GraphError:
        row.refused += 1
        if slab is not None:
            row.wrong.append(f"refused, but {slab} bytes do: {graph}")
        return
    if slab is None:
        row.wrong.append(f"a plan where pins clash in every order: {graph}")
        return
    wrong = contradiction(graph, result, peak, slab)
    if wrong is not None:
        row.wrong.append(f"{wrong}: peak {peak}, slab {slab}, {result}, {graph}")
        print(row.wrong[-1], file=sys.stderr)
    least = slab if row.objective is Objective.SLAB else peak
    row.above += slab > peak
    row.proved += result.status is Status.OPTIMAL
    row.reached += (result.slab if row.objective is Objective.SLAB else result.peak) == least


def contradiction(graph: Graph, result: Result, peak: int, slab: int) -> str | None:
    """Return the parts of a result that the oracle contradicts."""
    if result.plan is None or result.peak is None or result.slab is None:
        return "no plan"
    check_plan(graph, result.plan, peak=result.peak, slab=result.slab)
    if not result.peak_bound <= peak <= result.peak:
        return "peak"
    # The truth must lie between bound and plan, proved or not.
    if not result.slab_bound <= slab <= result.slab:
        return "slab"
    if result.status is Status.OPTIMAL:
        least = slab if result.objective is Objective.SLAB else peak
        value = result.slab if result.objective is Objective.SLAB else result.peak
        return None if value == least else "called optimal"
    return None


def table(rows: Sequence[Row]) -> str:
    """One line a kind and objective."""
    heads = ["objective", "kind", "graphs", "pins clash", "slab above peak"]
    heads += ["least reached", "proved", "wrong", "s"]
    lines = ["| " + " | ".join(heads) + " |", "|---|---" + "|---:" * (len(heads) - 2) + "|"]
    for row in rows:
        numbers = [row.graphs, row.refused, row.above, row.reached, row.proved, len(row.wrong)]
        cells = [row.objective, row.kind, *(str(x) for x in numbers), f"{row.seconds:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    wrong = sum(len(row.wrong) for row in rows)
    lines += ["", f"{sum(row.graphs for row in rows)} graphs, {wrong} wrong."]
    return "\n".join(lines) + "\n"
