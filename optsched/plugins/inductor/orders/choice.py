"""Choices: orders of a graph with what the simulation of the wrapper says that they need.

Example: of two orders, the first needs 9 MB, and 12 MB if the caller holds an input; the second
needs 10 MB either way. So neither can be said to need no more than the other.

>>> first = Choice("first", (0, 1), True, 9, extremes=(9, 12))
>>> second = Choice("second", (1, 0), True, 10, extremes=(10, 10))
>>> first.needs_no_more(second), second.needs_no_more(first)
(False, False)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optsched.model.order_rules import moved_ops
from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts
from optsched.plugins.inductor.wrapper.simulate import simulate
from optsched.runtime.clock import Clock, count_work
from optsched.runtime.limits import Limits

SIMULATE_SECONDS = 2e-5
"""Seconds of a simulation, by nodes."""
SLOW_SECONDS = 0.1
"""Time of a simulation above which only those that are needed are made after the limit. A graph of
1,000 nodes takes a sixth of it.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """A candidate order with its simulated peak."""

    name: str
    """Source of the order."""
    order: Order
    """Positions of nodes."""
    reuse: bool
    """True if the wrapper reuses freed buffers for later ones."""
    peak: int
    """Simulated peak in bytes."""
    moved: int = 0
    """Number of nodes moved relative to the framework's order."""
    extremes: tuple[int, ...] = ()
    """Simulated peaks if the caller leaves the fewest inputs to the graph, and the most; empty if
    the inputs that it leaves are known."""
    worst: int = 0
    """Simulated peak at the upper ends of symbolic sizes; 0 if no size has a range."""

    @property
    def highest(self) -> int:
        """Peak in bytes, at the upper ends of symbolic sizes if these have a range."""
        return max(self.peak, self.worst)

    def needs_no_more(self, other: Choice) -> bool:
        """Return True if this choice needs at most as much as another.

        That is for any held inputs, and at the upper ends of symbolic sizes.
        """
        pairs = zip(
            (self.peak, self.worst, *self.extremes),
            (other.peak, other.worst, *other.extremes),
            strict=True,
        )
        # In every case, not only in the expected one: an order that saves on one assumption may
        # cost on another.
        return all(ours <= theirs for ours, theirs in pairs)


def weigh(facts: WrapperFacts, name: str, order: Order, *, reuse: bool, framework: Order) -> Choice:
    """Return the choice of an order, simulated."""
    count_work(len(order), SIMULATE_SECONDS)
    return Choice(
        name,
        order,
        reuse,
        simulate(facts, order, reuse=reuse).peak,
        moved_ops(order, framework),
        tuple(
            simulate(facts.with_inputs(inputs), order, reuse=reuse).peak
            for inputs in facts.extreme_inputs
        ),
        simulate(facts, order, reuse=reuse, worst=True).peak if facts.worst else 0,
    )


class Scale:
    """Simulates orders, each once, and knows how much time is left."""

    def __init__(self, facts: WrapperFacts, framework: Order, seconds: float) -> None:
        self.facts, self.framework = facts, framework
        self.clock = Clock(Limits(seconds=seconds))
        self.known: dict[tuple[Order, bool], Choice] = {}
        self.is_slow = False
        """True if simulations take long enough to matter."""

    def weigh(self, name: str, order: Order, reuse: bool) -> Choice:
        """Return the choice of an order, simulated."""
        if (order, reuse) not in self.known:
            begun = self.clock.now()
            choice = weigh(self.facts, name, order, reuse=reuse, framework=self.framework)
            self.known[order, reuse] = choice
            self.is_slow |= self.clock.now() - begun > SLOW_SECONDS
        return replace(self.known[order, reuse], name=name)

    def is_late(self) -> bool:
        """Return True if the time is over, and what is optional takes long."""
        return self.is_slow and self.clock.expired()
