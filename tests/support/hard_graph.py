"""A graph that no method proves in the time of a test."""

from __future__ import annotations

import numpy as np

from optsched.model.graph import Graph
from tests.support.generators import PLAIN, random_graph


def hard_graph() -> Graph:
    """Return a random graph of 90 ops and large sizes."""
    return random_graph(np.random.default_rng(1), ops=90, max_size=1000, features=PLAIN)
