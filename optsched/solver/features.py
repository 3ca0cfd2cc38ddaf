"""Features of a question, by which stages are chosen."""

from __future__ import annotations

from enum import Flag, auto

from optsched.model.question import Question
from optsched.model.streams import has_one_order
from optsched.runtime.limits import Objective


class Feature(Flag):
    """Features of a question that stages need, or cannot handle."""

    NONE = 0
    INPLACE = auto()
    """Ops may write into dying inputs."""
    POOLS = auto()
    """Several slabs."""
    PEAK = auto()
    """The peak is minimized, so offsets decide nothing."""
    MOVES = auto()
    """Orders may move only a limited number of ops of a baseline."""
    FEWEST = auto()
    """The objective is decided, and moved ops are minimized among plans that are as good."""
    SPILL = auto()
    """Buffers may leave their own pools, after no plan was found that keeps the capacities."""
    STREAMS = auto()
    """Ops run on several streams."""
    ONE_ORDER = auto()
    """The ops of each stream can run in one order only."""


def features_of(question: Question) -> Feature:
    """Return the features of a question that decide which stages can answer it."""
    graph, near = question.planned, question.near
    has = {
        Feature.INPLACE: graph.in_place,
        Feature.POOLS: bool(question.pool_graphs),
        Feature.PEAK: question.objective is Objective.PEAK,
        Feature.MOVES: near is not None and near.max_moved is not None,
        Feature.STREAMS: graph.on_streams,
        Feature.ONE_ORDER: graph.on_streams and has_one_order(graph),
    }
    found = Feature.NONE
    for feature, present in has.items():
        found |= feature if present else Feature.NONE
    return found
