"""Families of constraints of the order model, each left out in turn: the ablation.

Run `python -m experiments.cross_check.families GRAPH.. --work 1000000`: one worker and a limit on
CP-SAT's deterministic time, so that the table is the same on every machine. 100,000 units of work
are a second of it. The start is the program's own order, and the closure bound is given, but not to
independent variants.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from experiments.tables import markdown
from heuristics.orderings.program import program
from optsched.formats import read_graph
from optsched.joint.cpsat.order import solve_order_cpsat
from optsched.joint.families import ALL_FAMILIES
from optsched.model.graph import Graph
from optsched.ordering import closure_bound
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

VARIANTS = {
    "all": (ALL_FAMILIES, False),
    "no closure": (replace(ALL_FAMILIES, closure=False), False),
    "triangles, no positions": (replace(ALL_FAMILIES, positions=False), False),
    "triangles and positions": (replace(ALL_FAMILIES, triangles=True), False),
    "no implied precedences": (replace(ALL_FAMILIES, implied=False), False),
    "no copies in line": (replace(ALL_FAMILIES, copies=False), False),
    "no states passed": (replace(ALL_FAMILIES, passed=False), False),
    "no sets": (replace(ALL_FAMILIES, sets=False), False),
    "no states passed, no sets": (replace(ALL_FAMILIES, passed=False, sets=False), False),
    "independent": (ALL_FAMILIES, True),
    "independent, no closure": (replace(ALL_FAMILIES, closure=False), True),
    "independent, no copies in line": (replace(ALL_FAMILIES, copies=False), True),
}


def row(name: str, graphs: list[Graph], work: int) -> list[str]:
    """Return how many graphs a variant claims to close, and its work in thousands."""
    families, independent = VARIANTS[name]
    closed = spent = 0
    for graph in graphs:
        clock, start = Clock.of(Limits(work=work)), program(graph).tolist()
        found = solve_order_cpsat(
            graph,
            start,
            clock=clock,
            bound=0 if independent else closure_bound(graph, [start]).value,
            families=families,
            independent=independent,
        )
        closed += found.value is not None and found.value <= found.bound
        spent += min(work, round(clock.now()))
    return [name, str(closed), f"{spent / 1000:,.0f}"]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="experiments.cross_check.families", description=__doc__)
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("--work", type=int, default=500_000)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    options = parser.parse_args()
    graphs = [read_graph(path) for path in options.graphs]
    lines = []
    for name in options.variants:
        lines.append(row(name, graphs, options.work))
        print(lines[-1], file=sys.stderr, flush=True)
    print(markdown(("families", f"closed of {len(graphs)}", "work / 1000"), lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
