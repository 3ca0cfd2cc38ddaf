"""Limits in processor time: what a busy machine takes from a search does not count."""

from __future__ import annotations

import time

import pytest

from optsched.runtime import clock as clocks
from optsched.runtime.clock import Clock, processor_time
from optsched.runtime.limits import Limits


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_waiting_does_not_count_and_computing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    # However busy this machine is.
    monkeypatch.setattr(clocks, "BUSY", 1000)
    with processor_time():
        clock = Clock.of(Limits(seconds=0.1))
    time.sleep(0.2)
    assert not clock.expired()
    part = clock.share(0.5)
    compute(0.06)
    assert part.expired()
    assert not clock.expired()
    compute(0.06)
    assert clock.expired()


def test_wall_time_ends_it_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "BUSY", 2)
    with processor_time():
        clock = Clock.of(Limits(seconds=0.05))
    time.sleep(0.12)
    assert clock.expired()
    assert clock.left() == 0.0


def test_other_clocks_and_limits_of_work_are_as_ever() -> None:
    with processor_time():
        work = Clock.of(Limits(work=10))
        inside = Clock.of(work)
    outside = Clock.of(Limits(seconds=0.05))
    time.sleep(0.06)
    assert outside.expired()
    assert inside is work
    assert not work.expired()
    work.spend(10)
    assert work.expired()
