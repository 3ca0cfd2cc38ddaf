"""Interrupts at the worst moment."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any


@contextmanager
def interrupted_at_line(count: int, *modules: ModuleType) -> Iterator[None]:
    """Raise KeyboardInterrupt once this many lines of some modules were run, as a Ctrl-C may."""
    left, files = count, {module.__file__ for module in modules}

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        left -= event == "line"
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def interrupt_at(call: int, solve: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is another one with a Ctrl-C at one of its calls."""
    count = 0

    def solve_or_stop(*args: Any, **how: Any) -> Any:
        nonlocal count
        count += 1
        if count == call:
            signal.raise_signal(signal.SIGINT)
        return solve(*args, **how)

    return solve_or_stop
