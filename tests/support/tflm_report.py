"""Figures that TFLite Micro's interpreter prints for a model, in a process of its own."""

from __future__ import annotations

import faulthandler
import os
import re


def arena(data: bytes, size: int = 1 << 22) -> tuple[int, int] | str:
    """Return head and tail of the arena, or what the interpreter printed if it failed."""
    from tflite_micro.python.tflite_micro import runtime

    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        # The interpreter prints from C++, and aborts on some errors.
        faulthandler.disable()
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        try:
            runtime.Interpreter.from_bytes(data, arena_size=size).print_allocations()
        except RuntimeError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        printed = pipe.read().decode(errors="replace")
    os.waitpid(child, 0)
    found = [re.search(rf"allocation {part} (\d+)", printed) for part in ("head", "tail")]
    return printed[-400:] if None in found else (int(found[0][1]), int(found[1][1]))  # type: ignore[index]
