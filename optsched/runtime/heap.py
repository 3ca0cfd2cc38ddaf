"""Counts of the heap blocks that a library takes, by a small library in C (`heap_blocks.c`).

ONNX Runtime runs in a process of its own, which loads the counter first. PyTorch runs in the
program's process: the calls of its library for memory are led to the counter there. Both follow
the allocator's own requests, so that blocks of the interpreter and of numpy are not counted. It
needs Linux and a C compiler.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from optsched.errors import UsageError

_SOURCE = Path(__file__).with_name("heap_blocks.c")
_VARIABLE = "OPTSCHED_HEAP_BLOCKS"


@contextmanager
def counted_environment() -> Iterator[dict[str, str]]:
    """Build the library, and yield the environment of a process that loads it first.

    Raise `UsageError` if the system is not Linux, or has no C compiler.
    """
    with _built() as library:
        # LD_PRELOAD works only from the start of a process.
        yield {**os.environ, "LD_PRELOAD": library, _VARIABLE: library}


@contextmanager
def _built() -> Iterator[str]:
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        missing = "Linux" if sys.platform != "linux" else "a C compiler (cc)"
        raise UsageError(f"counting heap blocks needs {missing}")
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder, "heap_blocks.so"))
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", library, str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        yield library


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


@cache
def attached_heap(library: str, apart: str = "") -> AttachedHeap:
    """Return a counter of the blocks that a loaded library takes, such as `libc10.so`.

    Blocks of the library `apart`, if one is named, count in :attr:`AttachedHeap.full_rise` alone.

    Raise `UsageError` if this system has no counter; the message says what it needs.
    """
    try:
        with _built() as path:
            heap = AttachedHeap(path)
    except (subprocess.CalledProcessError, OSError) as error:
        raise UsageError("counting heap blocks needs a C compiler that works (cc)") from error
    if heap.attach(library) <= 0:
        raise UsageError(f"the heap blocks of {library} cannot be counted on this system")
    if apart:
        heap.attach(apart, apart=True)
    return heap


class _Counter:
    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        for name in ("live", "peak", "all_peak", "count", "size", "steps", "step"):
            getattr(self._library, f"heap_{name}").restype = ctypes.c_long
        for name in ("size", "step"):
            getattr(self._library, f"heap_{name}").argtypes = [ctypes.c_long]

    @property
    def blocks(self) -> list[int]:
        """Bytes of the blocks taken since the start of the count, in time's order."""
        return [int(self._library.heap_size(i)) for i in range(self._library.heap_count())]

    @property
    def position(self) -> int:
        """Number of steps so far."""
        return int(self._library.heap_steps())

    @property
    def steps(self) -> list[int]:
        """Block `n` taken as `n + 1`, and returned as `-(n + 1)`, in time's order."""
        return [int(self._library.heap_step(i)) for i in range(self._library.heap_steps())]


class Heap(_Counter):
    """The counter of a process that loaded it first; see `heap_blocks.c`."""

    def __init__(self) -> None:
        super().__init__(os.environ[_VARIABLE])
        self._start = 0

    def reset(self) -> None:
        """Begin to count."""
        self._library.heap_reset()
        self._start = self._library.heap_live()

    @property
    def peak(self) -> int:
        """Most bytes held at once since the reset, beyond those held then."""
        return int(self._library.heap_peak()) - self._start


class AttachedHeap(_Counter):
    """The counter of the blocks that one library of this process takes; see `heap_blocks.c`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._library.heap_hold.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def attach(self, library: str, *, apart: bool = False) -> int:
        """Lead the library's calls here; return how many lead here, 0 or less if none can."""
        return int(self._library.heap_attach(library.encode(), int(apart)))

    @contextmanager
    def counting(self, held: Mapping[int, int]) -> Iterator[None]:
        """Count in the body what this thread takes, and which held blocks are returned.

        `held`: bytes of blocks that are live already, by address.
        """
        self._library.heap_begin()
        for address, size in held.items():
            self._library.heap_hold(address, size)
        try:
            yield
        finally:
            self._library.heap_end()

    @property
    def rise(self) -> int:
        """Most bytes that were live at once beyond those at the start."""
        return int(self._library.heap_peak())

    @property
    def full_rise(self) -> int:
        """Most bytes live at once, those of the library that counts apart included."""
        return int(self._library.heap_all_peak())

    @property
    def change(self) -> int:
        """Bytes that were live at the end beyond those at the start."""
        return int(self._library.heap_live())
