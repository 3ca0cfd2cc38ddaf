"""The checker of fused graphs refuses wrong splits and wrong certificates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from optsched.certificate.fusion import certify_fusion
from optsched.check.fused import (
    FusionBranch,
    FusionCertificate,
    FusionLeaf,
    FusionTree,
    check_fusion,
    check_split,
)
from optsched.errors import PlanError
from optsched.model.fused import FusedGraph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.fusion.search import search_fusion
from tests.model.test_fused import fused
from tests.support.brute_fusion import random_fused


def branched() -> Iterator[tuple[FusedGraph, FusionCertificate]]:
    """Yield graphs whose proof has a branch."""
    for seed in range(200):
        graph = random_fused(np.random.default_rng(seed))
        found = search_fusion(graph, Clock.of(Limits(seconds=5)))
        if found.branches:
            yield graph, certify_fusion(found, Clock.of(Limits(seconds=5))).certificate


def corrupted(tree: FusionTree, other: int) -> Iterator[FusionTree]:
    """Yield trees with one place changed."""
    if isinstance(tree, FusionLeaf):
        yield FusionLeaf(None)
        return
    yield replace(tree, buffer=other)
    yield replace(tree, stays=tree.cut, cut=tree.stays)
    yield tree.stays
    yield tree.cut
    yield from (replace(tree, stays=x) for x in corrupted(tree.stays, other))
    yield from (replace(tree, cut=x) for x in corrupted(tree.cut, other))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([(0, 1)], "lists each part once"),
        ([(0,), (1,), (1, 2)], "lists each part once"),
        ([(1,), (0,), (2,)], "before"),
        ([(0, 2), (1,)], "cycle"),
    ],
)
def test_wrong_splits_are_refused(groups: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(Exception, match=message):
        check_split(fused(), groups)


def test_groups_lie_in_one_node() -> None:
    with pytest.raises(PlanError, match="op 'b' is not part of one fused node"):
        check_split(fused(nodes=((0, 1),), local=frozenset({1})), [(0,), (1, 2)])


def test_no_changed_tree_proves_more() -> None:
    refused = 0
    for graph, certificate in [row for row, _ in zip(branched(), range(8), strict=False)]:
        check_fusion(graph, certificate)
        for tree in corrupted(certificate.tree, min(graph.local)):
            # What a changed tree does prove is true: one byte more is refused in any case.
            with pytest.raises(Exception):  # noqa: B017
                check_fusion(graph, replace(certificate, bound=certificate.bound + 1, tree=tree))
            try:
                check_fusion(graph, replace(certificate, tree=tree))
            except Exception:
                refused += 1
        with pytest.raises(PlanError, match="certificate is of graph"):
            check_fusion(graph, replace(certificate, graph="another"))
        twice = FusionBranch(certificate.tree.buffer, certificate.tree, certificate.tree)
        with pytest.raises(PlanError, match="is decided"):
            check_fusion(graph, replace(certificate, tree=twice))
    assert refused > 20
