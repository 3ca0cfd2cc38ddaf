"""Standard input and pipes: they can be read once, while a command reads its files several times.

A pipe that was read to its end gives the same bytes again, until somebody writes new ones.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import BinaryIO, Final

from optsched.errors import FormatError

STANDARD_STREAM: Final = "-"
"""Path that means standard input when reading and standard output when writing."""

_MOST_KEPT: Final = 16
"""Pipes whose bytes are kept, so that a long session does not keep all it ever read."""


def is_pipe(path: str | Path) -> bool:
    """Return True for standard input and for a pipe, such as that of `<(command)` in a shell."""
    return str(path) == STANDARD_STREAM or _identity(path) is not None


def read_pipe(path: str | Path, read: Callable[[BinaryIO], bytes]) -> bytes:
    """Return the bytes of a pipe; if none are new, those of the time before.

    Raise `FormatError` if standard input is closed. Raise `OSError` if the pipe cannot be opened.

    `path`: path for which :func:`is_pipe` is true. `read`: function that reads an open file to its
    end.
    """
    if str(path) == STANDARD_STREAM:
        if sys.stdin is None:
            raise FormatError("standard input is closed")
        # The stream itself, so that another one in its place has bytes of its own.
        return _kept(sys.stdin.buffer, read(sys.stdin.buffer))
    identity = _identity(path)
    number = _OPEN.pop(identity, None)
    # Only the first open waits for a writer.
    number = os.open(path, os.O_RDONLY) if number is None else number
    try:
        with open(number, "rb", closefd=False) as file:
            data = read(file)
    except BaseException:
        os.close(number)
        raise
    if (other := _OPEN.pop(identity, None)) is not None:
        os.close(other)  # Two threads read one pipe.
    _OPEN[identity] = number
    return _kept(identity, data)


_ENDED: dict[Hashable, bytes] = {}

_OPEN: dict[Hashable, int] = {}
"""Numbers of the open files of these pipes. What is written between two reads would be lost if no
reader had the pipe open, and the system could give its identity to another pipe."""


def _kept(pipe: Hashable, data: bytes) -> bytes:
    if data:
        _ENDED.pop(pipe, None)
        _ENDED[pipe] = data
    for oldest in list(_ENDED)[:-_MOST_KEPT]:
        del _ENDED[oldest]
    for oldest in list(_OPEN)[:-_MOST_KEPT]:
        os.close(_OPEN.pop(oldest))
    return data or _ENDED.get(pipe, b"")


def _identity(path: str | Path) -> tuple[int, int] | None:
    """Return the device and number of a pipe; None for anything else, numbers of files included."""
    if not isinstance(path, str | os.PathLike):
        return None
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return None
    return (state.st_dev, state.st_ino) if stat.S_ISFIFO(state.st_mode) else None
