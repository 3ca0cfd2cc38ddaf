"""Counts of the blocks that ONNX Runtime's CPU allocator takes, by a library that is loaded first.

The library (`heap_blocks.c`) follows the allocator's own requests, so that blocks of the
interpreter and of numpy are not counted. It needs Linux and a C compiler.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optsched.errors import UsageError

_SOURCE = Path(__file__).with_name("heap_blocks.c")
_VARIABLE = "OPTSCHED_HEAP_BLOCKS"


@contextmanager
def counted_environment() -> Iterator[dict[str, str]]:
    """Build the library, and yield the environment of a process that loads it first.

    Raises
    ------
    UsageError
        If the system is not Linux, or has no C compiler.
    """
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        missing = "Linux" if sys.platform != "linux" else "a C compiler (cc)"
        raise UsageError(f"counting the bytes of ONNX Runtime needs {missing}")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "heap_blocks.so")
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        # LD_PRELOAD works only from the start of a process.
        yield {**os.environ, "LD_PRELOAD": str(library), _VARIABLE: str(library)}


def restart_with_counter() -> None:
    """Start this program again with the library; return at once if it is loaded.

    Raises
    ------
    SystemExit
        With the exit code of the program that was started.
    """
    if _VARIABLE in os.environ:
        return
    with counted_environment() as environment:
        # With all options of the interpreter as it was started.
        again = [sys.executable, *sys.orig_argv[1:]]
        raise SystemExit(subprocess.run(again, env=environment, check=False).returncode)


class Heap:
    """The counter of this process; see `heap_blocks.c`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ[_VARIABLE])
        names = ("live", "peak", "count", "size", "steps", "step")
        for name in names:
            getattr(self._library, f"heap_{name}").restype = ctypes.c_long
        for name in ("size", "step"):
            getattr(self._library, f"heap_{name}").argtypes = [ctypes.c_long]
        self._start = 0

    def reset(self) -> None:
        """Begin to count."""
        self._library.heap_reset()
        self._start = self._library.heap_live()

    @property
    def peak(self) -> int:
        """Most bytes held at once since the reset, beyond those held then."""
        return int(self._library.heap_peak()) - self._start

    @property
    def blocks(self) -> list[int]:
        """Bytes of the blocks taken since the reset, in time's order."""
        return [int(self._library.heap_size(i)) for i in range(self._library.heap_count())]

    @property
    def steps(self) -> list[int]:
        """Block `n` taken as `n + 1`, and returned as `-(n + 1)`, in time's order."""
        return [int(self._library.heap_step(i)) for i in range(self._library.heap_steps())]
