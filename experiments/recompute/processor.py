"""Limits by the processor's time, so that other work on the machine does not change what is found.

The planner's limits are wall time, and a busy machine gives a process only a part of it. For a
study :func:`limit_by_processor` replaces the wall clock of planner and order search by the
processor time of this process, and the time limit of HiGHS by a callback that reads the same clock.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any


def limit_by_processor(*others: Any) -> None:
    """Let every limit of this process, and the clocks of some modules, count processor time."""
    import highspy

    from optsched.runtime import clock

    processor = SimpleNamespace(monotonic=time.process_time, perf_counter=time.process_time)
    for module in (clock, *others):
        module.time = processor
    run = highspy.Highs.run

    def timed(highs: Any) -> Any:
        limit = highs.getOptionValue("time_limit")[1] - highs.getRunTime()
        stop = time.process_time() + limit

        def look(event: Any) -> None:
            if time.process_time() > stop:
                event.interrupt()

        highs.setOptionValue("time_limit", highspy.kHighsInf)
        callbacks = (highs.cbMipInterrupt,)
        for callback in callbacks:
            callback.subscribe(look)
        try:
            return run(highs)
        finally:
            for callback in callbacks:
                callback.unsubscribe(look)

    highspy.Highs.run = timed
