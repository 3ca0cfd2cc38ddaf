"""Switches for the rules of the exact search, and counters of what each rule did.

The switches exist to measure a rule and to test it: the proved optimum must not depend on any.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class OrderingRules:
    """Switches for the rules of the search.

    A rule that drops orders keeps at least one optimal order; the other rules find better orders or
    bounds sooner. A state of the search is a downset `D`: a set of ops that contains all
    predecessors of its ops. `M(D)` are the bytes that are live after `D` has run. `M` is
    submodular: `M(X | Y) + M(X & Y) <= M(X) + M(Y)` for all downsets. A *segment* is the part of an
    order between two such states.
    """

    contract: bool = True
    """Ops are merged where running them back to back costs nothing: an op that cannot lower the
    live bytes may move right before its only successor, one that cannot raise them right after its
    only direct predecessor, whenever neither passes the other's rise."""
    close: bool = True
    """A ready op that fits the budget and does not raise the live bytes runs at once: in an order
    that runs it later, moving it here raises no state's live bytes, by submodularity."""
    commit: bool = True
    """Say the search reaches a state `T` with no more live bytes than at its root. Of the states
    between the two with fewest live bytes, let `Z` be the one with fewest ops. Some optimal path
    goes through `Z`: replacing each state `X` of a path by `X | Z` raises no live bytes."""
    probe: bool = True
    """The commit rule at every state: is a state with no more live bytes one or two ops ahead?"""
    dovetail: bool = True
    """Search a segment from both ends in alternation; each of the two searches is exhaustive."""
    lift: bool = True
    """When no state is left within the budget, the smallest peak of the steps that did not fit is a
    proved bound, and becomes the next budget."""
    foresee: bool = True
    """The look-ahead bound: a minimum cut gives the fewest bytes that can be live while an op still
    to come runs, over all states ahead (its closure bound). A state at which that exceeds the
    budget leads to no order within it."""
    sets: bool = True
    """In any set of ops one op runs last, when all others have ended. The fewest bytes that are
    then live, as a minimum over the ops of the set, are a bound for all orders. The same holds for
    the op that runs first, when no other has started."""
    implied: bool = True
    """If running `u` before `v` needs more than the budget, `v` must run before `u`."""
    nearby: bool = True
    """Rule `implied` for only the few ops at the peak: cheap even in a large graph, and so tried
    before all stages that take long."""
    split: bool = True
    """Branching: orders in which `u` runs before `v` are searched or refuted, then those in which
    it does not, each with all that the budget then implies."""
    windows: bool = True
    """Stretches of a known order around its peak are searched for a better path, all else fixed."""
    anneal: bool = True
    """A walk over orders, which may rise above the best peak by less and less, looks for a lower
    one."""
    symmetry: bool = True
    """Swapping two identical blocks of ops leaves the problem unchanged. So one of the states that
    differ by such a swap is enough, and some optimal order runs the copies of one chosen op in the
    sequence in which the blocks are numbered. (Flows of the closure bound are computed once for all
    copies even without this rule.)"""
    regions: bool = True
    """Ops enclosed by two ops, with no buffer shared outside, are fixed in one sequence, a
    hill-valley order, which is best in every order of the other ops
    (:mod:`optsched.ordering.reduce.regions`)."""


ALL_RULES = OrderingRules()


@dataclass(slots=True)
class Statistics:
    """Counters of a run, by rule."""

    ops: int = 0
    merged: int = 0
    """`ops` and `merged`: ops of the graph, and the number that contractions removed."""
    regions: int = 0
    """Regions that became chains."""
    flows: int = 0
    """Minimum cuts computed for bounds."""
    expanded: int = 0
    stored: int = 0
    duplicates: int = 0
    """`expanded`, `stored` and `duplicates`: states of the search that were expanded, stored, and
    met again."""
    closed: int = 0
    singled: int = 0
    commits: int = 0
    lifts: int = 0
    """`closed`, `singled`, `commits` and `lifts`: ops placed by the closure rule; states with a
    single successor; commits at a root; budgets raised."""
    foreseen: int = 0
    """States put off by the look-ahead bound."""
    blocks: int = 0
    """Identical blocks of ops."""
    relations: int = 0
    """Precedences implied by a budget."""
    branches: int = 0
    """Nodes of the trees of assumed precedences."""
    windows: int = 0
    improved: int = 0
    """`windows` and `improved`: windows searched, and the number that gave a better order."""
    walked: int = 0
    lowered: int = 0
    """`walked` and `lowered`: moves tried by annealing, and the number that gave a lower peak."""
    table_bytes: int = 0
    """Most memory that the states of one segment had, both directions together."""

    def add(self, other: Statistics) -> None:
        """Add the counters of a second worker on the same problem."""
        for name in (field.name for field in fields(self)):
            mine, others = getattr(self, name), getattr(other, name)
            shared = name in ("ops", "merged", "regions", "blocks", "table_bytes")
            setattr(self, name, max(mine, others) if shared else mine + others)
