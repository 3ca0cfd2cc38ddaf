"""Ctrl-C as a flag that searches poll, so that it cannot interrupt unsafe code.

A signal handler can raise an exception anywhere: while a compiled kernel builds its result tuples,
which crashes the process; inside a callback from LLVM, where the exception is lost; or during an
import, which leaves modules half initialized. Engines therefore hold interrupts. The handler then
only sets a flag, and functions that poll (:meth:`optsched.runtime.clock.Clock.expired`, or
:func:`take_interrupt`) raise the exception.

>>> from optsched.runtime.clock import Clock
>>> from optsched.runtime.limits import Limits
>>> clock = Clock.of(Limits(work=3))
>>> with held_interrupts():
...     while not clock.expired():  # raises KeyboardInterrupt after a Ctrl-C
...         clock.spend(1)

A second Ctrl-C before the next poll raises at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _State:
    """State of the main thread, the only one in which Python runs signal handlers."""

    holds = 0
    waits = False


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Defer Ctrl-C until the next poll, or the end of this context.

    Only Python's default handler of SIGINT is replaced, and it is restored at the end. In other
    threads, and if the caller has installed a handler or ignores the signal, this context has no
    effect.

    Raises
    ------
    KeyboardInterrupt
        At the end, if an interrupt is pending.
    """
    if not _is_main():
        yield
        return
    # A handler that the caller installed stays, and so does SIG_IGN of a background job.
    replaces = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if replaces:
        signal.signal(signal.SIGINT, on_interrupt)
    _State.holds += 1
    try:
        yield
    # Raised within: that Ctrl-C is dealt with, so none may be left pending.
    except KeyboardInterrupt:
        _State.waits = False
        raise
    finally:
        _State.holds -= 1
        if replaces:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    # Nobody polled before the end: the interrupt is raised here rather than lost.
    take_interrupt()


@contextmanager
def released_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise at once again, for waiting on a file or a pipe without polling."""
    if not _is_main():
        yield
        return
    take_interrupt()
    holds, _State.holds = _State.holds, 0
    try:
        yield
    finally:
        _State.holds = holds


def on_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or set the flag if interrupts are held: a signal handler.

    A program can install this handler for other signals that should end a search as Ctrl-C does.
    """
    if _State.holds and not _State.waits:
        _State.waits = True
    else:
        # If the flag is set already, nobody has polled since: this second Ctrl-C gets through.
        _State.waits = False
        raise KeyboardInterrupt


def take_interrupt() -> None:
    """Raise the pending interrupt, if any, in the main thread."""
    if _State.waits and _is_main():
        _State.waits = False
        raise KeyboardInterrupt


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
