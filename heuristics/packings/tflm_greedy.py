"""TFLite Micro's packing: by size, the last listed first among equals."""

from __future__ import annotations

import numpy as np

from heuristics.packings.common import place_in_turn
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem


def tflm_greedy(problem: PackingProblem) -> IntArray:
    """Place the largest first, as listed last first among equals, each into the lowest hole.

    References
    ----------
    tensorflow/lite/micro/memory_planner/greedy_memory_planner.cc of
    https://github.com/tensorflow/tflite-micro
    """
    last_first = np.arange(len(problem))[::-1]
    sequence = last_first[np.argsort(-problem.size[::-1], kind="stable")]
    return place_in_turn(problem, sequence, tightest=False)
