"""What was decided for each graph that a compiler handed to a plugin."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from optsched.runtime.text import counted

MAX_RECORDS = 1000
"""Older ones are forgotten: a process may compile for ever."""


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """One graph that a compiler asked an order for.

    Parameters
    ----------
    plugin, name
        Which compiler, and which graph of it.
    ops
        How many ops it has.
    before, after
        Peak bytes that the compiler's own order needs, and the order that was handed back; None
        where they were not worked out.
    bound
        No order needs less, as far as a graph of ops and buffers can say.
    proof
        What stands behind it where `after` meets it.
    order
        Where the order came from, such as `optimum`, and what else was chosen with it.
    reason
        Why the compiler's own order was kept; empty if it was not.
    seconds
        Time that the plugin took, its solver's included.
    solver_seconds
        Time of the solver alone.
    note
        What the figures leave out; empty if nothing.
    cached
        Whether the graph came out of the compiler's cache: these are the figures of an earlier
        compilation with the same settings.
    """

    plugin: str
    name: str
    ops: int
    before: int | None = None
    after: int | None = None
    bound: int | None = None
    proof: str = ""
    order: str = ""
    reason: str = ""
    seconds: float = 0.0
    solver_seconds: float = 0.0
    note: str = ""
    cached: bool = False

    def __str__(self) -> str:
        origin = ", out of its cache" if self.cached else ""
        text = f"{self.plugin} {self.name}{origin}: {counted(self.ops, 'op')}"
        if self.before is not None:
            text += f", peak {self.before:,} bytes"
        if self.after is not None and self.after != self.before:
            text += f" -> {self.after:,}"
        if self.bound is not None:
            text += f", bound {self.bound:,}"
        if self.proof:
            text += f" ({self.proof})"
        if self.order:
            text += f"; {self.order}"
        if self.reason:
            text += f"; own order kept: {self.reason}"
        if self.note:
            text += f"; {self.note}"
        return text if self.cached else f"{text}; {self.seconds:.2f} s"


_lock = threading.Lock()
_records: deque[CompiledGraph] = deque(maxlen=MAX_RECORDS)


def remember(record: CompiledGraph) -> None:
    """Add a record."""
    with _lock:
        _records.append(record)


def records() -> tuple[CompiledGraph, ...]:
    """Return what was decided, the oldest first."""
    with _lock:
        return tuple(_records)


def forget() -> None:
    """Forget all records."""
    with _lock:
        _records.clear()


def explain() -> str:
    """Say of each graph that was compiled with a plugin what was planned, and why.

    Returns
    -------
    str
        A line a graph: planned peak before and after, bound and proof, where the order came from
        or why the compiler's own was kept. A graph out of Inductor's cache has the figures of the
        compilation that put it there.
    """
    known = records()
    return "\n".join(map(str, known)) if known else "no graph was compiled with a plugin"
