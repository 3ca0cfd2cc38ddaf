"""An interrupt ends a search where Python can take it, and as what it is."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDINGS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGPROF")
    if hasattr(signal, name)
]
"""Ctrl-C, a polite kill, and timers: what may be set to end a search. To look at all signals would
take a tenth of a millisecond, a sixth of what many a graph takes."""

OURS = ("optsched.", "heuristics.")
"""Beginnings of the names of this project's modules."""

AGAIN_SECONDS = 0.02
"""After so long an interrupt that came during an import is sent once more."""

_waiting = threading.Event()


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Keep interrupts out of the few instructions in which a compiled kernel could not bear them.

    On its way in and out a kernel runs some Python, to make tuples of its results. An exception
    there is not looked at: it comes out as a SystemError later, or the process crashes. An
    interrupt that lands there waits for :func:`take_interrupt`, or the end of the context. One that
    lands in an import waits until that is done.

    Only handlers that are Python's own for Ctrl-C are replaced, and only in the main thread.

    Raises
    ------
    KeyboardInterrupt
        When the signal comes; and in place of a SystemError of which it is the cause.
    """
    held = [number for number in ENDINGS if _is_main() and _raises(number)]
    for number in held:
        signal.signal(number, _interrupt)
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    finally:
        for number in held:
            signal.signal(number, signal.default_int_handler)
        take_interrupt()


def take_interrupt() -> None:
    """Raise the interrupt that waits, if one does, in the main thread."""
    if _waiting.is_set() and _is_main():
        _waiting.clear()
        raise KeyboardInterrupt


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _raises(number: int) -> bool:
    return signal.getsignal(number) is signal.default_int_handler


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, now or later."""
    if _is_import_at_work(frame):
        # Compiled modules make other errors of it, or are left half made.
        _waiting.set()
        again = threading.Timer(AGAIN_SECONDS, _send_again, (number,))
        again.daemon = True
        again.start()
    elif _is_kernel_at_work(frame):
        _waiting.set()
    else:
        _waiting.clear()
        raise KeyboardInterrupt


def _send_again(number: int) -> None:
    """Send a signal that still waits: what was imported may be at work for long."""
    if not _waiting.is_set():
        return
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        _thread.interrupt_main(signal.Signals(number))


def _is_import_at_work(frame: FrameType | None) -> bool:
    """Whether a module is being imported on behalf of the function of ours that runs."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("importlib."):
            return True
        if name.startswith(OURS) and frame.f_code.co_name != "<module>":
            return False
        frame = frame.f_back
    return False


def _is_kernel_at_work(frame: FrameType | None) -> bool:
    """Whether Python runs on behalf of a kernel that takes its arguments or makes its results.

    While one is being compiled exceptions are borne as anywhere.
    """
    found = False
    while frame is not None:
        found = found or frame.f_globals.get("__name__", "").startswith(("numba.", "namedtuple_"))
        if frame.f_code.co_name == "_compile_for_args":
            return False
        frame = frame.f_back
    return found
