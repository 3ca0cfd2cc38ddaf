"""Records of the decision for each graph that a compiler passed to a plugin.

Example: a training step compiled with the plugin leaves two records, one for the forward graph and
one for the backward graph, each with the bytes before and after, or the reason why the compiler's
order stayed.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from optsched.runtime.text import counted

MAX_RECORDS = 1000
"""Most records that are kept; older ones are dropped, as a process may compile without end."""


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """The decision for one graph that a compiler passed to a plugin."""

    plugin: str
    name: str
    """`plugin` and `name`: names of the compiler and of its graph."""
    ops: int
    """Number of ops."""
    before: int | None = None
    after: int | None = None
    """`before` and `after`: peak in bytes of the compiler's own order, and of the order that was
    returned; None if they were not computed."""
    bound: int | None = None
    """Lower bound on the peak of every order, in bytes, for the graph of ops and buffers."""
    proof: str = ""
    """Name of the proof if `after` equals the bound, such as `order search`; else empty."""
    order: str = ""
    """Source of the order, such as `optimum`, and other choices made with it."""
    reason: str = ""
    """Reason for which the compiler's own order was kept; empty if it was replaced."""
    seconds: float = 0.0
    """Time that the plugin took, including its solver."""
    solver_seconds: float = 0.0
    """Time of the solver alone."""
    note: str = ""
    """Bytes that the figures leave out; empty if there are none."""
    fusion: str = ""
    """The fused nodes that were cut, why, and what it costs; empty if none was."""
    cached: bool = False
    """True if the graph came from the compiler's cache: the figures are those of an earlier
    compilation with the same settings."""
    measured: int | None = None
    """Bytes that the graph was measured to need while it ran, to compare with the planned peak;
    None if it was not measured. Inputs count if the graph was to free them, or did."""
    measured_note: str = ""
    """Inputs that the measured call freed though the plan does not, or the reverse."""
    measured_apart: int = 0
    """Bytes that kernel libraries such as oneDNN took themselves, beyond the measured ones."""
    answer: str = ""
    """The answer in one sentence, for a training step that was to fit a peak; else empty."""
    front: tuple[tuple[int, float], ...] = ()
    """Simulated peak in bytes and extra compute, as a share of a step, of the splits that were
    tried for it and that no other one beats, from the largest peak down."""
    saved: int = 0
    """Bytes that a training step's forward graph saves for its backward graph; 0 if not known."""

    @property
    def planned(self) -> int | None:
        """Planned peak of the order that runs, in bytes; None if it was not computed."""
        return self.before if self.after is None else self.after

    def __str__(self) -> str:
        origin = ", out of its cache" if self.cached else ""
        text = f"{self.plugin} {self.name}{origin}: {counted(self.ops, 'op')}"
        if self.before is not None:
            text += f", peak {self.before:,} bytes"
        if self.after is not None and self.after != self.before:
            text += f" -> {self.after:,}"
        if self.measured is not None:
            text += f", measured {self.measured:,}{self._difference()}"
        if self.bound is not None:
            text += f", bound {self.bound:,}"
        if self.proof:
            text += f" ({self.proof})"
        if self.order:
            text += f"; {self.order}"
        if self.fusion:
            text += f"; fusion: {self.fusion}"
        if self.reason:
            text += f"; own order kept: {self.reason}"
        if self.note:
            text += f"; {self.note}"
        # A record out of the cache has no time of its own.
        text = text if self.cached else f"{text}; {self.seconds:.2f} s"
        return f"{self.name}: {self.answer}\n  {text}" if self.answer else text

    def _difference(self) -> str:
        """Return measured bytes above or below the planned ones with their cause, in brackets."""
        parts = []
        if self.measured is not None and self.planned not in (None, self.measured):
            cause = self.measured_note or "the call allocates otherwise than simulated"
            parts.append(f"{self.measured - (self.planned or 0):+,}: {cause}")
        if self.measured_apart:
            parts.append(f"and {self.measured_apart:,} that kernel libraries take themselves")
        return f" ({'; '.join(parts)})" if parts else ""


