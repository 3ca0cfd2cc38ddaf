"""Ctrl-C as a flag that searches poll, so that it can do no harm where it comes.

An exception out of a signal handler may come anywhere: while a compiled kernel makes tuples of its
results, which crashes the process; inside a callback from LLVM, where it is lost; or in an import,
which leaves modules half made. So the engines hold interrupts: the handler then only sets a flag,
and whatever polls (:meth:`optsched.runtime.clock.Clock.expired`, or :func:`take_interrupt`) raises.

    with held_interrupts():
        while not clock.expired():   # raises KeyboardInterrupt after a Ctrl-C
            step()

Who does not want to wait for the next poll presses Ctrl-C once more: that raises at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _State:
    """Of the main thread: only there does Python run signal handlers."""

    holds = 0
    waits = False


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait for the next poll, or for the end of this context.

    Only Python's own handler of SIGINT is replaced, and put back at the end. In other threads, and
    where the caller has a handler of their own or ignores the signal, nothing is done.

    Raises
    ------
    KeyboardInterrupt
        At the end, if an interrupt still waits.
    """
    if not _is_main():
        yield
        return
    replaces = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if replaces:
        signal.signal(signal.SIGINT, on_interrupt)
    _State.holds += 1
    try:
        yield
    except KeyboardInterrupt:
        _State.waits = False
        raise
    finally:
        _State.holds -= 1
        if replaces:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    take_interrupt()


@contextmanager
def released_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise at once again: for waiting on a file or a pipe, which polls nothing."""
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
    """Raise KeyboardInterrupt, or set the flag where interrupts are held: a signal handler.

    A program that wants another signal to end a search as Ctrl-C does installs this for it.
    """
    if _State.holds and not _State.waits:
        _State.waits = True
    else:
        _State.waits = False
        raise KeyboardInterrupt


def take_interrupt() -> None:
    """Raise the interrupt that waits, if one does, in the main thread."""
    if _State.waits and _is_main():
        _State.waits = False
        raise KeyboardInterrupt


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
