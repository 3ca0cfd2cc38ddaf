"""Seconds that are counted from work: the machine and what else it does do not count."""

from __future__ import annotations

import time

import pytest

from optsched.runtime.clock import EACH, Clock, count_work, counted_seconds
from optsched.runtime.limits import Limits


def test_only_work_counts_also_that_of_parts_and_of_other_clocks() -> None:
    with counted_seconds(wall=1000):
        clock = Clock.of(Limits(seconds=1.0))
        time.sleep(0.01)
        assert (clock.counts, clock.left()) == (True, 1.0)
        part = clock.share(0.5)
        part.spend(3, each=0.1)
        # Clocks of one body go on together, as those of the wall do.
        Clock.of(Limits(seconds=9.0)).spend(1, each=0.1)
        Clock.of(Limits(work=100)).spend(10)
        count_work(2, 0.05)
        assert clock.left() == pytest.approx(0.5 - 10 * EACH)
        assert part.expired()
        with counted_seconds(wall=0):
            assert not clock.limited(0.1).expired()
    clock.spend(1, each=0.5)
    assert clock.expired()


def test_wall_time_ends_it_in_the_end() -> None:
    with counted_seconds(wall=0.05):
        clock = Clock.of(Limits(seconds=100.0))
    assert clock.share(0.01).left() == 1.0
    time.sleep(0.06)
    assert clock.expired()
    assert (clock.left(), clock.is_over) == (0.0, True)


def test_other_clocks_and_limits_of_work_are_as_ever() -> None:
    with counted_seconds(wall=0):
        work = Clock.of(Limits(work=10))
        inside = Clock.of(work)
    outside = Clock.of(Limits(seconds=0.05))
    assert (outside.counts, work.counts) == (False, True)
    time.sleep(0.06)
    assert outside.expired()
    assert inside is work
    assert not work.expired()
    assert work.limited(5 * EACH).left() == pytest.approx(5)
    work.spend(10)
    assert work.expired()
