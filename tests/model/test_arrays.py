"""Small helpers on flat arrays, against what numpy has for them."""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import distinct


def test_distinct_values_are_those_of_numpy() -> None:
    random = np.random.default_rng(0)
    for count in range(40):
        values = random.integers(-5, 20, count)
        assert distinct(values).tolist() == np.unique(values).tolist()
