"""Which proofs are lost without each rule of the search, within a time limit.

    python -m experiments.reach ablation DIR... [--families] [--inplace] [--seconds 20]

Reads every graph file of the directories and solves each graph from the best heuristic order with
all rules. Those that need a search are solved again without each rule. Seconds are those of the
processor, with one worker; `>` marks a graph that was not proved in the limit.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from experiments.reach.table import RULES, solve_within, warm_up
from experiments.tables import markdown
from heuristics import ORDERINGS
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.steps import Order
from optsched.ordering import ALL_RULES, OrderingRules
from tests.support.families.copies import branches, microbatches
from tests.support.families.shapes import layered, series_parallel
from tests.support.families.stacks import experts, recurrent
from tests.support.families.wiring import checkpointed, random_wiring, training
from tests.support.files import read_all

FAMILIES: tuple[Callable[[], Graph], ...] = (
    lambda: training(1_400, 1),
    lambda: checkpointed(24),
    lambda: experts(32),
    lambda: recurrent(32),
    lambda: series_parallel(512, 0),
    lambda: layered(512, 0),
    lambda: random_wiring(64, 0),
    lambda: random_wiring(64, 0, unit=False),
    lambda: microbatches(4, 8),
    lambda: microbatches(8, 8),
    lambda: branches(8, 20, 1),
)
"""Generated graphs, of each family one or a few."""
FEW = 300
"""Graphs on which all rules together store fewer states tell little of any one rule."""

SLOWER = 2.0
"""A rule counts as worth its while on a graph that takes this many times as long without it."""
LEAST = 0.02
"""Seconds with or without a rule that are told from noise."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One graph solved with some rules."""

    proved: bool
    """True if the minimum peak was proved in the limit."""
    seconds: float
    """Seconds of the processor."""
    states: int
    """States that were stored."""

    def __str__(self) -> str:
        return f"{'' if self.proved else '>'}{self.seconds:.3f}"


Trials = dict[str, Trial]
"""Work on a graph with all rules (`all`), and without each rule."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="experiments.reach ablation", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR")
    parser.add_argument("--families", action="store_true", help="generated graphs as well")
    parser.add_argument("--inplace", action="store_true", help="in the in-place memory model")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit per graph and rule")
    parser.add_argument("--csv", type=Path, help="write the rows to this file as well")
    args = parser.parse_args(argv)
    warm_up()
    made = (make() for make in (FAMILIES if args.families else ()))
    rows: dict[str, Trials] = {}
    graphs = proved = 0
    for graph in chain(read_all(args.folders), made):
        found = try_rules(graph.with_inplace() if args.inplace else graph, args.seconds)
        graphs, proved = graphs + 1, proved + found["all"].proved
        if len(found) > 1:
            rows[graph.name] = found
            print(graph.name, *found.values(), sep=",", flush=True)
    print(f"{proved} of {graphs} graphs proved, {len(rows)} need a search")
    print(summary(list(rows.values())))
    if args.csv:
        with args.csv.open("w", newline="") as file:
            cells = ([name, *map(str, row.values())] for name, row in rows.items())
            csv.writer(file).writerows([("instance", "all", *RULES), *cells])
    return 0


def best_start(graph: Graph) -> Order:
    """Return the best order of all heuristics."""
    orders = (make(graph, 0) for make in ORDERINGS.values())
    return min(orders, key=lambda order: peak_memory(graph, order))


def needs_search(graph: Graph, seconds: float = 20.0) -> bool:
    """Return True if a bound and the heuristics do not meet, so that states have to be searched."""
    return solve_within(graph, best_start(graph), ALL_RULES, seconds)[0].statistics.stored > 0


def try_rules(graph: Graph, seconds: float) -> Trials:
    """Solve a graph with all rules and, if that takes a search, without each of them."""
    start = best_start(graph)

    def solve(rules: OrderingRules) -> Trial:
        outcome, spent = solve_within(graph, start, rules, seconds)
        # Proofs with different rules check each other.
        if outcome.proof is not None:
            peaks.add(outcome.peak)
        return Trial(outcome.proof is not None, spent, outcome.statistics.stored)

    peaks: set[int] = set()
    found = {"all": solve(ALL_RULES)}
    # Rules matter only to graphs whose states are searched.
    if found["all"].states:
        for name in RULES:
            found[name] = solve(replace(ALL_RULES, **{name: False}))
    if len(peaks) > 1:
        raise RuntimeError(f"{graph.name}: two minimum peaks are proved: {sorted(peaks)}")
    return found


def summary(rows: Sequence[Trials]) -> str:
    """Return a table: what each rule is worth on the graphs that need a search."""
    head = ("without", "proved", "seconds", "slower", "faster")
    return markdown(head, [list(_worth(rows, name)) for name in ("all", *RULES)])


def _worth(rows: Sequence[Trials], name: str) -> Iterator[str]:
    """Yield the cells of a rule: graphs proved, seconds, graphs that take twice or half as long."""
    pairs = [(row["all"].seconds, row[name].seconds) for row in rows]
    yield "no rule" if name == "all" else f"`{name}`"
    yield str(sum(row[name].proved for row in rows))
    yield f"{sum(without for _, without in pairs):.1f}"
    # Chained: `without` is above the noise, and more than twice the usual.
    yield str(sum(LEAST < without > SLOWER * usual for usual, without in pairs))
    yield str(sum(LEAST < usual > SLOWER * without for usual, without in pairs))
