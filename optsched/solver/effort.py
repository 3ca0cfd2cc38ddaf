"""Settings of the driver: shares of time, and sizes above which a stage is skipped.

A share is a part of the time that is left, unless its text says otherwise. The settings decide how
soon, and whether within the limit, something is found or proved, never whether a proof is right. A
*round* is one pass of the stages that the driver repeats while time is left.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OrderEffort:
    """Settings of the search for an order, and of its bounds."""

    heuristics_share: float = 0.3
    """No heuristic order is begun after this part of the whole time."""
    recorded_packings: int = 2
    """In-place choices, and packers for each, of an order that the file records; elsewhere one, as
    a second packer is one kernel more to compile."""
    simple_bound_share: float = 0.1
    """Share for the bound by single ops."""
    closure_share: float = 0.3
    """Share for the bound by flows."""
    closure_orders: int = 8
    """Known orders whose peaks show which flows cannot raise the closure bound."""
    pool_share: float = 0.3
    """Share for the pools of a graph, each planned separately."""
    peak_share: float = 0.85
    """Share for the search of an order if the peak is minimized; the rest is for packing it."""
    order_share: float = 0.5
    """Share for the search of an order if the slab is minimized, as packing takes time too."""
    walk_share: float = 0.5
    """Share for the walk that lowers the sum of the pools' peaks, or conflicts between streams."""
    one_stream_share: float = 0.3
    """Share for a bound of stream graphs: the minimum peak if all ops run one after another."""
    again_share: float = 0.5
    """Share for searching an order once more, each round, while its peak is not proved."""
    continued_part: float = 0.5
    """Part of `again_share` for continuing the first search; the rest renumbers the ops."""


@dataclass(frozen=True, slots=True)
class OrderPackingEffort:
    """Settings of the packing of known orders."""

    first_packing_share: float = 0.3
    """Share for packing the first order of minimum peak; other orders may pack more easily."""
    others_share: float = 0.5
    """Share for packing other orders, each round."""
    least_peak_share: float = 0.5
    """Part of `others_share` for orders of minimum peak; the rest is for those of higher peak."""
    last_packing: float = 0.35
    """Part of the whole time that is kept for packing the order of the best plan at the end."""
    packed_orders: int = 3
    """Heuristic orders that are packed: those of smallest peak."""
    many_buffers: int = 20_000
    """Beyond this many buffers only the best order is packed, after the search for orders."""
    slower: int = 4
    """A packing is begun only if this many times the duration of the last one is left."""
    checks_a_plan: float = 2.0
    """Estimate before the first packing: packing and check take this many times the check."""


@dataclass(frozen=True, slots=True)
class JointEffort:
    """Settings of the engines that choose order and offsets together."""

    small_ops: int = 60
    """Maximum number of ops for trying all orders, and for CP-SAT's joint model."""
    all_orders_share: float = 0.5
    """Share for trying all orders of a small graph."""
    joint_share: float = 0.4
    """Share for CP-SAT's joint model of a small graph."""
    order_neighborhood_share: float = 0.4
    """Share for freeing ops of the best order, each round, while its peak is not proved."""
    order_neighborhood_part: float = 0.7
    """Part of that share for orders; the rest is for packing a better one."""
    milp_ops: int = 200
    """Maximum number of ops for the MILP, which takes too long to build for more."""


@dataclass(frozen=True, slots=True)
class NearEffort:
    """Settings of the search for orders near a baseline."""

    moves_share: float = 0.7
    """Share for orders that move few ops of a baseline, if moves are limited."""
    objective_share: float = 0.6
    """Share for all stages before moving ops back, if fewest moves are asked for."""
    back_share: float = 0.3
    """Share for moving ops one by one, before the exact search for fewest moves."""
    fewest_share: float = 0.7
    """Share for the search for fewest moves; the rest is for trying all orders of a small graph."""
    moved_share: float = 0.5
    """Share for packing one order that moves fewer ops, of what that search has left."""
    tie_steps: int = 40_000
    """Steps run again in orders that move fewer ops of the graph's own order at no cost."""


@dataclass(frozen=True, slots=True)
class ModuleEffort:
    """Settings of the planning of modules."""

    plan_share: float = 0.6
    """Share for a plan of a computation whose callees have no proved minimum yet."""
    bound_share: float = 0.5
    """In that case, share for the bound on its peak, and then for the bound on its slab."""


@dataclass(frozen=True, slots=True)
class SpillEffort:
    """Settings of planning with pools from which buffers may be spilled."""

    try_share: float = 0.1
    """Share for one attempt to fill a pool after spilling."""
    try_seconds: float = 5.0
    """Seconds for one such attempt if the caller sets no time limit."""
    fit_share: float = 0.3
    """Share for the search for a plan that fits."""
    solve_share: float = 0.5
    """Share for the search for a minimum plan, regardless of whether it fits."""
    orders_share: float = 0.2
    """Share for the bound over all orders, and for further orders."""
    pack_share: float = 0.6
    """Share for packing each order except the last."""
    orders: int = 3
    """Maximum number of orders that are packed."""


@dataclass(frozen=True, slots=True)
class SpillChoiceEffort:
    """Settings of the choice of buffers that leave a pool: amounts of work."""

    at_once: int = 200
    """Buffers are spilled in groups of one in this many; loads are computed again after each."""
    relief_share: float = 0.2
    """After this share of the time the groups that are spilled together get larger."""
    movable: int = 400
    """Maximum number of movable buffers for the tree search over sets of staying buffers."""
    nodes: int = 4000
    """Maximum number of nodes of the tree search."""
    packings: int = 60
    """Maximum number of sets of staying buffers that the tree search packs."""
    table: int = 4_000_000
    """Above this many overfull steps times movable buffers the tree search is skipped."""
    sum_bits: int = 1 << 16
    """Up to this many units the bound knows which sums of sizes exist; above, it assumes all."""
    bound_ops: int = 3000
    """Maximum number of ops for the bound from bytes that are live while an op runs."""


ORDERS = OrderEffort()
PACKING = OrderPackingEffort()
JOINT = JointEffort()
NEAR = NearEffort()
MODULES = ModuleEffort()
SPILL = SpillEffort()
SPILL_CHOICE = SpillChoiceEffort()
