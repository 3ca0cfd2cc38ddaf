"""What steers the engine: switches of the pruning rules, and the numbers of its effort."""

from __future__ import annotations

from dataclasses import dataclass

from optsched.packing.kernels.branch import (
    EXTRA_PER_FAILURE,
    FEWEST_THEN_LOWEST,
    FEWEST_THEN_TIGHT,
    TIGHTEST,
)


@dataclass(frozen=True, slots=True)
class Rules:
    """Pruning rules; the minimum slab is the same whichever are on.

    Parameters
    ----------
    cliques
        Keep only sections whose buffers are not all live in another section too: buffers that
        are apart in the larger set are apart in the smaller one.
    units
        Count in the greatest common divisor of alignments, sizes and pins: buffers pushed down
        as far as they go lie on its multiples.
    components
        Pack groups of buffers that are never live together one by one: they do not meet.
    identical
        Of identical buffers the first lies below the second: exchanging them changes nothing.
    far_skip
        A floor at which nobody starts rises to the next top that something could rest on, not to
        the next offset: packings with all buffers pushed down are enough.
    failures
        A set of unplaced buffers that failed fails again on floors that are nowhere lower.
    subset_sums
        After a capacity is refuted, go on at the next sum of sizes: in a packing pushed down a
        chain of buffers, each resting on another, reaches the top.
    """

    cliques: bool = True
    units: bool = True
    components: bool = True
    identical: bool = True
    far_skip: bool = True
    failures: bool = True
    subset_sums: bool = True


@dataclass(frozen=True, slots=True)
class PackingEffort:
    """How the engine spends its time; none of it changes what is proved.

    Parameters
    ----------
    slice_nodes
        Nodes before the first look at the clock; each later slice has twice as many.
    node_work, pairs_per_element
        Elements of work in a node, and pairs of buffers that first fit compares in one: Python
        runs the first of it, see :meth:`optsched.runtime.kernel.Kernel.for_work`.
    slice_work
        Nodes times buffers and sections between two looks at the clock: some ten milliseconds.
    fit_work
        Pairs of buffers that first fit compares between two looks at the clock.
    first_fit_work
        Pairs of buffers of all first fits: fewer orders are tried where buffers are many.
    failure_buffers, failure_bytes
        Up to this many buffers failed states are kept, in a table of at most this size; in larger
        searches they hardly recur.
    arms
        Value order and section rule of the searches in a round of restarts.
    noise
        Standard deviation of a buffer's rank, by round, as a share of all ranks.
    nodes_per_buffer
        Node limit of a restart, per buffer: a search that succeeds needs hardly more nodes than
        buffers, most others go on for very long.
    long_buffers, long_nodes
        Up to this many buffers a capacity may be refuted: half of the nodes go to searches without
        noise, the first of this many nodes per buffer, each later one of twice as many.
    first_nodes
        Nodes of the first turn at a capacity; later turns have more.
    beam_buffers
        From this many buffers on beams are tried: below, branch and bound is quicker.
    beams
        Width and softness. Success is luck: narrow beams have it sooner on some instances, wide
        ones on others.
    beam_rules
        Section rules, by turns; in two rounds each of the beams has both.
    beam_noise
        By how much, as a share, ratings are raised at most.
    beam_skips
        Sections that may be skipped in a row. More let nodes put off what is hard, and these look
        better than those that have done it.
    beam_share
        Children that beams make, for each node of the branch and bound.
    beam_turns
        Turns in which all beams aim at the bound.
    patience
        Turns before beams where a capacity is asked for: restarts mostly do.
    core_buffers
        From this many buffers on the large ones are packed first and the others around them.
    core_shares
        A buffer is of the core if this many like it would fill the capacity.
    core_share
        Nodes for each core in a turn, for each node of the branch and bound of all buffers.
    core_turns
        Turns after which cores are given up where all buffers together are beyond the search.
    fill_orders
        Orders of first fit for those around the core.
    """

    slice_nodes: int = 400
    node_work: int = 32
    pairs_per_element: int = 16
    slice_work: int = 16_000_000
    fit_work: int = 32_000_000
    first_fit_work: int = 1_600_000_000
    failure_buffers: int = 128
    failure_bytes: int = 1 << 25
    arms: tuple[tuple[str, int], ...] = (
        ("TWA", FEWEST_THEN_TIGHT),
        ("ZWT", TIGHTEST),
        ("TWA", EXTRA_PER_FAILURE),
        ("ZAT", TIGHTEST),
        ("TAW", FEWEST_THEN_LOWEST),
        ("WAT", EXTRA_PER_FAILURE),
    )
    noise: tuple[float, ...] = (0.03, 0.1, 0.05)
    nodes_per_buffer: int = 2
    long_buffers: int = 128
    long_nodes: int = 64
    first_nodes: int = 60_000
    beam_buffers: int = 64
    beams: tuple[tuple[int, float], ...] = (
        (60, 0.02), (100, 0.03), (400, 0.02), (60, 0.02), (100, 0.015), (200, 0.03), (400, 0.02),
    )  # fmt: skip
    beam_rules: tuple[int, ...] = (FEWEST_THEN_TIGHT, FEWEST_THEN_LOWEST)
    beam_noise: float = 0.05
    beam_skips: int = 1
    beam_share: int = 6
    beam_turns: int = 8
    patience: int = 4
    core_buffers: int = 512
    core_shares: tuple[int, ...] = (50, 100, 200, 500, 1000)
    core_share: int = 32
    core_turns: int = 12
    fill_orders: tuple[str, ...] = ("ZW", "TZ", "A")
