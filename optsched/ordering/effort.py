"""The numbers that steer the exact ordering engine: how much of what, and in which order.

None of them decides whether an answer is right, only how soon it is there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OrderingEffort:
    """How much work goes into each part of the search for an order."""

    first_states: int = 2_048
    """States that each direction of a search may store in the first round."""
    growth: int = 4
    """By which factor that grows from round to round."""
    budget_growth: int = 2
    """The same where budgets are decided: trees are taken up again and not begun anew."""
    most_states: int = 8_000_000
    """States that one direction may hold, about 1 GB; the search ends where they do not suffice."""
    first_turn: int = 2_048
    """States stored in the first turn of each direction."""
    turn_growth: int = 4
    """By which factor each later turn has more."""
    first_room: int = 1_024
    """States that a direction has room for at first; doubled as needed."""
    slice_seconds: float = 0.05
    """How long compiled code may run before the clock and interrupts are looked at. With a limit on
    work the number of states is fixed instead."""
    first_slice: int = 64
    """States expanded before the first such look."""
    slice_ops: int = 65_536
    """How many ops they may all have together."""
    ops_per_state: int = 32
    """Ops for each of which a search stores a state before it tries the look-ahead bound, which
    takes time that grows with the ops."""
    ops_per_period: int = 512
    """The same for the states between the first two tries."""

    first_flows: int = 96
    """Flows for the closure bound that are made in any case before contraction."""
    flow_looks: int = 1 << 23
    """Ops that further such flows may look at together: over fewer ops flows are quicker."""
    block_ops: int = 100_000
    """With more ops identical blocks are not looked for: that would take seconds."""
    large_part: int = 4
    """Blocks are large if at least this part of the ops is in them."""
    block_flows: int = 64
    """Flows after which identical blocks are looked for, whose ops force the same bytes."""

    contract_ops: int = 300_000
    """With more ops it takes too long to find what is implied, and nothing is contracted."""

    fork_ops: int = 600_000
    """With more ops not even looking for regions is worth it."""
    region_ops: int = 200
    """Ops of a region at most, inner regions being chains."""
    region_states: int = 4_096
    """States that a search of a region may store in each direction."""
    many_ops: int = 30_000
    """With more ops, making chains of regions takes seconds: only where they are many."""
    fork_distance: int = 16
    """Regions are many where they begin at most this many ops apart, on average."""

    local_ops: int = 1_000
    """With more ops, precedences near the peak are looked for before all others."""
    local_states: int = 64
    """States of the search before that."""
    patient_ops: int = 3_000
    """With more ops, precedences take longer than `patient_states`: search among these first."""
    patient_states: int = 12_288
    budget_ops: int = 12_000
    """With more ops no budgets are decided: strengthening the problem takes too long."""
    test_work: int = 1_000_000
    """Ops, over all flows for one op from which no precedence follows, before no more are made."""
    patience: int = 48
    """Ops without a new precedence after which a sweep ends, at least."""
    patient_work: int = 30_000
    """The same in small problems: this number over that of the ops."""
    local_first: int = 4
    """Ops without any precedence after which the search for local ones ends: where these refute a
    budget, one of the first ops says so."""
    local_patience: int = 24
    """The same once there is one."""
    local_looks: int = 128
    """Ops that are looked at for local precedences."""

    states_per_branch: int = 16
    """A search that may store n states may look at n over this many branches of the tree."""
    tree_part: int = 4
    """By which factor a tree gets more effort than the search of states beside it."""
    branch_states: int = 512
    """States that each direction may store for one branch."""
    branch_ops: int = 400
    """Problems of more ops are not branched on: every open branch keeps a matrix of all pairs."""
    part_looks: int = 20
    """How often a worker looks whether there is a part of a tree for it."""
    part_look_seconds: float = 0.005
    """How long it waits between."""
    branch_choices: int = 16
    """Pairs to branch on that are listed at most."""
    critical_ops: int = 2
    """Ops with the least slack, and as many most to blame, at which such pairs are looked for."""
    part_patience: int = 32
    """Branches of a part of a tree that are taken up before it is divided."""
    search_every: int = 8
    """At one of this many open branches the states left are searched."""

    first_step: int = 4
    """By which part of the gap between bound and peak budgets are raised at first."""
    smallest_step: int = 128
    """Which part of the peak is too small a step."""
    far_gap: int = 16
    """A gap is wide if it is more than this part of the peak."""
    far_part: int = 4
    """By which factor the budget just below the peak then gets less effort: to refute it is far
    off, though it may lead to a better order."""
    halvings: int = 8
    """Budgets between bound and peak that are tried to be refuted by precedences alone."""

    set_thresholds: int = 48
    """Sets of large ops that are looked at for the bytes that the last or first one forces."""
    set_ops: int = 400
    """Ops in such a set at most."""
    conflict_ops: int = 2_000
    """With more ops on streams no conflicts of all orders are looked for: the chains take time by
    the cube of them, in bits."""
    conflict_buffers: int = 1_000
    """So many of the largest buffers are looked at for such conflicts."""

    ask_share: float = 0.3
    """Of the time left, for one question whether a peak can be had with so few moves."""
    most_followed: int = 64
    """Ops of a baseline that are followed, at most, before they leave fewer bytes live."""

    window_ops: int = 24
    """Steps on each side of the peak in the first windows of a known order."""
    window_states: int = 8_192
    """States per direction in a window."""
    window_tries: int = 16
    """Windows in a row that may fail."""

    moves_per_state: int = 16
    """Moves of annealing that take about as long as a state of a search."""
    heats: tuple[float, float] = (4.0, 12.0)
    """Heat at the beginning of a cycle, in turns, in rises of the ops by which most bytes come.
    What is good for most graphs never leaves the surroundings of the start on some."""
    coldest: float = 0.05
    """Heat at the end of a cycle."""
    mean_reach: int = 8
    """Steps that a move tries to go, on average; many go fewer, some far more."""
    first_cycle: int = 32_768
    """Moves of the first cycle."""
    cycle_growth: float = 1.5
    """How much longer each later cycle is."""
    stride: int = 2_048
    """Moves at one heat, after which the clock is looked at."""
    helpful: int = 64
    """How many times what was asked for annealing may go on for, as long as it finds better."""


EFFORT = OrderingEffort()
