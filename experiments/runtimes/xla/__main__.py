"""`python -m experiments.runtimes.xla NAME... -o FOLDER`: what XLA dumps of the models, shortened.

Of each model four texts are written: the module as jax hands it over and as XLA runs it, XLA's
buffer assignment and its live ranges. Places in the source are taken out: paths of a machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.tables import markdown, replace_table
from heuristics.xla_module import schedule_module
from optsched import Graph, Module, check_plan, read_graph, solve, solve_module
from optsched.check.module import check_schedule
from optsched.formats import Source, read_plan
from optsched.formats.hlo.logical import read_logical_module
from optsched.formats.hlo.read import read_hlo_module
from tests.support.xla_dumps import dump
from tests.support.xla_models import CALLING, LOOP_FREE, MODELS, TRAINING

FOLDER = Path(__file__).parents[3] / "instances" / "hlo"
HEAD = ("module", "ops", "xla peak", "xla slab", "our peak", "our slab", "bound", "ops before")
MODULE_HEAD = (
    *("module", "computations", "xla bytes", "peak of xla's order", "our peak", "bound"),
    *("our slab", "bound", "xla's order, its count", "xla_default", "our order", "bound"),
)


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="experiments.runtimes.xla", description=__doc__)
    parser.add_argument("names", nargs="*", help="of models; all by default")
    parser.add_argument("-o", "--output", type=Path, default=FOLDER, help="folder to write to")
    parser.add_argument("--table", action="store_true", help="compare plans instead, for README.md")
    parser.add_argument("--calls", action="store_true", help="the same of modules that call others")
    args = parser.parse_args()
    if args.table:
        text = markdown(HEAD, map(compared, LOOP_FREE))
        replace_table(Path(__file__).with_name("README.md"), "planned", text)
        print(text)
        return
    if args.calls:
        text = markdown(MODULE_HEAD, map(compared_module, (*CALLING, *TRAINING)))
        replace_table(Path(__file__).with_name("README.md"), "modules", text)
        print(text)
        return
    names = args.names or [model.__name__ for model in MODELS]
    for path in dump([f"{name}()" for name in names], args.output):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


def compared_module(model: Callable[[], Any]) -> list[str]:
    """Return a row: what XLA allocates for a model that calls computations, and what is proved."""
    made = model().compile()
    use, text = made.memory_analysis(), Source(made.as_text().encode(), model.__name__)
    taken = use.temp_size_in_bytes + use.output_size_in_bytes - use.alias_size_in_bytes
    module = read_hlo_module(text).with_graphs(Graph.with_inplace)
    found = solve_module(module, time_limit=60).entry
    logical = read_logical_module(text)
    least = solve_module(logical, objective="peak", time_limit=60).entry
    best = schedule_module(logical).memory_by_computation[module.entry]
    whole, counted = (check_schedule(x, _as_listed(x))[x.entry] for x in (module, logical))
    numbers = (
        *(len(module.graphs), taken, whole, found.peak, found.peak_bound),
        *(found.slab, found.slab_bound, counted, best, least.peak, least.peak_bound),
    )
    return [model.__name__, *(f"{x:,}" for x in numbers)]


def _as_listed(module: Module) -> dict[str, range]:
    return {name: range(len(graph.ops)) for name, graph in module.graphs.items()}


def compared(model: Callable[[], Any]) -> list[str]:
    """Return a row: what XLA's plan of a model takes, and what ours does."""
    path = FOLDER / f"{model.__name__}-module.txt"
    graph = read_graph(path).with_inplace()
    theirs = read_plan(path.with_name(f"{model.__name__}-buffer-assignment.txt"), graph)
    checked, ours = check_plan(graph, theirs), solve(graph, time_limit=30)
    before = read_graph(path.with_name(f"{model.__name__}-unscheduled.txt"))
    numbers = (len(graph.ops), checked.peak, checked.slab, ours.peak, ours.slab, ours.peak_bound)
    return [model.__name__, *(f"{x:,}" for x in (*numbers, len(before.ops)))]


if __name__ == "__main__":
    main()
