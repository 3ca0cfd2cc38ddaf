"""Bytes that XLA allocates on the CPU for a text that is a schedule."""

from __future__ import annotations

from typing import Final

from optsched.formats.format import Source
from optsched.formats.hlo.allocation.assignment import Assignment
from optsched.formats.hlo.allocation.values import ModuleValues
from optsched.formats.hlo.shapes import leaves
from optsched.formats.hlo.text import HloModule, parse_module

MOST_INSTRUCTIONS: Final = 20_000
"""Larger modules are not simulated, as it would take longer than to read them."""


def held(source: Source) -> int | None:
    """Return the bytes of temporaries, results and donated arguments; None if they are not known.

    They are known of schedules for the CPU: layouts there have no tiles and one memory space.
    """
    parsed = parse_module(source.text)
    if not parsed.scheduled or not _is_for_cpu(parsed):
        return None
    sequence = list(parsed.computations[parsed.entry].instructions)
    try:
        return Assignment(ModuleValues(parsed), sequence).held
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, StopIteration):
        # The simulation expects a text that XLA's verifier accepts: others have no such figure.
        return None


def _is_for_cpu(parsed: HloModule) -> bool:
    made = [x for c in parsed.computations.values() for x in c.instructions.values()]
    if len(made) > MOST_INSTRUCTIONS:
        return False
    layouts = {leaf.layout for x in made for leaf in leaves(x.shape)}
    return not any(layout.space or layout.tiles for layout in layouts)
