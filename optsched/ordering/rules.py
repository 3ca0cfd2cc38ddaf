"""Switches for the rules of the exact search, and counters of what each rule did.

The switches exist to measure a rule and to test it: the proved optimum must not depend on any.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class OrderingRules:
    """Switches for the rules of the search; each rule keeps at least one optimal order.

    `M(D)` are the live bytes after a downset `D`. `M` is submodular:
    `M(X | Y) + M(X & Y) <= M(X) + M(Y)` for all downsets.

    Parameters
    ----------
    contract
        Ops are merged where running them back to back costs nothing: an op that cannot lower the
        live bytes may move right before its only successor, one that cannot raise them right
        after its only direct predecessor, whenever neither passes the other's rise.
    close
        A ready op that fits the budget and does not raise the live bytes runs at once: in any
        order that does not, moving it here raises no state's live bytes, by submodularity.
    commit
        Once a state with no more live bytes than the search's root is reached, the smallest state
        `Z` with fewest bytes between the two is on some optimal path: joining `Z` to every state
        of another path raises none.
    probe
        The commit rule at every state, for targets that are one or two steps away.
    dovetail
        Search from both ends of the segment in alternation; each search alone is exhaustive.
    lift
        When no state is left, the smallest blocked peak is a proven bound and the next budget.
    foresee
        The look-ahead bound: an op still to come costs at least its closure bound over the states
        ahead. A state at which that passes the budget leads nowhere within it.
    sets
        In any set of ops one runs last, when all others have ended, and one first, when no other
        has started: the minimum, over the set, of the bytes that this op then forces is a bound for
        all orders.
    implied
        If `v` after `u` (or before it) forces more than the budget, only the other way is left.
    nearby
        Rule `implied` for the few ops at the peak only. In a large graph these local precedences
        are tried before everything that takes long.
    split
        Branching: orders in which `u` runs before `v` are searched or refuted, then those in which
        it does not, each with all that the budget then implies.
    windows
        Stretches of a known order around its peak are searched for a better path, all else fixed.
    anneal
        A walk over orders, which may rise above the best peak by less and less, looks for a lower
        one.
    symmetry
        Swapping two identical blocks of ops leaves the problem unchanged. So one of the states that
        differ by such a swap is enough, and some optimal order runs a given op of the blocks in the
        order of the blocks. (Identical blocks save flows of the closure bound with and without this
        rule.)
    regions
        Ops between two ops, with no buffer shared outside, become a chain along a hill-valley
        order, which is best regardless of the ops around (:mod:`optsched.ordering.reduce.regions`).
    """

    contract: bool = True
    close: bool = True
    commit: bool = True
    probe: bool = True
    dovetail: bool = True
    lift: bool = True
    foresee: bool = True
    sets: bool = True
    implied: bool = True
    nearby: bool = True
    split: bool = True
    windows: bool = True
    anneal: bool = True
    symmetry: bool = True
    regions: bool = True


ALL_RULES = OrderingRules()


@dataclass(slots=True)
class Statistics:
    """Counters of a run, by rule.

    Parameters
    ----------
    ops, merged
        Ops of the graph, and the number that contractions removed.
    regions
        Regions that became chains.
    flows
        Minimum cuts computed for bounds.
    expanded, stored, duplicates
        States of the search that were expanded, stored, and met again.
    closed, singled, commits, lifts
        Ops placed by the closure rule; states with a single successor; commits at a root; budgets
        raised.
    foreseen
        States put off by the look-ahead bound.
    blocks
        Identical blocks of ops.
    relations
        Precedences implied by a budget.
    branches
        Nodes of the trees of assumed precedences.
    windows, improved
        Windows searched, and the number that gave a better order.
    walked, lowered
        Moves tried by annealing, and the number that gave a lower peak.
    table_bytes
        Most memory that the states of one segment had, both directions together.
    """

    ops: int = 0
    merged: int = 0
    regions: int = 0
    flows: int = 0
    expanded: int = 0
    stored: int = 0
    duplicates: int = 0
    closed: int = 0
    singled: int = 0
    commits: int = 0
    lifts: int = 0
    foreseen: int = 0
    blocks: int = 0
    relations: int = 0
    branches: int = 0
    windows: int = 0
    improved: int = 0
    walked: int = 0
    lowered: int = 0
    table_bytes: int = 0

    def add(self, other: Statistics) -> None:
        """Add the counters of a second worker on the same problem."""
        for name in (field.name for field in fields(self)):
            mine, others = getattr(self, name), getattr(other, name)
            shared = name in ("ops", "merged", "regions", "blocks", "table_bytes")
            setattr(self, name, max(mine, others) if shared else mine + others)
