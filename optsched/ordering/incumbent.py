"""The best order and bound of a graph so far, by one worker or two."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.ordering.context import SearchContext
from optsched.ordering.problem import topological
from optsched.runtime.limits import Event, OnEvent, Proof


class OrderIncumbent:
    """An order and a bound that only ever get better; whoever wants to know is told.

    Parameters
    ----------
    graph, whole
        The graph, and the ordering problem that it is.
    warm_start
        A valid order to begin with; some order if None.
    bound
        No order has a smaller peak.
    on_event
        Told of every better order and bound.

    Attributes
    ----------
    order, peak
        The best order, and its peak memory in bytes.
    bound, proof
        The best bound, and what stands behind it.
    """

    def __init__(
        self,
        graph: Graph,
        whole: SearchContext,
        warm_start: Sequence[int] | None,
        bound: int,
        on_event: OnEvent | None,
    ) -> None:
        self.graph, self.whole, self.on_event = graph, whole, on_event
        given = topological(whole.problem) if warm_start is None else warm_start
        self.order = [int(v) for v in given]
        self.peak = peak_memory(graph, self.order)
        self.bound, self.proof = bound, Proof.BOUND
        self.report("warm start")

    @property
    def proved(self) -> bool:
        """Whether no order can be better."""
        return self.bound >= self.peak

    def report(self, source: str) -> None:
        """Tell what is known now, and by what."""
        if self.on_event is not None:
            self.on_event(Event(self.whole.clock.seconds(), self.peak, self.bound, source))

    def raise_bound(self, bound: int, proof: Proof, source: str) -> None:
        """Accept a better bound, rounded up to what a peak can be."""
        bound = self.whole.round_up(bound)
        if bound > self.peak:
            raise RuntimeError(f"{source}: bound {bound} is above the peak {self.peak} of an order")
        if bound > self.bound:
            self.bound, self.proof = bound, proof
            self.report(source)

    def accept(self, order: list[int], source: str) -> None:
        """Accept an order of the whole graph if it is better."""
        peak = peak_memory(self.graph, order)
        if peak < self.bound:
            raise RuntimeError(f"{source}: an order of peak {peak} is below the bound {self.bound}")
        if peak < self.peak:
            self.order, self.peak = order, peak
            self.report(source)

    def merge_from(self, other: OrderIncumbent) -> None:
        """Accept what another worker has found; each worker changes what is its own only.

        An order is looked at afresh. A bound is a bound, whatever has become of the rest since.
        """
        if other.peak < self.peak:
            self.accept(other.order, "second worker")
        if other.bound > self.bound:
            self.raise_bound(other.bound, Proof.SEARCH, "second worker")
