"""Options of the packing engine: pruning rules and parameters of its effort.

A pruning rule changes the number of nodes, never the minimum slab: tests switch each rule off and
compare. The effort sets when a method starts and stops.
"""

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
    """Pruning rules; the minimum slab is the same with any of them off."""

    cliques: bool = True
    """Keep only sections whose buffers are not all live in another section too: a packing that
    separates the buffers of the larger section separates those of the smaller one.
    """
    units: bool = True
    """Count in the greatest common divisor of alignments, sizes and pins: in a packing pushed down
    all offsets are multiples of it.
    """
    components: bool = True
    """Pack groups of buffers that are never live together independently."""
    identical: bool = True
    """Of two identical buffers place the first below the second: exchanging them changes nothing.
    """
    far_skip: bool = True
    """After a skip, raise the floor to the next top on which a buffer could rest rather than to the
    next offset: it is enough to consider packings with all buffers pushed down.
    """
    failures: bool = True
    """Prune a state if the same set of unplaced buffers has failed before on floors that were at
    most as high in every section.
    """
    subset_sums: bool = True
    """After a capacity is refuted, raise the bound to the next sum of sizes: in a packing pushed
    down, a chain of buffers, each resting on another, reaches from 0 to the top.
    """


@dataclass(frozen=True, slots=True)
class PackingEffort:
    """Parameters of the effort of the engine; they change run times, but not what a proof means."""

    slice_nodes: int = 400
    """Nodes before the clock is first checked; the number doubles with each later slice."""
    node_work: int = 32
    pairs_per_element: int = 16
    """Elements of work per node, and pairs of buffers that first fit compares per element of work.
    The first calls of a kernel run in Python until it has done enough work to compile; see
    :meth:`optsched.runtime.kernel.Kernel.for_work`.
    """
    slice_work: int = 16_000_000
    """Nodes times buffers and sections between two checks of the clock: about ten milliseconds."""
    fit_work: int = 32_000_000
    """Pairs of buffers that first fit compares between two checks of the clock."""
    first_fit_work: int = 1_600_000_000
    """Maximum number of pairs of buffers compared in all first fits: where there are many buffers,
    fewer orders are tried.
    """
    failure_buffers: int = 128
    failure_bytes: int = 1 << 25
    """Maximum number of buffers for which failed states are kept, and maximum size of their table
    in bytes. In larger searches states hardly recur.
    """
    arms: tuple[tuple[str, int], ...] = (
        ("TWA", FEWEST_THEN_TIGHT),
        ("ZWT", TIGHTEST),
        ("TWA", EXTRA_PER_FAILURE),
        ("ZAT", TIGHTEST),
        ("TAW", FEWEST_THEN_LOWEST),
        ("WAT", EXTRA_PER_FAILURE),
    )
    """Value order and section rule of each search in a round of restarts."""
    noise: tuple[float, ...] = (0.03, 0.1, 0.05)
    """Standard deviation of the noise on ranks, by round, as a share of all ranks."""
    nodes_per_buffer: int = 2
    """Node limit of a restart, per buffer: a search that succeeds needs hardly more nodes than
    there are buffers, while most others take very long.
    """
    long_buffers: int = 128
    long_nodes: int = 64
    """Maximum number of buffers for which half of the nodes go to long searches without noise,
    which can refute a capacity; and the node limit of the first one, per buffer. The limit doubles
    with each long search.
    """
    first_nodes: int = 60_000
    """Nodes of the first turn at a capacity."""
    growth: int = 2
    beam_growth: int = 8
    """Each turn gets 1/growth more nodes than the one before; without beams, and with beams."""
    approach: int = 4
    """Each easier capacity gets 1/approach of the nodes of a turn."""
    beam_buffers: int = 64
    """Minimum number of buffers for beam search: with fewer, branch and bound is faster."""
    beams: tuple[tuple[int, float], ...] = (
        (60, 0.02), (100, 0.03), (400, 0.02), (60, 0.02), (100, 0.015), (200, 0.03), (400, 0.02),
    )  # fmt: skip
    """Width and softness of the beams. Success varies randomly: narrow beams succeed sooner on some
    instances, wide beams on others.
    """
    beam_rules: tuple[int, ...] = (FEWEST_THEN_TIGHT, FEWEST_THEN_LOWEST)
    """Section rules, used in turn; in two rounds each beam is tried with both."""
    beam_noise: float = 0.05
    """Maximum random increase of a rating, as a share of it."""
    beam_skips: int = 1
    """Maximum number of sections skipped in a row. With more skips, nodes postpone the hard choices
    and rate better than nodes that have made them.
    """
    beam_bits: int = 13
    """Number of binary digits to which slack is measured."""
    beam_factors: int = 1024
    """Number of random factors applied to ratings; a power of two."""
    beam_chunk: int = 64
    """Nodes expanded between two checks of the clock."""
    beam_work: int = 500
    """Elements of work per expanded node."""
    beam_share: int = 6
    """Children created by beams per node of branch and bound."""
    beam_turns: int = 8
    """Number of turns in which all beams aim at the bound."""
    patience: int = 4
    """Number of turns without beams if a capacity is given: restarts succeed in most cases."""
    core_buffers: int = 512
    """Minimum number of buffers for core search, which packs the large buffers first and places the
    others around them.
    """
    core_shares: tuple[int, ...] = (50, 100, 200, 500, 1000)
    """Sizes that define the cores: a buffer of at least 1/share of the capacity belongs to the
    core.
    """
    core_share: int = 32
    """Nodes per core and turn, for each node of branch and bound on all buffers."""
    core_turns: int = 12
    """Number of turns after which core search stops if the full component is too large to search.
    """
    sum_words: int = 1 << 23
    """Maximum work to compute the sums of sizes, in 64-bit words; above it, every slab is
    considered possible.
    """
    few_buffers: int = 8
    few_nodes: int = 200_000
    """Maximum number of buffers, of huge sizes, for which all packings (up to n!) are enumerated,
    and number of placed buffers after which the enumeration stops.
    """
    fill_orders: tuple[str, ...] = ("ZW", "TZ", "A")
    """Orders of first fit for the buffers around the core."""
