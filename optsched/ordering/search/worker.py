"""A second worker: a thread that looks for orders while the first refutes budgets.

Both spend nearly all their time in compiled kernels, which run without the interpreter's lock. A
thread shares the problem as it is, and ends with its process whatever becomes of that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from optsched.ordering.context import OutOfTimeError


class WorkerThread:
    """Work in a thread of its own, until it is done or told to end.

    Parameters
    ----------
    work
        What to do; :class:`OutOfTimeError` ends it.
    end
        Set to make the work raise that the next time it looks at the clock.
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
        """End the work, wait for it, and raise what went wrong in it."""
        self.end.set()
        self.thread.join()
        if self.failure is not None:
            raise self.failure
