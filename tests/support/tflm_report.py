"""Figures that TFLite Micro's interpreter prints for a model, in a process of its own."""

from __future__ import annotations

import faulthandler
import os
import re
from collections.abc import Callable


def printed_by(work: Callable[[], object]) -> bytes:
    """Return what is printed while something runs in a process of its own, and its error."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        # The interpreter prints from C++, and aborts on some errors.
        faulthandler.disable()
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        try:
            work()
        except BaseException as error:
            os.write(1, f"{error!r}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        printed = pipe.read()
    os.waitpid(child, 0)
    return printed


def arena(data: bytes, size: int = 1 << 22) -> tuple[int, int] | str:
    """Return head and tail of the arena, or what the interpreter printed if it failed."""
    from tflite_micro.python.tflite_micro import runtime

    printed = printed_by(
        lambda: runtime.Interpreter.from_bytes(data, arena_size=size).print_allocations()
    ).decode(errors="replace")
    found = [re.search(rf"allocation {part} (\d+)", printed) for part in ("head", "tail")]
    return printed[-400:] if None in found else (int(found[0][1]), int(found[1][1]))  # type: ignore[index]
