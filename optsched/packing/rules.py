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
    """Pruning rules; the minimum slab is the same whichever are on."""

    cliques: bool = True
    """Keep only sections whose buffers are not all live in another section too: buffers that
    are apart in the larger set are apart in the smaller one."""
    units: bool = True
    """Count in the greatest common divisor of alignments, sizes and pins: buffers pushed down
    as far as they go lie on its multiples."""
    components: bool = True
    """Pack groups of buffers that are never live together one by one: they do not meet."""
    identical: bool = True
    """Of identical buffers the first lies below the second: exchanging them changes nothing."""
    far_skip: bool = True
    """A floor at which nobody starts rises to the next top that something could rest on, not to
    the next offset: packings with all buffers pushed down are enough."""
    failures: bool = True
    """A set of unplaced buffers that failed fails again on floors that are nowhere lower."""
    subset_sums: bool = True
    """After a capacity is refuted, go on at the next sum of sizes: in a packing pushed down a
    chain of buffers, each resting on another, reaches the top."""


@dataclass(frozen=True, slots=True)
class PackingEffort:
    """How the engine spends its time; none of it changes what is proved."""

    slice_nodes: int = 400
    """Nodes before the first look at the clock; each later slice has twice as many."""
    node_work: int = 32
    pairs_per_element: int = 16
    """Elements of work in a node, and pairs of buffers that first fit compares in one: Python
    runs the first of it, see :meth:`optsched.runtime.kernel.Kernel.for_work`."""
    slice_work: int = 16_000_000
    """Nodes times buffers and sections between two looks at the clock: some ten milliseconds."""
    fit_work: int = 32_000_000
    """Pairs of buffers that first fit compares between two looks at the clock."""
    first_fit_work: int = 1_600_000_000
    """Pairs of buffers of all first fits: fewer orders are tried where buffers are many."""
    failure_buffers: int = 128
    failure_bytes: int = 1 << 25
    """Up to this many buffers failed states are kept, in a table of at most this size; in larger
    searches they hardly recur."""
    arms: tuple[tuple[str, int], ...] = (
        ("TWA", FEWEST_THEN_TIGHT),
        ("ZWT", TIGHTEST),
        ("TWA", EXTRA_PER_FAILURE),
        ("ZAT", TIGHTEST),
        ("TAW", FEWEST_THEN_LOWEST),
        ("WAT", EXTRA_PER_FAILURE),
    )
    """Value order and section rule of the searches in a round of restarts."""
    noise: tuple[float, ...] = (0.03, 0.1, 0.05)
    """Standard deviation of a buffer's rank, by round, as a share of all ranks."""
    nodes_per_buffer: int = 2
    """Node limit of a restart, per buffer: a search that succeeds needs hardly more nodes than
    buffers, most others go on for very long."""
    long_buffers: int = 128
    long_nodes: int = 64
    """Up to this many buffers a capacity may be refuted: half of the nodes go to searches without
    noise, the first of this many nodes per buffer, each later one of twice as many."""
    first_nodes: int = 60_000
    """Nodes of the first turn at a capacity."""
    growth: int = 2
    beam_growth: int = 8
    """Each later turn has one part in so many more: without beams, and with them."""
    approach: int = 4
    """One part in so many of a turn's nodes goes to each easier capacity."""
    beam_buffers: int = 64
    """From this many buffers on beams are tried: below, branch and bound is quicker."""
    beams: tuple[tuple[int, float], ...] = (
        (60, 0.02), (100, 0.03), (400, 0.02), (60, 0.02), (100, 0.015), (200, 0.03), (400, 0.02),
    )  # fmt: skip
    """Width and softness. Success is luck: narrow beams have it sooner on some instances, wide
    ones on others."""
    beam_rules: tuple[int, ...] = (FEWEST_THEN_TIGHT, FEWEST_THEN_LOWEST)
    """Section rules, by turns; in two rounds each of the beams has both."""
    beam_noise: float = 0.05
    """By how much, as a share, ratings are raised at most."""
    beam_skips: int = 1
    """Sections that may be skipped in a row. More let nodes put off what is hard, and these look
    better than those that have done it."""
    beam_bits: int = 13
    """Binary digits that slack is measured to."""
    beam_factors: int = 1024
    """Different factors that ratings are raised by; a power of two."""
    beam_chunk: int = 64
    """Nodes that are expanded between two looks at the clock."""
    beam_work: int = 500
    """Elements of work in expanding a node."""
    beam_share: int = 6
    """Children that beams make, for each node of the branch and bound."""
    beam_turns: int = 8
    """Turns in which all beams aim at the bound."""
    patience: int = 4
    """Turns before beams where a capacity is asked for: restarts mostly do."""
    core_buffers: int = 512
    """From this many buffers on the large ones are packed first and the others around them."""
    core_shares: tuple[int, ...] = (50, 100, 200, 500, 1000)
    """A buffer is of the core if this many like it would fill the capacity."""
    core_share: int = 32
    """Nodes for each core in a turn, for each node of the branch and bound of all buffers."""
    core_turns: int = 12
    """Turns after which cores are given up where all buffers together are beyond the search."""
    sum_words: int = 1 << 23
    """Work of making the sums of sizes, in words of 64 bits; with more all slabs are taken to be
    possible."""
    few_buffers: int = 8
    few_nodes: int = 200_000
    """Up to this many buffers of huge sizes all packings are enumerated, of which there are up to
    n!; and buffers placed before that gives up."""
    fill_orders: tuple[str, ...] = ("ZW", "TZ", "A")
    """Orders of first fit for those around the core."""
