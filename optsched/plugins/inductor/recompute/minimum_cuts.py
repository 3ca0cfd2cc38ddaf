"""Minimum cuts of PyTorch's partitioner, each of them made once.

At each activation memory budget the partitioner cuts the same few graphs, and the budget only
chooses among their results. To write the graphs and cut them takes most of its time: for a network
of 640 nodes eleven budgets cut 37 graphs, and 11 of these differ.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from torch._functorch import partitioners
from torch.utils._ordered_set import OrderedSet

Cuts = dict[Any, tuple[list[str], list[str]]]
"""Names of the nodes that are saved, and of those that must not run again, by what is cut."""


@contextmanager
def shared_minimum_cuts(known: Cuts) -> Iterator[None]:
    """Let cuts within the block share results for copies of one joint graph.

    `known`: results of earlier blocks for the same joint graph, to which those of this one are
    added. Settings of the partitioner other than the budget must be the same.
    """
    compute: Callable[..., Any] = partitioners.solve_min_cut
    thread = threading.get_ident()

    def solve_min_cut(joint: Any, info: Any, options: Any, dont_ban: Any = ()) -> Any:
        if threading.get_ident() != thread:
            # Another joint graph.
            return compute(joint, info, options, dont_ban)
        nodes = {node.name: node for node in joint.nodes}
        key = (tuple(nodes), repr(options), frozenset(x.name for x in dont_ban or ()))
        if key not in known:
            saved, banned = compute(joint, info, options, OrderedSet(dont_ban or ()))
            known[key] = [x.name for x in saved], [x.name for x in banned]
        saved, banned = known[key]
        return [nodes[x] for x in saved], OrderedSet(nodes[x] for x in banned)

    with mock.patch.object(partitioners, "solve_min_cut", solve_min_cut):
        yield
