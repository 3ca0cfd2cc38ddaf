"""Counts the bytes that ONNX Runtime's CPU allocator holds, by a library that is loaded first."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).with_name("heap_blocks.c")
_VARIABLE = "OPTSCHED_HEAP_BLOCKS"


def restart_with_counter() -> None:
    """Build the counter and start this program again with it; return at once if it is loaded.

    Raises
    ------
    SystemExit
        With the exit code of the program that was started.
    """
    if _VARIABLE in os.environ:
        return
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "heap_blocks.so")
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library), _VARIABLE: str(library)}
        again = [sys.executable, *sys.orig_argv[1:]]
        raise SystemExit(subprocess.run(again, env=environment, check=False).returncode)


class Heap:
    """The counter of this process; see `heap_blocks.c`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ[_VARIABLE])
        for name in ("heap_live", "heap_peak", "heap_count", "heap_size"):
            getattr(self._library, name).restype = ctypes.c_long
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
