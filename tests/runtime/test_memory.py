"""A limit on memory: beyond it there is a MemoryError, after it all is as before."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from optsched.runtime.memory import limited_memory

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux counts addresses"
)


def test_beyond_the_limit_memory_is_refused_and_then_there_again() -> None:
    with limited_memory(2**26), pytest.raises(MemoryError):
        np.ones(2**26)
    assert len(np.ones(2**24)) == 2**24


def test_within_the_limit_and_without_one_nothing_changes() -> None:
    with limited_memory(2**30):
        assert np.ones(2**20).sum() == 2**20
    with limited_memory(None):
        assert np.ones(2**24).sum() == 2**24
