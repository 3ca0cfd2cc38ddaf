"""The only writer of the store: a thread of the driver, so that no worker waits for the disk."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from optsched.errors import OptschedError, PlanError
from optsched.fleet.unit import Found, UnitContext
from optsched.model.saving import Saving
from optsched.store import PlanStore, provenance
from optsched.store.savings import own_plan

GATHER_SECONDS = 0.25
"""Seconds for which the first queued result waits for others; a transaction costs ten results."""
PATIENCE = 60.0
"""Seconds to wait for another writer, such as `gc` on a large store, so that it does not end the
run."""
WAITS = (0.25, 0.5, 1.0)
"""Seconds before each retry of a failed transaction, which left the store unchanged."""
MOST_WAITING = 256
"""Maximum number of queued results; beyond it the driver waits too, which bounds memory."""
_Result = tuple[int, Found, Saving]
"""Number of a graph, what a worker found, and the saving against the graph's framework."""


class StoreWriter:
    """Writer that stores results, all queued ones in one transaction.

    Workers have already checked and serialized the plans. A result is safe once it is written: if
    the run is killed, only units in progress and a few queued results are lost.

    `context`: store and question. `paths`: path of the file of each graph; empty if it has none.

    Attributes
    ----------
    refused
        Reasons, by graph number, why the store rejected a result: its bound is above a stored plan.
    """

    def __init__(self, context: UnitContext, paths: Sequence[str]) -> None:
        self.context, self.store = context, PlanStore(context.store)
        self.paths = paths
        self.store.require_writable()
        self.store.file.patience = PATIENCE
        self.origin = provenance(code=context.code[:12])
        self.trouble: OptschedError | None = None
        self.refused: dict[int, str] = {}
        self.waiting: queue.Queue[_Result | None] = queue.Queue(MOST_WAITING)
        self.write_now = threading.Event()
        self.queued: Counter[int] = Counter()
        self.thread = threading.Thread(target=self._run, name="store", daemon=True)
        self.thread.start()

    def is_written(self, number: int) -> bool:
        """Return True if no result of a graph is queued."""
        return not self.queued[number]

    def put(self, number: int, found: Found, saving: Saving) -> None:
        """Queue a result of a graph for writing, with its saving against the framework's own plan.

        Raise `OptschedError` if an earlier result could not be written, because a run that cannot
        store results is useless.
        """
        if self.trouble is not None:
            raise self.trouble
        if found.prepared is not None:
            self.queued[number] += 1
            self._hand_over((number, found, saving))

    def close(self) -> None:
        """Write all queued results and stop the thread.

        Raise `OptschedError` if a result could not be written.
        """
        self._hand_over(None)
        self.write_now.set()
        self.thread.join()
        # An error of the thread is raised in the driver.
        if self.trouble is not None:
            raise self.trouble

    def _hand_over(self, find: _Result | None) -> None:
        """Queue a result; if the queue is full, make the thread write without delay."""
        if self.waiting.full():
            self.write_now.set()
        self.waiting.put(find)

    def _run(self) -> None:
        # Results are dropped after an error, which `put` and `close` raise.
        last = False
        while not last:
            batch, last = self._gather()
            if batch and self.trouble is None:
                try:
                    self._write_patiently(batch)
                except OptschedError as error:
                    self.trouble = error
                except Exception as error:
                    # If the thread died silently, all later results would be lost.
                    text = " ".join(f"{type(error).__name__}: {error}".split())
                    self.trouble = OptschedError(f"store {self.store.path}: {text}")

    def _gather(self) -> tuple[list[_Result], bool]:
        """Return the results gathered for a while, and True if they are the last."""
        batch = [self.waiting.get()]
        if batch[0] is not None:
            # Waking up once for many results is cheaper than once per result.
            self.write_now.wait(GATHER_SECONDS)
            self.write_now.clear()
        while batch[-1] is not None and not self.waiting.empty():
            batch.append(self.waiting.get())
        return [found for found in batch if found is not None], batch[-1] is None

    def _write_patiently(self, batch: list[_Result]) -> None:
        """Write results; retry failures, because a unit here may use all memory for a moment."""
        for wait in WAITS:
            with suppress(OptschedError):
                self._write(batch)
                return
            time.sleep(wait)
        self._write(batch)

    def _write(self, batch: list[_Result]) -> None:
        with self.store.batch() as store:
            # All of them or none: a killed run leaves no half batch.
            for number, found, saving in batch:
                if found.prepared is not None:
                    origin: dict[str, Any] = {**self.origin, "worker": found.worker}
                    origin |= {"path": self.paths[number]} if self.paths[number] else {}
                    origin |= own_plan(saving)
                    try:
                        store.put_prepared(found.prepared, origin=origin)
                    except PlanError as error:
                        # A wrong bound fails its own graph only.
                        self.refused[number] = str(error)
        for number, *_ in batch:
            self.queued[number] -= 1
