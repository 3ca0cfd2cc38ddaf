"""Limits in seconds of the processor: what a loaded machine does besides does not count."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from optsched.runtime.interrupt import held_interrupts, on_interrupt


@contextmanager
def interrupt_after(seconds: float) -> Iterator[None]:
    """Raise KeyboardInterrupt in the body once the process has worked for so long in it.

    Searches hand over what they have then.
    """
    before = signal.signal(signal.SIGPROF, on_interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with held_interrupts():
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
