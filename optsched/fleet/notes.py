"""What a search leaves in a store, and what of it is to be believed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from optsched.errors import FormatError
from optsched.model.graph import Graph
from optsched.solver.search_progress import SearchProgress
from optsched.store import SearchState, StoredPlan


def search_notes(progress: SearchProgress, slices: int, code: str) -> SearchState:
    """Return what the next unit needs, as a store keeps it: of how many units, by which code."""
    record = progress.to_dict()
    del record["orders"]
    return SearchState(progress.orders, {**record, "slices": slices, "code": code}, slices)


def read_search(
    graph: Graph, search: SearchState, known: SearchProgress
) -> tuple[SearchProgress, int]:
    """Return what a search left, with the bounds that are known beside it, and its units.

    Raises
    ------
    FormatError
        If the notes are not what :func:`search_notes` wrote.
    """
    notes: dict[str, Any] = {"orders": search.orders, **search.notes}
    progress = SearchProgress.from_dict(notes, len(graph.ops))
    if progress.graph != known.graph:
        # An equal graph with other ids: what was packed has other digests, and trees are of others.
        rounds = progress.rounds.of_other_ids()
        progress = replace(progress, packed=(), seen=(), rounds=rounds, graph=known.graph)
    if known.peak_bound > progress.peak_bound:
        progress = replace(progress, peak_bound=known.peak_bound, peak_proof=known.peak_proof)
    progress = replace(progress, refuted_slab=max(progress.refuted_slab, known.refuted_slab))
    slices = notes.get("slices")
    return progress, slices if isinstance(slices, int) and 0 <= slices < 1_000 else 0


def checked(left: tuple[SearchProgress, int], stored: StoredPlan) -> tuple[SearchProgress, int]:
    """Return what a search left, unless the plan shows that its bounds are wrong.

    Raises
    ------
    FormatError
        If it does.
    """
    progress, _ = left
    if progress.peak_bound > stored.peak or progress.slab_bound > stored.slab:
        raise FormatError("a search has bounds above a plan")
    return left
