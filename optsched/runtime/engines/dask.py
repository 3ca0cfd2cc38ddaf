"""Engine on the workers of a Dask cluster, or of a local one started for the run.

A cluster is started with `dask scheduler --host 127.0.0.1` and `dask worker tcp://127.0.0.1:8786
--nthreads 1 --nworkers 4`, with one worker per core. In a network, use the addresses of the
machines.
"""

from __future__ import annotations

import logging
from collections import deque
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from optsched.errors import MissingDependencyError, UsageError
from optsched.runtime.clock import Clock
from optsched.runtime.engines.engine import TaskEngine
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.limits import Limits
from optsched.runtime.worker_pool import GRACE_AFTER_INTERRUPT, Tasks, Work, WorkerLoss

_Task = TypeVar("_Task")
LOOK_SECONDS = 1.0
"""Seconds between two checks of the number of workers."""
PATIENCE = 10.0
"""Seconds to wait for a scheduler."""


class Collected(NamedTuple):
    """The messages of a task, and the address of the worker that did it."""

    worker: str
    messages: list[Any]


def collect(work: Work[Any], task: Any) -> Collected:
    """Do a task on a worker, which has no pipe to the driver, and return its messages."""
    from distributed import get_worker

    messages: list[Any] = []
    last = work(task, messages.append)
    if last is not None:
        messages.append(last)
    # A future of Dask does not name the worker.
    return Collected(get_worker().address, messages)


class DaskEngine(TaskEngine):
    """Engine on the workers of a Dask cluster.

    `jobs`: number of processes to start if no cluster is given. `address`: address of the
    scheduler.
    """

    name = "dask"
    is_remote = True
    current = ""
    """Worker whose messages are being handled."""

    def __init__(self, jobs: int, address: str | None) -> None:
        try:
            import dask
            import distributed
        except ImportError:
            raise MissingDependencyError("distributed", "dask") from None
        self.cluster: Any = None
        if address is None:
            # Dask must not retry: this engine counts the losses of each task itself.
            dask.config.set({"distributed.scheduler.allowed-failures": 0})
            logging.getLogger("distributed").setLevel(logging.ERROR)
            self.cluster = distributed.LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                # The engine does not know how much a task needs; Dask would restart workers on a
                # guess.
                memory_limit=None,
                silence_logs=logging.ERROR,
            )
            address = self.cluster.scheduler_address
        try:
            self.client: Any = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"no Dask scheduler at {address}: {error}") from None
        self.excluded: set[str] = set()
        self.pause = Clock.of(Limits(0.0))
        self._look()

    def run(self, tasks: Tasks[_Task]) -> bool:
        """Keep all slots filled and handle results until no task is left."""
        turn = _Turn(self, tasks)
        try:
            while turn.fill():
                turn.listen(0.25)
                take_interrupt()
        except KeyboardInterrupt:
            turn.interrupt()
            return False
        return True

    def submit(self, work: Work[_Task], task: _Task) -> Future[Collected]:
        """Start a task on any worker that is not excluded."""
        future: Future[Collected] = self.executor.submit(collect, work, task)
        return future

    def slots(self) -> int:
        """Return the number of tasks to keep submitted, slightly more than run at a time.

        From time to time it is checked for new workers.
        """
        if self.pause.expired():
            self._look()
        # A quarter more than can run: a worker that becomes free has its next task at hand, yet
        # few tasks are bound to a slow worker.
        return self.jobs + 1 + self.jobs // 4

    def exclude(self) -> bool:
        """Exclude the worker whose message is being handled from further work."""
        self.excluded.add(self.current)
        self._look()
        # False if no worker is left: the caller then ends the run.
        return bool(self.executor_workers or not self.excluded)

    def close(self) -> None:
        """Leave the cluster, and stop it if it was started by this engine."""
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()

    def _look(self) -> None:
        # Workers come and go, so cores and the choice of workers are asked for each time.
        cores: dict[str, int] = self.client.ncores()
        good = {worker: n for worker, n in cores.items() if worker not in self.excluded}
        self.jobs = max(1, sum(good.values()))
        self.executor_workers = sorted(good)
        # Without an exclusion no list is passed, so that workers that join later get tasks as
        # well.
        chosen = {"workers": self.executor_workers} if self.excluded else {}
        # pure=False: the same task submitted twice is run twice, as after a loss.
        self.executor: Any = self.client.get_executor(pure=False, retries=0, **chosen)
        self.pause = Clock.of(Limits(LOOK_SECONDS))


class _Turn:
    """Tasks under way during one run."""

    def __init__(self, engine: DaskEngine, tasks: Tasks[Any]) -> None:
        self.engine, self.tasks = engine, tasks
        self.running: dict[Future[Collected], tuple[Any, Clock]] = {}
        self.left: deque[Any] = deque()

    def fill(self) -> bool:
        """Start tasks while there is room; return True if some task is under way."""
        while len(self.running) < self.engine.slots():
            task = self.left.popleft() if self.left else self.tasks.take()
            if task is None:
                break
            future = self.engine.submit(self.tasks.work, task)
            # Submitted now; the wait until it starts counts as well, which errs on the patient
            # side.
            self.running[future] = task, Clock.of(Limits())
        return bool(self.running)

    def listen(self, seconds: float) -> None:
        """Handle the results that arrive within this time."""
        done, _ = wait(self.running, timeout=seconds, return_when=FIRST_COMPLETED)
        for future in done:
            self._receive(future)

    def interrupt(self) -> None:
        """Cancel tasks that are not running yet, and wait for the others for a short time."""
        # A second Ctrl-C ends the waiting.
        with suppress(KeyboardInterrupt):
            for future in list(self.running):
                if future.cancel():
                    del self.running[future]
            clock = Clock.of(Limits(GRACE_AFTER_INTERRUPT))
            while self.running and not clock.expired():
                self.listen(0.1)

    def _receive(self, future: Future[Collected]) -> None:
        task, clock = self.running.pop(future)
        try:
            found = future.result()
        except (ImportError, AttributeError) as error:
            # A module of the task is missing on the worker, or is another version.
            raise UsageError(
                f"a worker cannot run the task ({error}): install the same version on all machines"
            ) from error
        except (Exception, CancelledError) as error:
            # One line of bounded length, as the text of a cluster's error may be a page.
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            # False: no deadline was exceeded, the task failed or its worker was lost.
            left = self.tasks.on_loss(task, WorkerLoss(False, reason, clock.seconds()))
            if left is not None:
                self.left.append(left)
            return
        # Before the messages are handled: `exclude` is called from within.
        self.engine.current = found.worker
        for message in found.messages:
            self.tasks.handle(task, message)
