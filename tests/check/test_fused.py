"""The checker of fused graphs refuses wrong splits and wrong certificates."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from optsched.errors import FormatError, PlanError
from optsched.formats.fused import read_fusion_document, write_fusion_certificate
from optsched.formats.opening import open_source
from optsched.model.fused import FusedGraph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.fusion.search import search_fusion
from tests.model.test_fused import fused
from tests.support.brute_fusion import random_fused
from tests.support.corrupt_recompute import corruptions


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
        ([(0, 1, 2), ()], "a group of the split is empty"),
        ([], "lists each part once"),
        ([(0, True, 2)], "expected the id of a part, got True"),
        ([(0, "1", 2)], "expected the id of a part, got '1'"),
        ([(0, 1.0, 2)], "expected the id of a part, got 1.0"),
        ([(0, None, 2)], "expected the id of a part, got None"),
        ([(0, -1, 2)], "lists each part once"),
        ([0, 1, 2], "a split is a list of groups"),
        (None, "a split is a list of groups"),
        ("012", "a split is a list of groups"),
    ],
)
def test_wrong_splits_are_refused(groups: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check_split(fused(), groups)


def test_proofs_of_wrong_kinds_are_refused() -> None:
    graph, certificate = next(branched())
    tree = certificate.tree
    assert isinstance(tree, FusionBranch)
    for other in (None, 3, FusionLeaf, FusionLeaf("proof"), FusionLeaf(certificate)):  # type: ignore[arg-type]
        for changed in (other, replace(tree, stays=other), replace(tree, cut=other)):
            with pytest.raises(PlanError, match=r"branches and leaves|certificate of a leaf"):
                check_fusion(graph, replace(certificate, tree=changed))
    for buffer in (True, None, "t", [1], 1.0, -1):
        with pytest.raises(PlanError, match="a buffer that is not local"):
            check_fusion(graph, replace(certificate, tree=replace(tree, buffer=buffer)))
    for bound in (None, True, "9", 1.5):
        with pytest.raises(PlanError, match="the bound must be a number of bytes"):
            check_fusion(graph, replace(certificate, bound=bound))


def test_groups_lie_in_one_node() -> None:
    with pytest.raises(PlanError, match="op 'b' is not part of one fused node"):
        check_split(fused(nodes=((0, 1),), local=frozenset({1})), [(0,), (1, 2)])


def test_no_changed_tree_proves_more() -> None:
    refused = 0
    for graph, certificate in [row for row, _ in zip(branched(), range(8), strict=False)]:
        check_fusion(graph, certificate)
        for tree in corrupted(certificate.tree, min(graph.local)):
            # What a changed tree does prove is true: one byte more is refused in any case.
            with pytest.raises(PlanError):
                check_fusion(graph, replace(certificate, bound=certificate.bound + 1, tree=tree))
            try:
                check_fusion(graph, replace(certificate, tree=tree))
            except PlanError:
                refused += 1
        with pytest.raises(PlanError, match="certificate is of graph"):
            check_fusion(graph, replace(certificate, graph="another"))
        twice = FusionBranch(certificate.tree.buffer, certificate.tree, certificate.tree)
        with pytest.raises(PlanError, match="is decided"):
            check_fusion(graph, replace(certificate, tree=twice))
    assert refused > 20


def test_no_changed_leaf_proves_more(tmp_path: Path) -> None:
    refused, tried = 0, 0
    for graph, certificate in itertools.islice(branched(), 2):
        path = tmp_path / "proof.json"
        write_fusion_certificate(certificate, path, graph)
        assert read_fusion_document(graph, open_source(path).document) == certificate
        for _, document in corruptions(graph.graph, json.loads(path.read_text())):
            path.write_text(json.dumps(document))
            tried += 1
            try:
                read = read_fusion_document(graph, open_source(path).document)
            except (FormatError, PlanError):
                refused += 1
                continue
            # A changed proof may still hold, but not for a byte more.
            with pytest.raises(PlanError):
                check_fusion(graph, replace(read, bound=certificate.bound + 1))
            try:
                check_fusion(graph, read)
            except PlanError:
                refused += 1
    assert tried > 100
    assert refused > tried / 2
