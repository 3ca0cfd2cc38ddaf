"""Conversion of search progress to and from the store, with checks of what can be trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from optsched.errors import FormatError
from optsched.model.graph import Graph
from optsched.solver.resume import SearchProgress
from optsched.store import SearchState, StoredPlan


def search_notes(progress: SearchProgress, slices: int, code: str) -> SearchState:
    """Return the progress that the next unit needs, in the store's form."""
    record = progress.to_dict()
    del record["orders"]
    return SearchState(progress.orders, {**record, "slices": slices, "code": code}, slices)


def read_search(
    graph: Graph, search: SearchState, known: SearchProgress
) -> tuple[SearchProgress, int]:
    """Return stored progress joined with known bounds, and the number of units that produced it.

    Raises
    ------
    FormatError
        If the stored notes do not have the form that :func:`search_notes` writes.
    """
    notes: dict[str, Any] = {"orders": search.orders, **search.notes}
    progress = SearchProgress.from_dict(notes, len(graph.ops))
    if progress.graph != known.graph:
        # The graph is equal but numbered differently: digests of packings and search trees do not
        # carry over.
        rounds = progress.rounds.of_other_ids()
        progress = replace(progress, packed={}, seen={}, rounds=rounds, graph=known.graph)
    if known.peak_bound > progress.peak_bound:
        progress = replace(progress, peak_bound=known.peak_bound, peak_proof=known.peak_proof)
    progress = replace(progress, refuted_slab=max(progress.refuted_slab, known.refuted_slab))
    slices = notes.get("slices")
    return progress, slices if isinstance(slices, int) and 0 <= slices < 1_000 else 0


def checked(left: tuple[SearchProgress, int], stored: StoredPlan) -> tuple[SearchProgress, int]:
    """Return progress read from a store if the stored plan does not contradict its bounds.

    Raises
    ------
    FormatError
        If a bound is above the plan's value.
    """
    progress, _ = left
    if progress.peak_bound > stored.peak or progress.slab_bound > stored.slab:
        raise FormatError("search bounds exceed the stored plan")
    return left
