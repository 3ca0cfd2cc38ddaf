"""A process beside this one that compiles kernels, while the search goes on in Python.

Kernels are asked for on its standard input, one JSON object a line; what it compiles goes to the
disk cache, where the search finds it. An empty line says that no more will be asked: it then ends
once all is compiled, for the run after this one. Without that line the end of its input means that
who asked was killed, and it ends at once. It runs at low priority, and whatever goes wrong ends it:
kernels are then compiled by the process that needs them.
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
"""What starting the process takes: it imports numba."""
NICENESS = 10

_SERVE = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import serve; serve()"


class BackgroundCompiler:
    """Asks for kernels; the process is started with the first one.

    Only a command turns this on: a library starts no processes unasked.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.asked: set[str] = set()
        self._process: Popen[str] | None = None
        self._lock = threading.Lock()

    def ask(self, module: str, name: str, file: str, arguments: tuple[Any, ...]) -> bool:
        """Ask, once, for the kernel of this name, compiled for arguments like these.

        Returns whether the process was started now.
        """
        with self._lock:
            if not self.is_on or file in self.asked:
                return False
            self.asked.add(file)
            starts = self._process is None
            if starts and not self._start():
                return False
            request = [module, name, file, [_described(x) for x in arguments]]
            self._say(f"{json.dumps(request)}\n")
            return starts

    def finish(self) -> None:
        """Let what was asked for be compiled, though this process ends."""
        with self._lock:
            self._say("\n")

    def forget(self) -> None:
        """Ask no more, and let the process go: in a fork it is the parent's."""
        self.is_on = False
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # what was not sent yet is the parent's to send
                self._process.stdin.close()

    def _start(self) -> bool:
        from subprocess import DEVNULL, PIPE, Popen

        if not disk_cache.is_writable():
            self.is_on = False
            return False
        try:
            self._process = Popen(
                [sys.executable, "-P", "-c", _SERVE, *sys.path],
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=DEVNULL,
                text=True,
                start_new_session=True,  # a Ctrl-C is not for it
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
            # It has ended, and will compile nothing more.
            self.is_on = False


def serve() -> None:
    """Compile what is asked for: the body of the process."""
    from queue import SimpleQueue

    if hasattr(os, "nice"):
        os.nice(NICENESS)
    requests: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    for request in iter(requests.get, ""):
        module, name, file, arguments = json.loads(request)
        kernel = getattr(import_module(module), name)
        kernel.load(*map(_example, arguments))
        if not disk_cache.has_file(file):
            # Edited since, or there is no room to keep it: the same would come of the others.
            sys.exit(1)


def _listen(requests: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        requests.put(line.strip())
        if not line.strip():
            return
    os._exit(1)


def _described(value: Any) -> Any:
    """Return, for JSON, all that the compiled form for an argument depends on."""
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
    """Return an argument of this description."""
    import numpy as np

    match described:
        case {"array": [dtype, dimensions, order, writeable]}:
            array = np.zeros((4,) * dimensions, dtype, "F" if order == "F" else "C")
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
"""Of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=compiler.forget)
