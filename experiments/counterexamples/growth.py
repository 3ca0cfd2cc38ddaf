"""Families in which a method's loss grows with the size of the instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.tables import markdown, replace_table
from heuristics import ORDERINGS, PACKINGS
from optsched.check.packing import check_packing
from optsched.check.plan import check_order
from optsched.counterexamples.spaces import make_problem
from optsched.formats import packing_of, write_graph, write_packing
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.runtime.limits import Limits, Objective, Proof
from optsched.solver.pack import pack
from optsched.solver.pipeline import solve
from tests.support.families.growth import GRAPHS


def strangers(count: int) -> PackingProblem:
    """Buffers that never meet: no reuse costs a factor of their number."""
    return make_problem(tuple((i, i + 1, 1) for i in range(count)), f"growth_strangers{count}")


def halving(doublings: int, packing: str) -> PackingProblem:
    """Robson's adversary against a packer that places buffers as they start.

    `2**doublings` bytes are filled with bytes; of every two neighbors one is freed, and buffers of
    2 bytes that fit nowhere take the bytes set free; of every four bytes one buffer stays, and so
    on: the slab grows by a share of these bytes each time, the live bytes never.

    References
    ----------
    J. M. Robson, "Bounds for some functions concerning dynamic storage allocation", JACM 21, 1974.
    """
    full, clock = 1 << doublings, 0
    rows: list[list[int]] = []
    for level in range(doublings + 1):
        width = 1 << level
        live = sum(size for _, end, size in rows if end < 0)
        for _ in range((full - live) // width):
            rows.append([clock, -1, width])
            clock += 1
        _free(rows, 2 * width, clock, packing)
        clock += 1
    closed = tuple((start, clock if end < 0 else end, size) for start, end, size in rows)
    return make_problem(closed, f"growth_halving{doublings}")


def _free(rows: list[list[int]], window: int, clock: int, packing: str) -> None:
    """Free all live buffers but one in each aligned window of the slab."""
    closed = tuple((start, clock if end < 0 else end, size) for start, end, size in rows)
    offsets = PACKINGS[packing](make_problem(closed))
    kept: set[int] = set()
    for i, row in enumerate(rows):
        if row[1] >= 0:
            continue
        at = int(offsets[i]) // window
        if at in kept:
            row[1] = clock
        kept.add(at)


RUNGS = (2, 4, 8, 16, 32, 64)
DOUBLINGS = (2, 3, 4, 5, 6, 7)
KEPT_RUNGS, KEPT_DOUBLINGS = 4, 4
"""The members that are kept among the instances."""
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Member:
    """A method on a member of a family, and the optimum with its proof."""

    instance: str
    method: str
    value: int
    optimum: int
    proof: str
    order: str = ""


def measure_growth(folder: Path) -> Iterator[Member]:
    """Measure all families, make the tables, and write and yield one member of each."""
    readme = Path(__file__).parent / "README.md"
    graphs = {(name, k): make(k) for name, make in GRAPHS.items() for k in RUNGS}
    members = {key: list(_measure_graph(graph)) for key, graph in graphs.items()}
    head = ("family", "k", "ops", "optimum", "proof", *ORDERINGS)
    lines = [
        (name, str(k), str(len(graphs[name, k].ops)), *_cells(row))
        for (name, k), row in members.items()
    ]
    replace_table(readme, "growth", markdown(head, lines))
    for name in GRAPHS:
        write_graph(graphs[name, KEPT_RUNGS], folder / f"growth_{name}{KEPT_RUNGS}.json")
        yield from members[name, KEPT_RUNGS]

    packings = [halving(d, "first_fit_arrival") for d in DOUBLINGS]
    packings += [strangers(count) for count in RUNGS]
    rows = [list(_measure_packing(problem)) for problem in packings]
    head = ("instance", "buffers", "optimum", "proof", *PACKINGS)
    table = [(p.name, str(len(p)), *_cells(row)) for p, row in zip(packings, rows, strict=True)]
    replace_table(readme, "robson", markdown(head, table))
    kept = DOUBLINGS.index(KEPT_DOUBLINGS)
    write_packing(packing_of(packings[kept]), folder / f"{packings[kept].name}.csv")
    yield from rows[kept]


def _measure_graph(graph: Graph) -> Iterator[Member]:
    result = solve(graph, objective=Objective.PEAK, limits=Limits(seconds=SECONDS))
    if result.peak is None or result.peak_proof not in (Proof.BOUND, Proof.SEARCH):
        raise RuntimeError(f"{graph.name} is not proved")
    for method, ordering in ORDERINGS.items():
        order = ordering(graph, 0)
        names = " ".join(graph.ops[v].name for v in order.tolist())
        peak = check_order(graph, order.tolist())
        yield Member(graph.name, method, peak, result.peak, str(result.peak_proof), names)


def _measure_packing(problem: PackingProblem) -> Iterator[Member]:
    result = pack(problem, limits=Limits(seconds=SECONDS))
    if result.slab is None or result.slab_proof is not Proof.PACKING:
        raise RuntimeError(f"{problem.name} is not proved")
    for method, packing in PACKINGS.items():
        slab = check_packing(problem, packing(problem).tolist())
        yield Member(problem.name, method, slab, result.slab, str(result.slab_proof))


def _cells(row: Sequence[Member]) -> tuple[str, ...]:
    return (str(row[0].optimum), row[0].proof, *(f"{m.value / m.optimum:.2f}" for m in row))
