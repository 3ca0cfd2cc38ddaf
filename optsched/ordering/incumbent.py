"""The best order and bound known of a graph, by one worker or two."""

from __future__ import annotations

import time
from collections.abc import Sequence

from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.ordering.context import SearchContext
from optsched.ordering.reduce.cuts import topological
from optsched.runtime.limits import Event, OnEvent, Proof


class Known:
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
    started
        `time.monotonic()` from which its seconds count.

    Attributes
    ----------
    order, peak
        The best order, and its peak memory in bytes.
    bound, proof
        The best bound, and what stands behind it.
    other
        What a second worker knows, if there is one.
    """

    def __init__(
        self,
        graph: Graph,
        whole: SearchContext,
        warm_start: Sequence[int] | None,
        bound: int,
        on_event: OnEvent | None,
        started: float,
    ) -> None:
        self.started = started
        self.graph, self.whole, self.on_event = graph, whole, on_event
        self.order = (
            topological(whole.problem) if warm_start is None else [int(v) for v in warm_start]
        )
        self.peak = peak_memory(graph, self.order)
        self.bound, self.proof = bound, Proof.BOUND
        self.other: Known | None = None
        self.report("warm start")

    def report(self, source: str) -> None:
        """Tell what is known now, and by what."""
        if self.on_event is not None:
            seconds = time.monotonic() - self.started
            self.on_event(Event(seconds, self.peak, self.bound, source))

    def raise_bound(self, bound: int, proof: Proof, source: str) -> None:
        """Take a better bound, rounded up to what a peak can be."""
        bound = self.whole.round_up(bound)
        if bound > self.peak:
            raise RuntimeError(f"{source}: bound {bound} is above the peak {self.peak} of an order")
        if bound > self.bound:
            self.bound, self.proof = bound, proof
            self.report(source)

    def take_whole(self, full: list[int], source: str) -> None:
        """Take an order of the whole problem if it is better."""
        peak = peak_memory(self.graph, full)
        if peak < self.bound:
            raise RuntimeError(f"{source}: an order of peak {peak} is below the bound {self.bound}")
        if peak < self.peak:
            self.order, self.peak = full, peak
            self.report(source)

    def meet(self) -> None:
        """Take what the other worker has found; each changes what is its own only.

        An order is looked at afresh. A bound is a bound, whatever has become of the rest since.
        """
        other = self.other
        if other is not None and other.peak < self.peak:
            self.take_whole(other.order, "second worker")
        if other is not None and other.bound > self.bound:
            self.raise_bound(other.bound, Proof.SEARCH, "second worker")
