"""Random programs: live or as a file, the graph's peak is what PyTorch holds when it runs one."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the extra torch is not installed")

from tests.fuzz.fx_programs import check_program


@pytest.mark.parametrize("seed", range(20))
def test_peaks_are_what_the_interpreter_holds(seed: int) -> None:
    differences = check_program(seed)
    if differences is None:
        pytest.skip("PyTorch exports or runs no program of this seed")
    assert differences == []
