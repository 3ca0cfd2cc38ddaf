"""Random programs: live or as a file, the graph's peak is what PyTorch holds when it runs one."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the extra torch is not installed")

from tests.fuzz.fx_programs import check_program


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_peaks_are_what_the_interpreter_holds(first: int) -> None:
    found = [check_program(seed) for seed in range(first, first + 5)]
    # PyTorch itself cannot export or run a few random programs.
    told = [differences for differences in found if differences is not None]
    assert len(told) >= 4
    assert not any(told)
