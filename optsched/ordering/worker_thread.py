"""Thread of the second worker of the exact ordering engine."""

from __future__ import annotations

import threading
from collections.abc import Callable

from optsched.ordering.context import OutOfTimeError


class WorkerThread:
    """A thread that runs the second worker until it returns or is asked to stop.

    Both workers spend nearly all their time in compiled kernels, which release the interpreter's
    lock, so a thread is enough: it shares the problem without copying, and ends with its process.

    `work`: the function to run; it may raise :class:`OutOfTimeError` to end early. `end`: event
    that makes `work` raise OutOfTimeError at its next check of the clock.
    """

    def __init__(self, work: Callable[[], object], end: threading.Event) -> None:
        self.work, self.end = work, end
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="second worker", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.work()
        except OutOfTimeError:
            pass
        except BaseException as failure:
            self.failure = failure

    def join(self) -> None:
        """Stop the work, wait for it, and raise the exception that it ended with, if any."""
        self.end.set()
        self.thread.join()
        if self.failure is not None:
            raise self.failure
