"""The calls of a training step in turn, and the most bytes that are live in each and between them.

The first call of a step is that of a forward graph while no saved tensors wait, and a step ends
when the last backward graph has run. The blocks that torch's CPU allocator takes and returns are
counted from the first call on, so bytes are those beyond the live ones at that time. A step is not
counted if a graph is compiled in it, as compiling measures kernels.

Example: forward graphs of a and b run, then their backward graphs. The spans of the step are the
call of a, the code between, the call of b while a waits, and so on; each has the most bytes that
were live in it.

This module does not import torch at its top, as cached modules import it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple

from optsched.plugins.inductor.regions import current_region

MOST_CALLS = 2_000
"""Calls after which a step that does not end is given up: a forward call may never run back."""


class Span(NamedTuple):
    """A stretch of a step.

    Parameters
    ----------
    running
        Key of the region that runs, and True for its backward graph; None between calls.
    waiting
        Keys of the other regions that have run forward and not back, and how many calls of each.
    planned
        Planned peak of the call in bytes; 0 between calls.
    most
        Most bytes that were live, beyond those at the beginning of the step.
    """

    running: tuple[str, bool] | None
    waiting: tuple[tuple[str, int], ...]
    planned: int
    most: int


@dataclass
class StepWatch:
    """Observer of the calls of all regions that are planned together.

    Parameters
    ----------
    on_step
        Function that gets the spans of each step, and True if their bytes were measured: not if a
        graph was compiled in the step.
    """

    on_step: Callable[[list[Span], bool], None]
    done: bool = False
    """True if no further step is observed."""
    waiting: list[str] = field(default_factory=list)
    _marks: list[tuple[Span, int]] = field(default_factory=list)
    _count: _Count | None = None
    _is_clean: bool = True
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def note_compiled(self) -> None:
        """Leave out the present step, in which a graph is compiled."""
        self._is_clean = False

    def call(self, region: str, is_backward: bool, planned: int, run: Callable[[], Any]) -> Any:
        """Run a call of a graph as a part of the step."""
        with self._lock:
            is_part = not self.done and self._begin(region, is_backward)
        if not is_part:
            return run()
        running = (region, is_backward)
        try:
            result = run()
        except BaseException:
            # The step ends here, and what waits is lost.
            with self._lock:
                self._drop()
            raise
        with self._lock:
            self._mark(running, planned)
            if not is_backward:
                self.waiting.append(region)
            spans, is_measured = self._end() if is_backward and not self.waiting else ([], False)
        if spans:
            self.on_step(spans, is_measured)
        return result

    def _begin(self, region: str, is_backward: bool) -> bool:
        """Return True if the call is a part of a step."""
        if is_backward and region not in self.waiting:
            # A second call with `retain_graph=True`, or a step from before this watch.
            return False
        if not self.waiting:
            self._drop()
            self._count, self._is_clean = _Count.begin(), True
        if len(self._marks) > MOST_CALLS:
            self._drop()
            return False
        if self._count is None or self._count.thread != threading.get_ident():
            self._is_clean = False
        self._mark(None, 0)
        if is_backward:
            self.waiting.remove(region)
        return True

    def _mark(self, running: tuple[str, bool] | None, planned: int) -> None:
        at = 0 if self._count is None else self._count.position()
        span = Span(running, tuple(sorted(Counter(self.waiting).items())), planned, 0)
        self._marks.append((span, at))

    def _end(self) -> tuple[list[Span], bool]:
        """Return the spans of the step that ends, and True if it was measured."""
        marks, count, is_clean = self._marks, self._count, self._is_clean
        most = [] if count is None else count.most([at for _, at in marks])
        self._drop()
        if not is_clean or len(most) != len(marks):
            return [span for span, _ in marks], False
        return [span._replace(most=n) for (span, _), n in zip(marks, most, strict=True)], True

    def _drop(self) -> None:
        if self._count is not None:
            self._count.end()
        self._count, self._marks, self.waiting = None, [], []


class _Count:
    """Count of the blocks of this thread since the beginning of a step."""

    def __init__(self, heap: Any, stack: ExitStack) -> None:
        self.heap, self.stack, self.thread = heap, stack, threading.get_ident()

    @classmethod
    def begin(cls) -> _Count | None:
        """Begin to count; None without a counter, or while it counts a single call."""
        from optsched.plugins.inductor.sizes.meter import count_blocks

        stack = ExitStack()
        heap = stack.enter_context(count_blocks())
        return None if heap is None else cls(heap, stack)

    def position(self) -> int:
        return int(self.heap.position)

    def most(self, ends: Sequence[int]) -> list[int]:
        """Return the most live bytes of each stretch, by the positions at which they end."""
        blocks, steps = self.heap.blocks, self.heap.steps
        live, found, at = 0, [], 0
        for end in ends:
            most = live
            for step in steps[at:end]:
                live += blocks[step - 1] if step > 0 else -blocks[-step - 1]
                most = max(most, live)
            found.append(most)
            at = end
        return found

    def end(self) -> None:
        self.stack.close()


def watch_calls(module: dict[str, Any], is_backward: bool, planned: int) -> None:
    """Have the calls of a module that Inductor wrote observed, if a region of a step is loaded."""
    region = current_region()
    if region is None or region.watch is None:
        return
    watch, key = region.watch, region.key
    watch.note_compiled()

    def observed(call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def run(*args: Any) -> Any:
            return watch.call(key, is_backward, planned, lambda: call(*args))

        return run

    runner = module.get("Runner")
    if runner is None:
        module["call"] = observed(module["call"])
    else:
        runner.call = observed(runner.call)
