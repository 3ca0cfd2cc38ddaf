"""The clock of the processor in place of the wall's."""

from __future__ import annotations

import time

import pytest

from experiments.limits.shapes import SHAPES
from experiments.limits.watch import watched


def test_the_longest_silence_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1.0]
    monkeypatch.setattr(time, "process_time", lambda: now[0])
    real = time.monotonic, time.perf_counter
    with watched() as watch:
        begun = time.monotonic()
        for step in (0.5, 3.0, 1.0):
            now[0] += step
            time.perf_counter()
        assert time.monotonic() - begun == pytest.approx(4.5)
    assert watch.silence == 3.0
    assert "test_the_longest_silence_is_kept" in watch.place
    assert (time.monotonic, time.perf_counter) == real


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_have_about_as_many_ops_as_asked_for(shape: str) -> None:
    assert 150 <= len(SHAPES[shape](420).ops) <= 430
