"""Simulation of Inductor's wrapper: the memory that an order of a compiled graph needs.

Three passes, as in Inductor: write the lines that allocate, call and free
(:mod:`optsched.plugins.inductor.wrapper.lines`); reuse freed buffers for later allocations
(:mod:`optsched.plugins.inductor.wrapper.reuse`); run the lines, and count the bytes of all storages
that a name holds (:mod:`optsched.plugins.inductor.wrapper.memory`). The first two passes have
effects that a graph of ops and buffers cannot express: generated C++ kernels are collected into one
call, so nothing is freed between two extern kernels; and a reused buffer stays allocated between
its two uses.

Example: `k1` reads `a` and writes `b`, `k2` reads `b` and writes `c`; all have 8 bytes, and both
kernels are in one C++ call. `a` is freed after the call, so the peak is 24 bytes, not 16.
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.check.lifecycle import LifeEvent
from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts
from optsched.plugins.inductor.wrapper.lines import LineWriter, Pair
from optsched.plugins.inductor.wrapper.memory import Memory
from optsched.plugins.inductor.wrapper.reuse import hand_on


@dataclass(frozen=True, slots=True)
class Simulation:
    """Memory that an order needs while the compiled graph runs."""

    peak: int
    """Most live bytes, in storages that the graph allocates or owns."""
    peak_at: str
    """The buffer or node whose line reaches the peak first."""
    start: int
    end: int
    """`start` and `end`: live bytes of inputs at the call, and of all storages left at its end."""
    inplace: tuple[Pair, ...]
    """Pairs in which a kernel overwrites the second buffer."""
    reused: tuple[Pair, ...]
    """Pairs in which the wrapper reuses the second buffer."""
    removed: frozenset[str]
    """Buffers without bytes, because they exist only inside a kernel."""
    timeline: tuple[tuple[str, int], ...] = ()
    """Pairs `(line, live bytes after it)`, if requested."""
    lives: tuple[LifeEvent, ...] = ()
    """Allocations and releases of storages, by the first name of each, if requested."""


def simulate(
    facts: WrapperFacts,
    order: Order,
    *,
    reuse: bool,
    timeline: bool = False,
    worst: bool = False,
) -> Simulation:
    """Return the memory of a graph in one order.

    `facts`: facts about the graph. `order`: a valid order. `reuse`: True if the wrapper reuses
    freed buffers (`allow_buffer_reuse`). `timeline`: True to return the live bytes after each line,
    and the lives of storages. `worst`: True to count symbolic sizes at the upper ends of their
    ranges. The lines are the same, as Inductor writes them once, by the hints.
    """
    writer = LineWriter(facts, order)
    lines = writer.write()
    # `hand_on` changes the list of lines, so the second pass must precede the third.
    reused = hand_on(facts, order, lines, writer.inplace) if reuse else []
    memory = Memory(facts, facts.worst if worst else {})
    memory.run(lines, timeline)
    return Simulation(
        peak=memory.peak,
        peak_at=memory.peak_at,
        start=memory.start,
        end=memory.live,
        inplace=tuple(writer.inplace),
        reused=tuple(reused),
        removed=frozenset(writer.gone),
        timeline=tuple(memory.timeline),
        lives=tuple(memory.lives) if timeline else (),
    )
