"""Numbers that limit and pace the parts of the exact ordering engine.

They decide how soon an answer is found, never whether it is right. All were set by measurements on
our graphs; a graph on which a part starts too late or runs too long is a reason to change one.

Example: with `growth = 4` a round may store four times as many states as the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OrderingEffort:
    """Limits on the work of each part of the search for an order."""

    first_states: int = 2_048
    """States that each direction of a search may store in the first round."""
    growth: int = 4
    """Factor by which `first_states` grows from round to round."""
    budget_growth: int = 2
    """Factor of growth once budgets are decided: smaller, as trees resume rather than restart."""
    most_states: int = 8_000_000
    """States that one direction may hold, about 1 GB; the search ends once they are not enough."""
    first_turn: int = 2_048
    """States stored in the first turn of each direction."""
    turn_growth: int = 4
    """Factor by which the states of a turn grow."""
    first_room: int = 1_024
    """States that a direction allocates memory for at first; doubled as needed."""
    slice_seconds: float = 0.05
    """Seconds that compiled code may run between two checks of the clock and of interrupts. With a
    limit on work the number of states is fixed instead."""
    first_slice: int = 64
    """States expanded before the first such check."""
    slice_ops: int = 65_536
    """Limit on states times ops in the first slice, for graphs of many ops."""
    ops_per_state: int = 32
    """A search of n ops stores `n // ops_per_state` states before it first tries the look-ahead
    bound, whose time grows with the ops."""
    ops_per_period: int = 512
    """A search of n ops stores `n // ops_per_period` states between the first two tries."""

    first_flows: int = 96
    """Least number of flows for the closure bound before contraction."""
    flow_work: int = 1 << 23
    """Limit on flows times ops before contraction: with fewer ops a flow takes less time."""
    block_ops: int = 100_000
    """Most ops of a problem in which identical blocks are looked for; with more it takes
    seconds."""
    large_part: int = 4
    """Blocks are large if they have at least one op in this many."""
    block_flows: int = 64
    """Flows after which identical blocks are looked for, whose ops force the same bytes."""

    contract_ops: int = 300_000
    """Most ops of a problem that is contracted; with more, finding implied edges is too slow."""

    fork_ops: int = 600_000
    """Most ops of a problem in which regions are looked for."""
    region_ops: int = 200
    """Most ops of a region, after its inner regions have become chains."""
    region_states: int = 4_096
    """States that a search of a region may store in each direction."""
    many_ops: int = 30_000
    """With more ops, chains of regions take seconds: they are only made if regions are many."""
    fork_distance: int = 16
    """Regions are many if there is one per this number of ops."""

    local_ops: int = 1_000
    """With more ops, precedences near the peak are looked for before all others."""
    local_states: int = 64
    """States of the search before that."""
    patient_ops: int = 3_000
    """With more ops, precedences take longer than a search of `patient_states`, which is first."""
    patient_states: int = 12_288
    """States of the search before precedences, in problems of more than `patient_ops` ops."""
    budget_ops: int = 12_000
    """Most ops of a problem in which budgets are decided; with more, adding the precedences that
    they imply takes too long."""
    test_work: int = 1_000_000
    """Limit on flows times ops, at one op, for tests from which no precedence follows."""
    patience: int = 48
    """Least number of ops without a new precedence after which a sweep ends."""
    patient_work: int = 30_000
    """A sweep over n ops ends after `patient_work // n` ops without a precedence, if that is more
    than `patience`."""
    local_first: int = 4
    """Ops without any precedence after which the search for local ones ends. If local precedences
    refute a budget, one of the first ops has one."""
    local_patience: int = 24
    """Ops without a new precedence after which that search ends, once it has found one."""
    local_evaluations: int = 128
    """Ops that are tried for local precedences."""

    states_per_branch: int = 16
    """A search that may store n states may look at `n // states_per_branch` branches of the tree
    beside it: both take about as long, because which one settles a budget depends on the graph."""
    branch_states: int = 512
    """States that each direction may store for one branch."""
    branch_ops: int = 400
    """Most ops of a problem that is branched on: every open branch has a matrix of all pairs."""
    polls: int = 20
    """Number of times that a worker looks for a free part of a tree before it gives up."""
    poll_seconds: float = 0.005
    """Seconds between two of these attempts."""
    branch_choices: int = 16
    """Most pairs to branch on that are listed."""
    critical_ops: int = 2
    """Pairs to branch on are looked for at this number of ops with the least slack, and at as many
    with the highest failure counts."""
    part_patience: int = 32
    """Branches of a part of a tree that are looked at before it is divided."""
    search_every: int = 8
    """The remaining states are searched at one in this number of open branches."""

    first_step: int = 4
    """The first budget is this part of the gap between bound and peak above the bound."""
    smallest_step: int = 128
    """The smallest step between two budgets is this part of the peak."""
    far_gap: int = 16
    """The gap is wide if it is more than this part of the peak."""
    far_part: int = 4
    """Factor by which the budget just below the peak gets less effort if the gap is wide. It is
    then unlikely to be refuted, though it may lead to a better order."""
    halvings: int = 8
    """Budgets between bound and peak that precedences alone try to refute."""

    set_thresholds: int = 48
    """Sets of large ops that are looked at for the bytes that their last or first op forces."""
    set_ops: int = 400
    """Most ops in such a set."""
    conflict_ops: int = 2_000
    """Most ops of a graph with streams whose forced conflicts are looked for: that takes time by
    the cube of the ops, in bits."""
    conflict_buffers: int = 1_000
    """Number of the largest buffers that are looked at for such conflicts."""

    ask_share: float = 0.3
    """Share of the time left for one search for an order of a given peak with few moves."""
    most_followed: int = 64
    """Most ops of a baseline that are run in a row without leaving fewer bytes live."""

    window_ops: int = 24
    """Steps on each side of the peak in the first windows of a known order."""
    window_states: int = 8_192
    """States per direction in a window."""
    window_tries: int = 16
    """Windows in a row that may fail."""

    moves_per_state: int = 16
    """Moves of annealing that take about as long as a state of a search."""
    temperatures: tuple[float, float] = (4.0, 12.0)
    """Temperatures at which cycles of annealing start, in alternation; the unit is the mean rise of
    an op, weighted by the rises. The lower one is better on most graphs, but on some it never
    leaves the neighborhood of the first order."""
    coldest: float = 0.05
    """Temperature at the end of a cycle."""
    mean_reach: int = 8
    """Mean number of steps that a move tries to pass; the distribution is exponential."""
    first_cycle: int = 32_768
    """Moves of the first cycle."""
    cycle_growth: float = 1.5
    """Factor by which each cycle is longer than the one before."""
    stride: int = 2_048
    """Moves at one temperature, between two checks of the clock."""
    helpful: int = 64
    """Annealing may take this number of times the moves asked for while it finds better orders."""


EFFORT = OrderingEffort()
