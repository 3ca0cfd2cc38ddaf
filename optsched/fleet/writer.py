"""The one writer of the store: a thread of the driver, so that no worker waits for the disk."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from optsched.errors import OptschedError, PlanError
from optsched.fleet.unit import Found, UnitContext
from optsched.store import PlanStore, provenance

GATHER_SECONDS = 0.25
"""For which the first find that waits is joined by others: a transaction costs ten finds."""
PATIENCE = 60.0
"""Seconds to wait for another who writes, as `gc` does in a large store: no run ends by that."""
WAITS = (0.25, 0.5, 1.0)
"""Seconds after which a transaction that failed, and so left nothing, is tried again."""
MOST_WAITING = 256
"""Finds that wait for the disk; beyond that the driver waits too, and memory stays flat."""


class StoreWriter:
    """Puts finds into a store, all that wait at a time in one transaction.

    Plans were checked and packed by the workers that found them.

    A find is safe once it is written: what a kill costs is units in flight and the few that wait.

    Parameters
    ----------
    context
        Store and question.

    Attributes
    ----------
    refused
        By graph, why a find of it was not taken: its bound is above a plan that is there.
    """

    def __init__(self, context: UnitContext) -> None:
        self.context, self.store = context, PlanStore(context.store)
        self.store.require_writable()
        self.store.file.patience = PATIENCE
        self.origin = provenance(code=context.code[:12])
        self.trouble: OptschedError | None = None
        self.refused: dict[int, str] = {}
        self.waiting: queue.Queue[tuple[int, Found] | None] = queue.Queue(MOST_WAITING)
        self.hurry = threading.Event()
        self.behind: Counter[int] = Counter()
        self.thread = threading.Thread(target=self._run, name="store", daemon=True)
        self.thread.start()

    def is_written(self, number: int) -> bool:
        """Whether nothing that was found about a graph waits."""
        return not self.behind[number]

    def put(self, number: int, found: Found) -> None:
        """Keep a find about a graph soon.

        Raises
        ------
        OptschedError
            If an earlier one could not be written: a run that keeps nothing is no use.
        """
        if self.trouble is not None:
            raise self.trouble
        if found.prepared is not None:
            self.behind[number] += 1
            self._hand_over((number, found))

    def close(self) -> None:
        """Write what waits.

        Raises
        ------
        OptschedError
            If something could not be written.
        """
        self._hand_over(None)
        self.hurry.set()
        self.thread.join()
        if self.trouble is not None:
            raise self.trouble

    def _hand_over(self, find: tuple[int, Found] | None) -> None:
        """Add to what waits; where there is no room, the thread stops gathering."""
        if self.waiting.full():
            self.hurry.set()
        self.waiting.put(find)

    def _run(self) -> None:
        last = False
        while not last:
            batch, last = self._gather()
            if batch and self.trouble is None:
                try:
                    self._write_patiently(batch)
                except OptschedError as error:
                    self.trouble = error
                except Exception as error:
                    # A thread that ends without a word would lose all that is found from then on.
                    said = " ".join(f"{type(error).__name__}: {error}".split())
                    self.trouble = OptschedError(f"store {self.store.path}: {said}")

    def _gather(self) -> tuple[list[tuple[int, Found]], bool]:
        """Return the finds of some time, and whether they are the last."""
        batch = [self.waiting.get()]
        if batch[0] is not None:
            # Each is not waited for by itself: to wake up costs more than to take it.
            self.hurry.wait(GATHER_SECONDS)
            self.hurry.clear()
        while batch[-1] is not None and not self.waiting.empty():
            batch.append(self.waiting.get())
        return [found for found in batch if found is not None], batch[-1] is None

    def _write_patiently(self, batch: list[tuple[int, Found]]) -> None:
        """Write finds; what fails is tried again: a unit in this process may take all memory."""
        for wait in WAITS:
            with suppress(OptschedError):
                self._write(batch)
                return
            time.sleep(wait)
        self._write(batch)

    def _write(self, batch: list[tuple[int, Found]]) -> None:
        with self.store.batch() as store:
            for number, found in batch:
                if found.prepared is not None:
                    origin: dict[str, Any] = {**self.origin, "worker": found.worker}
                    try:
                        store.put_prepared(found.prepared, origin=origin)
                    except PlanError as error:
                        # A wrong bound costs its graph and nothing else.
                        self.refused[number] = str(error)
        for number, _ in batch:
            self.behind[number] -= 1
