"""The best order and the best bound of a graph found so far, by one worker or two.

Example: peak 100, bound 80. A worker finds an order of 90 and then proves that every order needs
90: the peak falls, the bound rises, and they meet.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.ordering.context import SearchContext
from optsched.ordering.problem import topological
from optsched.runtime.limits import Event, OnEvent, Proof


class OrderIncumbent:
    """The best order and bound found so far, with a callback for each improvement.

    `graph`, `full`: the graph, and its ordering problem. `warm_start`: a valid order to start from
    (default: any topological order). `bound`: a known lower bound on the peak of every order, in
    bytes. `on_event`: called with every better order and bound.

    Attributes
    ----------
    order, peak
        The best order, and its peak memory in bytes.
    bound, proof
        The best bound in bytes, and its kind of proof.
    """

    def __init__(
        self,
        graph: Graph,
        full: SearchContext,
        warm_start: Sequence[int] | None,
        bound: int,
        on_event: OnEvent | None,
    ) -> None:
        self.graph, self.full, self.on_event = graph, full, on_event
        given = topological(full.problem) if warm_start is None else warm_start
        self.order = [int(v) for v in given]
        self.peak = peak_memory(graph, self.order)
        self.bound, self.proof = bound, Proof.BOUND
        self.report("warm start")

    @property
    def proved(self) -> bool:
        """True if the best order is proved optimal."""
        return self.bound >= self.peak

    def report(self, source: str) -> None:
        """Pass the present peak and bound to the callback, with the source of the last change."""
        if self.on_event is not None:
            self.on_event(Event(self.full.clock.seconds(), self.peak, self.bound, source))

    def raise_bound(self, bound: int, proof: Proof, source: str) -> None:
        """Accept a better bound, rounded up to the next possible peak."""
        bound = self.full.round_up(bound)
        # Either the bound or the measurement would be wrong: better to stop than to report a false
        # proof.
        if bound > self.peak:
            raise RuntimeError(f"{source}: bound {bound} is above the peak {self.peak} of an order")
        if bound > self.bound:
            self.bound, self.proof = bound, proof
            self.report(source)

    def accept(self, order: list[int], source: str) -> None:
        """Accept an order of the full graph if it is better."""
        # Measured on the full graph, never taken from a reduced one, so a reduction cannot hide a
        # mistake.
        peak = peak_memory(self.graph, order)
        if peak < self.bound:
            raise RuntimeError(f"{source}: an order of peak {peak} is below the bound {self.bound}")
        if peak < self.peak:
            self.order, self.peak = order, peak
            self.report(source)

    def merge_from(self, other: OrderIncumbent) -> None:
        """Accept the order and bound of another worker, which may go on changing its own.

        The order is measured again here, as the other worker may replace its order between two
        reads. A bound holds at any time.
        """
        if other.peak < self.peak:
            self.accept(other.order, "second worker")
        if other.bound > self.bound:
            self.raise_bound(other.bound, Proof.SEARCH, "second worker")
