"""Orders of a module, each with the bytes that XLA will allocate for it.

Every order is weighed by a model of XLA's buffer assignment
(:mod:`optsched.formats.hlo.allocation.assignment`), which may need more bytes than the live ranges.
An order replaces XLA's own only if it is certainly better in that model.

Example: XLA's order is allocated 10 MB. An order whose live bytes are 8 MB is allocated 9 MB and is
better; one that is allocated 10 MB is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from optsched.errors import OptschedError
from optsched.formats.hlo.allocation.assignment import Assignment, never_stop
from optsched.formats.hlo.allocation.values import ModuleValues
from optsched.formats.hlo.allocation.walks import put
from optsched.formats.hlo.read import graph_of
from optsched.formats.hlo.text import HloModule, parse_module
from optsched.model.graph import Graph
from optsched.plugins.xla.ties import is_certain
from optsched.runtime.clock import Clock

UNCERTAIN = "what XLA allocates depends on how it numbers computations that are called"


class KeptScheduleError(OptschedError):
    """The reason for which a module keeps XLA's schedule, although nothing went wrong."""


def require_time(clock: Clock) -> None:
    """Raise an error if nothing is left of the time limit."""
    if clock.expired():
        raise KeptScheduleError("the time limit was over once the module was read")


@dataclass(frozen=True, slots=True)
class WeighedOrder:
    """All instructions of the entry in an order, and the bytes that XLA will allocate for it.

    `inside` has the sequences of called computations that differ from XLA's.
    """

    source: str
    sequence: Sequence[str]
    allocated: int
    inside: Mapping[str, Sequence[str]] = field(default_factory=dict)


class ModuleOrders:
    """A module, read for weighing orders of it.

    `text`: text of the scheduled module. `clock`: clock that measures the time of weighing.
    `check`: called often while orders are weighed; may raise an error to stop.

    Attributes
    ----------
    parsed, graph
        The module, and its ops and buffers. Donation is left out of both if the text lacks it, as
        XLA drops it from a module that is handed back.
    donates
        True if the module donates arguments to results.
    before
        Bytes that XLA allocates for its own schedule.
    seconds
        Spent on weighing one order.
    """

    def __init__(self, text: str, clock: Clock, check: Callable[[], None] = never_stop) -> None:
        self.check = check
        own = parse_module(text)
        require_time(clock)
        self.listed = list(own.computations[own.entry].instructions)
        self.donates = bool(own.aliases)
        values = ModuleValues(own)
        begun = clock.seconds()
        self.before = Assignment(values, self.listed, check).allocated
        # If XLA's own number is uncertain, no comparison with it is worth anything.
        if not is_certain(values, self.listed, check):
            raise KeptScheduleError(UNCERTAIN)
        self.seconds = clock.seconds() - begun
        # XLA drops donation from a module that the hook returns, so ours is weighed without it.
        self.parsed = replace(own, aliases=())
        require_time(clock)
        self.graph = graph_of(self.parsed)
        self.values = ModuleValues(self.parsed) if self.donates else values

    def own(self) -> WeighedOrder:
        """Return XLA's order, weighed as it would be handed back."""
        if not self.donates:
            return WeighedOrder("XLA's own", self.listed, self.before)
        allocated = Assignment(self.values, self.listed, self.check).allocated
        return WeighedOrder("XLA's own", self.listed, allocated)

    def better(self, best: WeighedOrder, source: str, order: Sequence[int]) -> WeighedOrder:
        """Return an order of ops if less is allocated for it than for the best one, for certain."""
        sequence = full_sequence(self.parsed, self.graph, order)
        allocated = Assignment(self.values, sequence, self.check).allocated
        # Less for certain: ties that XLA may break either way must not turn a gain into a loss.
        if allocated >= best.allocated or not is_certain(self.values, sequence, self.check):
            return best
        return WeighedOrder(source, sequence, allocated, best.inside)

    def with_inside(
        self, best: WeighedOrder, name: str, sequence: Sequence[str]
    ) -> WeighedOrder | None:
        """Return the best order with another one in a called computation, and keep that.

        None if XLA would allocate more, or if the bytes are not certain.
        """
        computations = dict(self.parsed.computations)
        known = computations[name].instructions
        computations[name] = replace(
            computations[name], instructions={x: known[x] for x in sequence}
        )
        parsed = replace(self.parsed, computations=computations)
        values = ModuleValues(parsed)
        allocated = Assignment(values, best.sequence, self.check).allocated
        if allocated > best.allocated or not is_certain(values, best.sequence, self.check):
            return None
        self.parsed, self.values, self.graph = parsed, values, graph_of(parsed)
        inside = {**best.inside, name: sequence}
        return WeighedOrder("orders inside", best.sequence, allocated, inside)


def uncounted(graph: Graph) -> Graph:
    """Return the graph in which results have no bytes."""
    returned = {graph.roots[b] for b, buffer in enumerate(graph.buffers) if buffer.output}
    return replace(
        graph,
        buffers=tuple(
            replace(buffer, size=0) if b in returned else buffer
            for b, buffer in enumerate(graph.buffers)
        ),
    )


def full_sequence(parsed: HloModule, graph: Graph, order: Sequence[int]) -> list[str]:
    """Return all instructions of the entry: the ops in this order, all else as soon as it can.

    What owns nothing, such as a bitcast, stands before the first op that needs it.
    """
    instructions = parsed.computations[parsed.entry].instructions
    first = [x.name for x in instructions.values() if x.opcode in ("parameter", "constant")]
    sequence: dict[str, None] = {}
    for name in (*first, *(graph.ops[v].name for v in order), *instructions):
        put(name, instructions, sequence)
    return list(sequence)
