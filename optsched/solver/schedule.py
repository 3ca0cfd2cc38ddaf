"""Stages of solve() by engine: which run, in what order, and for what share of the time.

Each stage runs only while something is left to prove, so that an easy graph imports no solver.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial

from optsched.errors import UsageError
from optsched.solver import near, order_packing, stages, streams
from optsched.solver.driver import Stage
from optsched.solver.effort import JOINT, NEAR, ORDERS, PACKING
from optsched.solver.features import Feature
from optsched.solver.joint_stages import (
    OTHER_ORDERS_LACK,
    all_orders,
    joint_model,
    joint_model_if_exact,
    milp_order,
    order_neighborhoods,
    other_orders,
)
from optsched.solver.known import Known
from optsched.solver.relax import Answer, PoolsApart, relaxed

Stages = tuple[Stage[Known], ...]


class Engine(StrEnum):
    """Exact engine to run after heuristics and simple bounds.

    Examples
    --------
    >>> from optsched import Engine, GraphBuilder, solve
    >>> build = GraphBuilder("pair")
    >>> build.op("load", writes={"x": 8})
    >>> build.op("scale", reads=["x"], writes={"y": 4})
    >>> build.output("y")
    >>> graph = build.build()
    >>> solve(graph, engine=Engine.HEURISTICS).slab, solve(graph, engine="cpsat").slab
    (12, 12)
    """

    AUTO = "auto"
    """Our own search; then the joint CP-SAT model if the graph is small."""
    CPSAT = "cpsat"
    """The joint CP-SAT model, regardless of the size."""
    MILP = "milp"
    """The order by MILP: an independent second opinion on small graphs."""
    HEURISTICS = "heuristics"
    """None: heuristics and bounds only."""


def schedule(known: Known, engine: Engine, answer: Answer, *, independent: bool = False) -> Stages:
    """Return an engine's stages; refuse engines that assume one op at a time on streams.

    Raise `UsageError` if the engine does not support independent answers, or the features of the
    question.

    `known`: state of the search. `engine`: exact engine. `answer`: function that answers the
    questions of relaxations. `independent`: True for stages without our reductions and bounds.
    """
    if independent and engine not in _INDEPENDENT:
        raise UsageError(f"independent needs engine cpsat or milp, got {engine.value!r}")
    own = _INDEPENDENT[engine] if independent else stages_of(engine, answer)
    # With one stream no stage has to be left out.
    if not known.graph.on_streams:
        return own
    if known.question.near is not None:
        known.graph.refuse_streams("a count of moved ops")
    if engine is Engine.AUTO:
        return _STREAM_STAGES
    if engine is not Engine.HEURISTICS:
        known.graph.refuse_streams(f"engine {engine}")
    return own


def stages_of(engine: Engine, answer: Answer) -> Stages:
    """Return the stages of an engine for ops that run one at a time."""
    bounds = (
        Stage(stages.heuristic_orders),
        # Packed before the bounds, so that a plan exists if the time is short.
        Stage(order_packing.pack_best_order),
        Stage(stages.closure_bounds, share=ORDERS.closure_share),
    )
    if engine is Engine.AUTO:
        return bounds + _searches(answer)
    named = {Engine.CPSAT: joint_model, Engine.MILP: milp_order}
    last = (Stage(named[engine], named=True),) if engine in named else ()
    # Asked for by name: it runs even if the heuristics have proved the plan optimal.
    return (*bounds, Stage(order_packing.pack_heuristically), *last)


def _searches(answer: Answer) -> Stages:
    """Return the stages of our own search, after heuristics and bounds."""
    return (
        # Packed early where that is quick, so that a plan exists when the search starts.
        Stage(order_packing.pack_before_search),
        Stage(
            relaxed(PoolsApart(), answer),
            share=ORDERS.pool_share,
            needs=Feature.POOLS,
            lacks=Feature.PEAK,
        ),
        Stage(stages.order_search),
        Stage(near.orders_near, share=NEAR.moves_share, needs=Feature.MOVES),
        # After the order search, since a lower peak leads to another order to pack.
        Stage(order_packing.first_packing, share=PACKING.first_packing_share),
        Stage(
            stages.pooled_walk,
            share=ORDERS.walk_share,
            needs=Feature.POOLS,
            lacks=Feature.PEAK | Feature.MOVES,
        ),
        # In small graphs all orders are tried with their packings, which settles slabs above the
        # peak.
        Stage(all_orders, share=JOINT.all_orders_share, most=JOINT.small_ops),
        Stage(
            joint_model_if_exact,
            share=JOINT.joint_share,
            lacks=Feature.MOVES,
            most=JOINT.small_ops,
        ),
        Stage(stages.search_again, share=ORDERS.again_share, lacks=Feature.MOVES, repeat=True),
        Stage(
            order_neighborhoods,
            share=JOINT.order_neighborhood_share,
            lacks=Feature.MOVES,
            repeat=True,
        ),
        Stage(
            other_orders,
            share=PACKING.others_share,
            lacks=OTHER_ORDERS_LACK,
            repeat=True,
        ),
        Stage(order_packing.last_packing, repeat=True),
    )


_ORDERS_ONLY = (
    Stage(stages.heuristic_orders_alone),
    Stage(order_packing.pack_heuristically),
)
_INDEPENDENT: dict[Engine, Stages] = {
    Engine.CPSAT: (
        *_ORDERS_ONLY,
        Stage(partial(joint_model, independent=True), named=True),
    ),
    Engine.MILP: (
        *_ORDERS_ONLY,
        Stage(partial(milp_order, independent=True), named=True),
    ),
}
"""Stages that give an engine orders to start from, but no reductions and no bounds of ours."""
_STREAM_STAGES: Stages = (
    Stage(stages.heuristic_orders),
    Stage(streams.only_order, needs=Feature.ONE_ORDER),
    Stage(order_packing.pack_before_search),
    Stage(streams.one_at_a_time, share=ORDERS.one_stream_share),
    Stage(streams.stream_walk, share=ORDERS.walk_share),
    Stage(order_packing.first_packing, share=PACKING.first_packing_share),
    Stage(streams.all_stream_orders, share=JOINT.all_orders_share, most=JOINT.small_ops),
    Stage(streams.stream_walk, repeat=True),
    Stage(order_packing.last_packing, repeat=True),
)
"""Stages of engine AUTO on several streams."""
