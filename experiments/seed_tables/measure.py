"""One row a captured graph: torch's four orders, both historical choices, and what is least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.seed_tables.first_version import first_choice, first_graph
from experiments.seed_tables.setups import SeedSetup
from optsched.errors import OptschedError
from optsched.formats.inductor import read_inductor
from optsched.model.graph import Graph
from optsched.model.liveness import inductor_2025_09_peak, peak_memory
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve

METHODS = ("baseline", "lpmf", "bfs", "dfs")
"""In the sequence in which Inductor tries them; the first of equals is chosen."""


@dataclass(frozen=True, slots=True)
class SeedRow:
    """One graph; bytes but for counts, names and seconds.

    Parameters
    ----------
    graph, model, phase, budget, device
        Which graph; the budget is empty without checkpointing.
    ops, buffers
        Counts.
    baseline, lpmf, bfs, dfs, chosen
        Peaks of torch's four orders as torch said them, and the one it takes.
    choice
        Peak of that one.
    least, bound, proof
        Our least peak, the proven bound on the peak of every order, and its proof.
    slab, slab_bound, slab_proof
        Slab, its lower bound and its proof.
    seconds
        Of our solver.
    uncounted
        Parameters and other inputs that no peak counts.
    short
        Bytes by which inputs that may be freed exceed those that Inductor recorded.
    ordering_only
        Buffers that some op waits for and does not use; in September 2025 it kept them alive.
    old_baseline, old_lpmf, old_bfs, old_dfs, old_chosen
        Estimates of the same orders, and the choice, by the estimator of September 2025.
    first_baseline, first_lpmf, first_bfs, first_dfs, first_chosen
        Peaks of the orders that the first version made, by its own estimator.
    first_choice
        Peak, by today's estimator, of the order that the first version chose.
    torch
        Version.
    """

    graph: str
    model: str
    phase: str
    budget: str
    device: str
    ops: int
    buffers: int
    baseline: int
    lpmf: int
    bfs: int
    dfs: int
    chosen: str
    choice: int
    least: int
    bound: int
    proof: str
    slab: int
    slab_bound: int
    slab_proof: str
    seconds: float
    uncounted: int
    short: int
    ordering_only: int
    old_baseline: int
    old_lpmf: int
    old_bfs: int
    old_dfs: int
    old_chosen: str
    first_baseline: int
    first_lpmf: int
    first_bfs: int
    first_dfs: int
    first_chosen: str
    first_choice: int
    torch: str


def measure(setup: SeedSetup, name: str, document: Mapping[str, Any], seconds: float) -> SeedRow:
    """Measure one captured graph.

    Raises
    ------
    OptschedError
        If a peak that torch wrote down is not what its order costs by our rules.
    """
    extra = document["extra"]
    graph = read_inductor(document, name=name)
    peaks = {method: int(extra["peaks"][method]) for method in METHODS}
    orders: dict[str, Sequence[int]] = {method: extra["orders"][method] for method in METHODS}
    for method, order in orders.items():
        if peak_memory(graph, order) != peaks[method]:
            raise OptschedError(f"{name}: torch's peak of {method} is not that of its order")
    old = {method: inductor_2025_09_peak(graph, order) for method, order in orders.items()}
    first, first_chosen, first_order = first_choice(first_graph(document, name))
    return SeedRow(
        graph=name,
        model=setup.model,
        phase=extra["phase"],
        budget="" if setup.budget is None else str(setup.budget),
        device=extra["device"],
        ops=len(graph.ops),
        buffers=len(graph.buffers),
        **peaks,
        chosen=extra["chosen"],
        choice=peaks[extra["chosen"]],
        **_solved(graph, seconds),
        uncounted=sum(extra["nonfreeable_inputs"].values()),
        short=_short(document),
        ordering_only=len(extra["succ_for_ordering"]),
        **{f"old_{method}": peak for method, peak in old.items()},
        old_chosen=min(old, key=old.__getitem__),
        **{f"first_{method}": peak for method, peak in first.items()},
        first_chosen=first_chosen,
        first_choice=peak_memory(graph, first_order),
        torch=extra["torch"],
    )


def _solved(graph: Graph, seconds: float) -> dict[str, Any]:
    result = solve(graph, limits=Limits(seconds=seconds))
    if result.peak is None or result.slab is None:
        raise OptschedError(f"{graph.name}: no plan within {seconds} s")
    return {
        "least": result.peak,
        "bound": result.peak_bound,
        "proof": str(result.peak_proof or ""),
        "slab": result.slab,
        "slab_bound": result.slab_bound,
        "slab_proof": str(result.slab_proof or ""),
        "seconds": round(result.runtime, 2),
    }


def _short(document: Mapping[str, Any]) -> int:
    true = sum(document["extra"]["freeable_true_nbytes"].values())
    return int(true - sum(b["size_free"] for b in document["buffers"] if b["is_input"]))
