"""Check a sequence of runs by going through it, run by run.

This is a second reading of the rules of :mod:`optsched.model.runs`, which does not unroll anything.
Each run takes the newest copy of each operand. A copy is released after its last reader; the first
copy of a graph output is never released, and its readers take no other.

Example: `a` makes 5 bytes for `b` and `d`, `b` makes 1 byte for `c`, `c` makes 4 for `d`. In the
sequence a, b, c, a, d the copies of `a` live while runs 0 to 1 and 3 to 4 go by, so that while `c`
runs only 1 + 4 bytes are live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.model.question import Question
from optsched.model.runs import runs_once


@dataclass(frozen=True, slots=True)
class CheckedRuns:
    """Measured data of a valid sequence."""

    peak: int
    """Maximum number of live bytes."""
    extra: int
    """Cost of all runs after the first of each op."""
    repeats: int
    """Number of these runs."""


def check_runs(graph: Graph, sequence: Sequence[int]) -> CheckedRuns:
    """Run a sequence and return its peak and cost.

    Raise `PlanError` if an op is missing or unknown, runs again although it must not, or runs
    before an op that it needs; or if a run reads bytes that were overwritten.
    """
    # The rules below are about ops that run one at a time, on bytes of their own.
    graph.refuse_streams("sequences with repeats")
    graph.refuse_inplace("sequences with repeats")
    walk = _Walk(graph)
    for at, v in enumerate(sequence):
        walk.step(at, v)
    missing = [op.name for v, op in enumerate(graph.ops) if v not in walk.counts]
    if missing:
        raise PlanError(f"order misses op {missing[0]!r}")
    # Each run but the first counts as a repeat.
    again = [v for v, count in walk.counts.items() for _ in range(count - 1)]
    extra = sum(graph.ops[v].cost for v in again)
    return CheckedRuns(walk.peak(len(sequence)), extra, len(again))


def outside(question: Question, sequence: Sequence[int]) -> str:
    """Return why a valid sequence is not among the plans of a question; empty if it is.

    The budget is left aside: only what runs again, and what waits for the loss, is looked at.
    """
    graph = question.graph
    counts = Counter(sequence)
    for v in sorted(counts):
        if counts[v] > 1 and v not in question.may_repeat:
            return f"it runs {graph.ops[v].name!r} again, which is not a forward op"
    try:
        check_runs(question.planned, sequence)
    except PlanError as error:
        return f"its {error}"
    return ""


def check_cost(
    question: Question, sequence: Sequence[int], found: CheckedRuns, stated: Mapping[str, Any]
) -> None:
    """Refuse what a plan file states of its repeats, where that can be shown to be wrong.

    `question`: the question that the file states. `sequence`, `found`: the plan, and its measured
    data. `stated`: claims: `peak`, `extra`, `bound` (None for none) and `cost_unit`.
    """
    peak, extra, bound = (stated[key] for key in ("peak", "extra", "bound"))
    if found.peak > peak:
        raise PlanError(f"the plan needs {found.peak} bytes, more than its {peak}")
    # Costs of another unit cannot be compared.
    if stated["cost_unit"] == question.graph.cost_unit and found.extra != extra:
        raise PlanError(f"plan claims an extra cost of {extra}, it is {found.extra}")
    if not bound:
        return
    claim = f"plan claims that no plan within {peak} bytes costs less than {bound}"
    if bound > extra and not outside(question, sequence):
        raise PlanError(f"{claim}, it costs {extra} itself")
    listed = range(len(question.graph.ops))
    # Without repeats a plan costs nothing.
    if not outside(question, listed) and check_runs(question.planned, listed).peak <= peak:
        raise PlanError(f"{claim}, and the ops as they are listed cost nothing")


@dataclass(slots=True)
class _Walk:
    """Copies of storages while a sequence goes by; a copy is its root and the step that made it.

    Bytes that an op overwrites need no care here: ops that read such a storage run only once
    (:func:`optsched.model.runs.runs_once`), each after its predecessors.
    """

    graph: Graph
    once: dict[int, str] = field(init=False)
    counts: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    """Step of each op's first run."""
    newest: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Copy that the next reader of each buffer takes."""
    spans: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """First and last step of each copy."""

    def __post_init__(self) -> None:
        self.once = runs_once(self.graph)
        # Inputs exist before step 0 and are never made again.
        for b, buffer in enumerate(self.graph.buffers):
            if buffer.input is not None:
                self.newest[b] = (b, -1)

    def step(self, at: int, v: int) -> None:
        """Run an op."""
        if not 0 <= v < len(self.graph.ops):
            raise PlanError(f"order names op number {v}, but the graph has {len(self.graph.ops)}")
        op = self.graph.ops[v]
        if v in self.counts and v in self.once:
            raise PlanError(f"op {op.name!r} runs again, but {self.once[v]}")
        for u in self.graph.predecessors[v]:
            if u not in self.counts:
                needed = self.graph.ops[u].name
                raise PlanError(f"order runs op {op.name!r} before {needed!r}, which it needs")
        self.counts[v] = self.counts.get(v, 0) + 1
        self.starts.setdefault(v, at)
        for b in (*op.reads, *op.uses):
            # A copy lives until its last reader.
            self._touch(self.newest[b], at)
        for b in op.writes:
            self._write(b, at, again=self.counts[v] > 1)

    def _touch(self, copy: tuple[int, int], at: int) -> None:
        start, _ = self.spans.get(copy, (0, 0))
        self.spans[copy] = (start, at)

    def _write(self, b: int, at: int, *, again: bool) -> None:
        buffer = self.graph.buffers[b]
        if buffer.alias_of is not None:
            copy = self.newest[buffer.alias_of]
            self._touch(copy, at)
        else:
            copy = (b, at)
            # Allocated at the first run of another op, if the buffer says so.
            self.spans[copy] = (at if buffer.birth is None else self.starts[buffer.birth], at)
        # The first copy of an output is the caller's: readers keep reading it.
        if not again or not self.graph.kept[self.graph.roots[b]]:
            self.newest[b] = copy

    def peak(self, steps: int) -> int:
        """Return the most bytes that are live at a step; a graph without ops has one step."""
        last = max(steps, 1) - 1
        change = [0] * (last + 2)
        for b, buffer in enumerate(self.graph.buffers):
            if buffer.input is not None and self.graph.kept[b]:
                self.spans[b, -1] = (0, last)
        firsts: set[int] = set()
        for (b, _), (start, end) in sorted(self.spans.items()):
            is_first = b not in firsts
            firsts.add(b)
            is_kept = is_first and self.graph.kept[b]
            # The caller's memory holds first copies only.
            outside = is_first and self.graph.buffers[b].external
            size = 0 if outside else self.graph.buffers[b].size
            change[start] += size
            change[(last if is_kept else end) + 1] -= size
        return max(accumulate(change))
