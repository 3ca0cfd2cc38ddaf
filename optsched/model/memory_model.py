"""Options of how bytes are counted, as an argument: never a field of a graph, never text."""

from __future__ import annotations

from dataclasses import dataclass

from optsched.errors import UsageError
from optsched.model.graph import Graph


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """By which rules a graph is planned, beyond what its file says.

    Parameters
    ----------
    inplace
        Whether ops may write outputs into inputs that die with them, where the graph names such
        candidates (:mod:`optsched.model.inplace`).
    """

    inplace: bool = False

    def apply(self, graph: Graph) -> Graph:
        """Return the graph under these rules, in which all that is counted is plain data."""
        return graph.with_inplace() if self.inplace else graph.without_inplace()


def refuse_inplace(graph: Graph, what: str) -> None:
    """Stop what knows nothing of in-place: its answers would be those of another model."""
    if graph.in_place:
        raise UsageError(f"{graph.name}: {what} can not take the in-place memory model")
