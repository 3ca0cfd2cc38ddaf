"""The orders in which XLA may take values of equal size and life.

XLA numbers values computation by computation. The order of computations that do not call each other
depends on how they were added to the module, which the module does not state. An allocation that
depends on this order cannot be predicted.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence

from optsched.formats.hlo.allocation.assignment import Assignment, never_stop
from optsched.formats.hlo.allocation.values import ModuleValues
from optsched.formats.hlo.allocation.walks import walk
from optsched.formats.hlo.read import CALLERS

TRIED = 6
"""Orders of computations that are compared with the text's own."""


def is_certain(
    values: ModuleValues, sequence: Sequence[str], check: Callable[[], None] = never_stop
) -> bool:
    """Return True if the bytes that XLA allocates do not depend on the order of computations."""
    allocated = Assignment(values, sequence, check).allocated
    return all(
        Assignment(x, sequence, check).allocated == allocated for x in _other_numbers(values)
    )


def _other_numbers(values: ModuleValues) -> Iterator[ModuleValues]:
    computations = walk(values.module, values.module.entry)
    # A single computation has one numbering.
    if len(computations) == 1:
        return
    calls = {name: _called(values, name) for name in computations}
    # A fixed seed: the same module gets the same answer in every run.
    generator = random.Random(0)
    for _ in range(TRIED):
        turn = list(range(len(values.values)))
        generator.shuffle(turn)
        yield values.renumbered(_callees_first(calls, generator), turn)


def _called(values: ModuleValues, name: str) -> set[str]:
    made = values.module.computations[name].instructions.values()
    return {callee for x in made if x.opcode in CALLERS for callee in x.called}


def _callees_first(calls: dict[str, set[str]], generator: random.Random) -> list[str]:
    """Return a random order of computations, each after all that it calls."""
    # Kahn's algorithm with random keys among the computations that are ready.
    waiting = {name: len(called) for name, called in calls.items()}
    ready = [(generator.random(), name) for name, count in waiting.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, done = heapq.heappop(ready)
        order.append(done)
        for name, called in calls.items():
            if done in called:
                waiting[name] -= 1
                if not waiting[name]:
                    heapq.heappush(ready, (generator.random(), name))
    return order
