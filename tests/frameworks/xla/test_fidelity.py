"""XLA allocates exactly the planned bytes, or the module is not changed, with a reason."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax", reason="jax is not installed (extra jax)")

import jax
import numpy as np

from optsched.plugins import forget, records
from optsched.plugins.xla import enabled
from tests.support.xla_varied import Varied, varied

SEEDS = (0, 1, 3, 5, 6, 8, 12, 20, 21, 25, 51)
"""A sample of those of `experiments.runtimes.xla_plugin.fidelity`: all types, donation, steps.

In the last one branches hand on a value that a later op would else be written over.
"""


def allocated(compiled: Any) -> int:
    told = compiled.memory_analysis()
    return int(told.temp_size_in_bytes + told.output_size_in_bytes - told.alias_size_in_bytes)


def results(compiled: Any, made: Varied) -> list[bytes]:
    copies = jax.tree.map(lambda x: x.copy(), made.arguments)
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(compiled(*copies))]


@pytest.mark.parametrize("seed", SEEDS)
def test_planned_is_what_is_allocated(seed: int) -> None:
    made = varied(seed)
    own = made.lower().compile()
    forget()
    jax.clear_caches()
    lowered = made.lower()
    with enabled(time_limit=60, min_bytes=0, min_gain=0):
        ours = lowered.compile()
    (record,) = records()
    if record.before is None:
        assert record.reason
        assert allocated(ours) == allocated(own)
    else:
        assert (record.before, record.after) == (allocated(own), allocated(ours))
    assert results(own, made) == results(ours, made)
