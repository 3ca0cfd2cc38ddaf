"""Interrupts at the worst moment."""

from __future__ import annotations

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
