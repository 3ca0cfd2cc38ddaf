"""Live ranges of a module from XLA's dumps, read for tests."""

from __future__ import annotations

import re
from pathlib import Path

from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges

_STEP = re.compile(r"\s*(\d+):([^\s{]+)")
_RANGE = re.compile(r"\s*(\S+?)(\{[\d,]*\}):(\d+)-(\d+)")

Range = tuple[int, int]
"""First and last position in XLA's sequence of instructions, both included."""


def read_live_ranges(path: Path) -> tuple[dict[str, int], dict[str, Range]]:
    """Return the position of each instruction, and the live range of each value."""
    steps: dict[str, int] = {}
    ranges: dict[str, Range] = {}
    part = ""
    for line in path.read_text().splitlines():
        if line.strip().startswith(("InstructionSequence", "BufferLiveRange")):
            part = line.strip()
        elif part.startswith("Inst") and (found := _STEP.match(line)):
            steps[found[2]] = int(found[1])
        elif part.startswith("Buffer") and (found := _RANGE.match(line)):
            name = found[1] + found[2].replace("{}", "")
            ranges[name] = int(found[3]), int(found[4])
    return steps, ranges


def both_live_ranges(graph: Graph, path: Path) -> tuple[dict[str, Range], dict[str, Range]]:
    """Return the live ranges of a scheduled module's buffers: ours in XLA's terms, and XLA's.

    Names of one buffer count as one. What lives to the end does so in XLA's sequence, too, whose
    last instruction may be a tuple, which is not an op of ours.
    """
    steps, told = read_live_ranges(path)
    last = max(end for _, end in told.values())
    theirs: dict[str, Range] = {}
    for b, buffer in enumerate(graph.buffers):
        root = graph.buffers[graph.roots[b]]
        if buffer.name in told and not root.external:
            first, end = told[buffer.name]
            known = theirs.get(root.name, (first, end))
            theirs[root.name] = min(first, known[0]), max(end, known[1])
    ours: dict[str, Range] = {}
    ranges = live_ranges(graph, tuple(range(len(graph.ops))))
    for b, buffer in enumerate(graph.buffers):
        if buffer.name in theirs:
            first, end = (int(step) for step in ranges[b])
            born = 0 if buffer.input is not None else steps[graph.ops[first].name]
            ours[buffer.name] = born, last if graph.kept[b] else steps[graph.ops[end - 1].name]
    return ours, theirs
