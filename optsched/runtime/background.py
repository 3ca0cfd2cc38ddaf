"""A background process that compiles kernels while the search continues in Python.

The process receives requests on its standard input, one JSON object per line. Compiled kernels go
to the disk cache, where the search finds them. An empty line means that no more requests follow;
the process then finishes the pending ones, for the benefit of the next run, and exits. If its input
ends without an empty line, the requesting process was killed, and it exits at once. It runs at low
priority. Any error ends it; kernels are then compiled by the process that needs them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from optsched.runtime import disk_cache

if TYPE_CHECKING:
    from queue import SimpleQueue
    from subprocess import Popen

START_SECONDS = 1.0
"""Estimated time to start the process, which imports numba."""
NICENESS = 10
"""Increment of the process priority value: other processes have precedence."""

_SERVE = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import serve; serve()"


class BackgroundCompiler:
    """Client of the background process, which is started at the first request.

    It is off by default and switched on by the command line only, since a library should not start
    processes on its own.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.asked: set[str] = set()
        self._process: Popen[str] | None = None
        self._lock = threading.Lock()

    def ask(self, module: str, name: str, file: str, arguments: tuple[Any, ...]) -> bool:
        """Request a kernel, compiled for arguments like these, unless it was requested before.

        Return True if the process was started by this call.
        """
        with self._lock:
            # Asked about even if the request failed: the kernel is not requested a second time.
            if not self.is_on or file in self.asked:
                return False
            self.asked.add(file)
            starts = self._process is None
            if starts and not self._start():
                return False
            request = [module, name, file, [_described(x) for x in arguments]]
            self._say(f"{json.dumps(request)}\n")
            return starts

    def is_beside(self, file: str) -> bool:
        """Return True if the process was asked for a kernel, runs, and has a processor of its own.

        The kernel is then on disk sooner or later, without anybody waiting for it.
        """
        if not self.is_on or file not in self.asked or self._process is None:
            return False
        return processors() > 1 and self._process.poll() is None

    def finish(self) -> None:
        """Let the process finish all requests, even after this process has ended."""
        with self._lock:
            self._say("\n")

    def forget(self) -> None:
        """Send no more requests and release the process; in a fork it belongs to the parent."""
        # Python runs this function in every fork.
        self.is_on = False
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # unsent requests belong to the parent
                self._process.stdin.close()

    def _start(self) -> bool:
        from subprocess import DEVNULL, PIPE, Popen

        if not disk_cache.is_writable():
            self.is_on = False
            return False
        try:
            self._process = Popen(
                [sys.executable, "-P", "-c", _SERVE, *sys.path],
                # -P: no module in the working folder can be taken for one of ours.
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C must not reach it
            )
        except OSError:
            self.is_on = False
        return self.is_on

    def _say(self, text: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except OSError:
            # The process has ended and cannot compile any more.
            self.is_on = False


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def serve() -> None:
    """Compile requested kernels: the main function of the process."""
    from queue import SimpleQueue

    # Windows has no priority values of this kind.
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    requests: SimpleQueue[str] = SimpleQueue()
    # A thread reads, so that the end of the input is noticed while a kernel compiles.
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    for request in iter(requests.get, ""):
        module, name, file, arguments = json.loads(request)
        kernel = getattr(import_module(module), name)
        kernel.load(*map(_example, arguments))
        if not disk_cache.has_file(file):
            # The source was edited, or the cache is full; other kernels would fail as well.
            sys.exit(1)


def _listen(requests: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        requests.put(line.strip())
        if not line.strip():
            return
    # Not sys.exit, which would end this thread only.
    os._exit(1)


def _described(value: Any) -> Any:
    """Return the properties of an argument on which its compiled form depends, for JSON."""
    # Numba compiles a kernel per type of the arguments. An array's type has its element type,
    # dimensions, memory order and whether it may be written; its length and content do not matter.
    import numpy as np

    if isinstance(value, np.ndarray):
        order = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        return {"array": [value.dtype.str, value.ndim, order, value.flags.writeable]}
    if isinstance(value, np.generic):
        return {"scalar": value.dtype.str}
    if isinstance(value, tuple):
        kind, items = type(value), [_described(x) for x in value]
        return {"tuple": [kind.__module__, kind.__qualname__, hasattr(kind, "_fields"), items]}
    return value


def _example(described: Any) -> Any:
    """Return an argument with the given properties."""
    # The inverse of `_described`, with content that numba never looks at.
    import numpy as np

    match described:
        case {"array": [dtype, dimensions, order, writeable]}:
            array = np.zeros((4,) * dimensions, dtype, "F" if order == "F" else "C")
            # A step of 2 makes an array that is contiguous in neither order.
            array = array[(slice(None, None, 2),) * dimensions] if order == "A" else array
            array.flags.writeable = writeable
            return array
        case {"scalar": dtype}:
            return np.dtype(dtype).type(0)
        case {"tuple": [module, name, is_named, items]}:
            values = tuple(map(_example, items))
            return getattr(import_module(module), name)(*values) if is_named else values
        case _:
            return described


compiler = BackgroundCompiler()
"""The background compiler of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=compiler.forget)
