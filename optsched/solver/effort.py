"""Settings of the driver: shares of time, and sizes above which a stage is skipped."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DriverEffort:
    """Shares of time, and sizes up to which something is worth trying.

    A share is a part of the time that is left, unless its text says otherwise. The settings decide
    how soon something is proved, never whether a proof is right.
    """

    heuristics_share: float = 0.3
    """Part of the whole time after which no further heuristic order begins."""
    simple_bound_share: float = 0.1
    """For the bound by single ops."""
    closure_share: float = 0.3
    """For the bound by flows."""
    closure_orders: int = 8
    """Orders that spare the closure bound its flows; more of them hardly spare more."""
    pool_share: float = 0.3
    """For the pools of a graph, each planned separately."""
    peak_share: float = 0.85
    """For the search of an order where the peak is what counts: the best one is still packed."""
    order_share: float = 0.5
    """For the search of an order where the slab counts: packing takes time too."""
    first_packing_share: float = 0.3
    """For packing the first order of minimum peak; other orders may pack more easily."""
    small_ops: int = 60
    """Up to this many ops all orders are gone through, and CP-SAT's joint model is asked."""
    all_orders_share: float = 0.5
    """For going through all orders of a small graph."""
    joint_share: float = 0.4
    """For CP-SAT's joint model of a small graph."""
    walk_share: float = 0.5
    """For the walk that lowers the sum of the pools' peaks, or what conflicts on streams."""
    one_stream_share: float = 0.3
    """For the least peak of ops on streams that run one after another: a bound."""
    again_share: float = 0.5
    """For searching an order once more, each round, while its peak is not proved."""
    others_share: float = 0.5
    """For packing other orders, each round."""
    neighbourhood_share: float = 0.5
    """For order and offsets near the top of the slab, each round."""
    least_peak_share: float = 0.5
    """Of that, for orders of minimum peak; the rest is for orders above it."""
    milp_ops: int = 200
    """Above this many ops the MILP would not be built in useful time."""
    moves_share: float = 0.7
    """For orders that move few ops of a baseline, where only such are wanted."""
    objective_share: float = 0.6
    """For all that comes before moving ops back, where fewest moves are wanted as well."""
    back_share: float = 0.3
    """For moving ops one by one, before the search for fewest moves or the least peak of few."""
    fewest_share: float = 0.7
    """For the search for fewest moves; the rest is for going through orders of a small graph."""
    moved_share: float = 0.5
    """For packing one order that moves fewer ops, of what that search has left."""
    last_packing: float = 0.35
    """Part of the whole time that packing the best plan's own order may count on at the end."""
    packed_orders: int = 3
    """Heuristic orders that are packed: those of smallest peak."""
    many_buffers: int = 20_000
    """Beyond this many buffers only the best order is packed, and not before the search ends."""
    slower: int = 4
    """A packing, with the check of its plan, may take this many times as long as the last one."""
    checks_a_plan: float = 2.0
    """Packing an order and checking its plan takes this many times as long as the check alone."""
    plan_share: float = 0.6
    """For a plan of a computation of a module, where the bytes of what it calls are not proved."""
    bound_share: float = 0.5
    """For the bound on its peak then, and again for that on its slab."""


EFFORT = DriverEffort()
"""Default settings."""


@dataclass(frozen=True, slots=True)
class SpillEffort:
    """Settings of the choice of buffers that leave a pool: amounts of work, and shares of time."""

    try_share: float = 0.1
    """For one attempt to fill a pool after spilling, of the time left."""
    try_seconds: float = 5.0
    """Seconds for one such attempt without a time limit."""
    fit_share: float = 0.3
    """For the search for a plan that fits."""
    solve_share: float = 0.5
    """For the search for a minimum plan, regardless of whether it fits."""
    orders_share: float = 0.2
    """For the bound over all orders, and for further orders."""
    pack_share: float = 0.6
    """For packing one of the orders but the last."""
    orders: int = 3
    """Orders that are packed, at most."""
    at_once: int = 200
    """One in this many buffers leaves before the loads are computed again."""
    relief_share: float = 0.2
    """Share for spilling buffers one by one; after it they are spilled in larger groups."""
    movable: int = 400
    """Up to this many buffers that may leave are searched: a node takes time for all of them."""
    nodes: int = 4000
    """Of that search."""
    packings: int = 60
    """Sets that stay and are packed in that search."""
    table: int = 4_000_000
    """Steps that are too full times buffers, at most."""
    sum_bits: int = 1 << 16
    """Sums of sizes are distinguished up to this many units; above, any number of bytes will do."""
    bound_ops: int = 3000
    """Up to this many ops the bytes live whenever each of them runs are looked at together."""


SPILL_EFFORT = SpillEffort()
"""Default settings."""
