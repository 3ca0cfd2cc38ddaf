"""XLA's buffer assignment as a plan: the order of a scheduled module, and XLA's own offsets.

The text that XLA dumps beside a module lists allocations, and in each the values that lie there
with their offsets. All allocations but parameters, constants and those of other memory spaces
(`color 5`) become one slab, end to end.
"""

from __future__ import annotations

import re
from typing import Any, Final

from optsched.errors import FormatError, PlanError
from optsched.formats.fields import show
from optsched.formats.format import Source
from optsched.formats.hlo.read import ALIGNMENT
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.runtime.bytes import round_up

_ALLOCATION: Final = re.compile(r"allocation \d{1,9}: size (\d{1,19})\b(.*):$")
_VALUE: Final = re.compile(
    r"\s*value: <\d{1,9} ([\w.\-]{1,300})(\{[\d,]*\})?[^@]{0,40}@\d{1,9}> "
    r"\(size=(\d{1,19}),offset=(\d{1,19})\)"
)
_OUTSIDE: Final = ("constant", "thread-local", "color")


def read_buffer_assignment(source: Source, graph: Graph) -> tuple[Plan, dict[str, Any]]:
    """Make a plan of the text of a buffer assignment, of the graph of the module dumped beside it.

    It raises `FormatError` if the text is malformed, and `PlanError` if it is of another module, or
    the module calls computations: their buffers have places of their own, and no plan of the module
    alone can say so.
    """
    known = _offsets(source.text.splitlines(), graph)
    offsets: list[int | None] = []
    for root in (graph.buffers[b] for b in graph.roots):
        needed = root.size and not root.external
        if needed and root.name not in known:
            raise PlanError(
                f"the buffer assignment has no place for {show(root.name)}: it is of another "
                "module, or the module calls computations, whose buffers it places one by one"
            )
        offsets.append(known[root.name] if needed else None)
    return Plan(tuple(range(len(graph.ops))), tuple(offsets)), {"inplace": True}


def _offsets(lines: list[str], graph: Graph) -> dict[str, int]:
    found: dict[str, int] = {}
    base, size, counted = 0, 0, False
    for number, line in enumerate(lines, start=1):
        if line.startswith("allocation "):
            head = _ALLOCATION.match(line)
            if head is None:
                raise FormatError(f"line {number}: {show(line)} is not an allocation")
            # Allocations lie end to end, each at a multiple of the alignment.
            base += round_up(size, ALIGNMENT) if counted else 0
            size, kinds = int(head[1]), head[2]
            counted = not any(word in kinds for word in _OUTSIDE)
            donated = "maybe-live-out" in kinds
            # Parameters belong to the caller, unless the result takes their place.
            counted = counted and ("parameter" not in kinds or donated)
        elif line.lstrip().startswith("value:"):
            row = _VALUE.match(line)
            if row is None:
                raise FormatError(f"line {number}: {show(line.strip())} is not a value")
            name = row[1] + (row[2] or "").replace("{}", "")
            b = graph.buffer_ids.get(name)
            # Values of other computations have names that the graph does not have.
            if counted and b is not None:
                found[name] = base + int(row[4])
        # After this line come statistics.
        elif line.startswith("Total bytes"):
            break
    return found
