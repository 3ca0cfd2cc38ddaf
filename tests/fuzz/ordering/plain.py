"""Agreement with a plain search of all states, no rule and no bound, on graphs it can finish.

python -m tests.fuzz ordering.plain --folders DIR... [--seconds 10] [--inplace]
"""

from __future__ import annotations

from dataclasses import fields
from itertools import islice
from pathlib import Path

from heuristics import ORDERINGS
from optsched.model.graph import Graph
from optsched.ordering import ClosureBound, OrderingRules, solve_order
from optsched.ordering import rounds as engine
from optsched.runtime.limits import Limits
from tests.support.files import read_all

PLAIN = OrderingRules(**{field.name: field.name == "lift" for field in fields(OrderingRules)})
"""The budget still rises to the next that opens a move: else one budget would be all."""


def main(
    count: int = 1_000,
    seed: int = 0,
    *,
    folders: tuple[str, ...] = ("instances/small", "instances/searched"),
    inplace: bool = False,
    seconds: float = 10.0,
) -> int:
    """Compare the first `count` graphs of some folders; each plain search has a limit.

    The graphs are given, so the seed has no effect.
    """
    usual = engine.closure_bound
    graphs = finished = wrong = 0
    for plain in islice(read_all([Path(folder) for folder in folders]), count):
        graph = plain.with_inplace() if inplace else plain
        start = ORDERINGS["program"](graph, 0).tolist()
        engine.closure_bound = nothing_known
        searched = solve_order(graph, rules=PLAIN, warm_start=start, limits=Limits(seconds=seconds))
        engine.closure_bound = usual
        graphs += 1
        if searched.proof is None:
            continue
        finished += 1
        found = solve_order(graph, warm_start=start)
        agree = found.proof is not None and found.peak == searched.peak
        wrong += not agree
        print(
            f"{graph.name}: {len(graph.ops)} ops, {searched.statistics.stored} states, peak "
            f"{searched.peak}{'' if agree else f', but {found.peak} with all rules: WRONG'}",
            flush=True,
        )
    print(f"{graphs} graphs, {finished} finished by plain search, {wrong} wrong")
    # A folder without graphs is most likely misspelled.
    return 1 if wrong or not graphs else 0


def nothing_known(graph: Graph, *_: object, **__: object) -> ClosureBound:
    """A bound that leaves all work to the search."""
    return ClosureBound(graph.arrays.initial, None, 0, complete=True)