_lock = threading.Lock()
_records: deque[CompiledGraph] = deque(maxlen=MAX_RECORDS)
_steps: dict[Hashable, str] = {}
"""Lines on steps of several graphs, by the settings of their plan."""
_unusable: dict[str, str] = {}
"""Plugins that cannot work here, each with the reason."""


def remember(record: CompiledGraph) -> None:
    """Add a record."""
    _forget_earlier_models()
    with _lock:
        _records.append(record)


def _forget_earlier_models() -> None:
    """Drop the records of Inductor if `torch._dynamo.reset()` was called after them."""
    callback = sys.modules.get("torch._dynamo.callback")
    if callback is None:
        return
    # A reset clears the callbacks, and so shows by the absence of ours, which does nothing.
    ends = callback.callback_handler.end_callbacks
    if _nothing in ends:
        return
    with _lock:
        kept = [record for record in _records if record.plugin != "inductor"]
        _records.clear()
        _records.extend(kept)
        _steps.clear()
    ends.append(_nothing)


def _nothing(*_: object) -> None:
    pass


def note_unusable(plugin: str, reason: str) -> None:
    """Remember that a plugin plans no graph in this process, and why."""
    with _lock:
        _unusable[plugin] = reason


def note_step(settings: Hashable, text: str) -> None:
    """Set the line on the step of all graphs that were compiled with some settings."""
    _forget_earlier_models()
    with _lock:
        _steps[settings] = text


def note_measured(measured: CompiledGraph) -> None:
    """Replace the newest record of a graph, which is equal but for its measured bytes and times."""
    with _lock:
        for i in reversed(range(len(_records))):
            known = _records[i]
            same = (known.plugin, known.name, known.ops, known.before, known.after)
            if same == (
                measured.plugin,
                measured.name,
                measured.ops,
                measured.before,
                measured.after,
            ):
                _records[i] = replace(
                    known,
                    measured=measured.measured,
                    measured_note=measured.measured_note,
                    measured_apart=measured.measured_apart,
                )
                return


def records() -> tuple[CompiledGraph, ...]:
    """Return the records, the oldest first."""
    _forget_earlier_models()
    with _lock:
        return tuple(_records)


def forget() -> None:
    """Forget all records."""
    with _lock:
        _records.clear()
        _steps.clear()
        _unusable.clear()


def explain(*, front: bool = False) -> str:
    """Return a report of the graphs that were compiled with a plugin.

    Parameters
    ----------
    front
        True to list, for training steps that were to fit a peak, the peaks that were tried with
        their extra compute.

    Returns
    -------
    str
        A line per graph, and before it the answer in a sentence if a training step was to fit a
        peak, and a line on the step of all of them; planned peak before and after, measured peak
        if it was measured, bound and proof, and the source of the order or the reason for which
        the compiler's own was kept. A graph from Inductor's cache has the figures of the
        compilation that put it there. A plugin that does not know the version of its compiler has
        a line with the reason. Graphs that were compiled before `torch._dynamo.reset()` are
        forgotten.

    Examples
    --------
    >>> from optsched.plugins import explain, forget
    >>> forget()
    >>> explain()
    'no graph was compiled with a plugin'
    """
    with _lock:
        lines = [f"{plugin}: {reason}" for plugin, reason in _unusable.items()]
    for record in records():
        lines.append(str(record))
        if front:
            rows = (f"{peak:,} bytes for {share:.2%} more compute" for peak, share in record.front)
            lines += [f"  tried: {row}" for row in rows]
    with _lock:
        steps = [*_steps.values()]
    lines += steps or _step_line([row for row in records() if row.answer and row.planned])
    return "\n".join(lines) if lines else "no graph was compiled with a plugin"


def _step_line(parts: Sequence[CompiledGraph]) -> list[str]:
    """Say what a step of several graphs holds: each keeps what it saves until it runs back."""
    if len(parts) < 2:
        return []
    saved = sum(part.saved for part in parts)
    most = max((part.planned or 0) + saved - part.saved for part in parts)
    return [
        f"the peak is for each graph: a step of all {len(parts)} may hold {most:,} bytes in them, "
        f"as they save {saved:,} for their backward graphs"
    ]
