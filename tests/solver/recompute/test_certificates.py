"""Corrupted certificates: no field can be changed so that more than the truth is accepted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optsched.certificate.recompute import certify_recompute
from optsched.check.recompute import check_recompute
from optsched.errors import OptschedError
from optsched.formats.recompute import MOST_DEPTH, read_recompute_document, recompute_document
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.solve import Planner
from tests.support.brute_recompute import least_extra, training_graph
from tests.support.corrupt_recompute import corruptions

Document = dict[str, Any]
Proof = Callable[[], tuple[Graph, Document, int]]
DATA = Path(__file__).parents[2] / "data"


def stored_proof() -> tuple[Graph, Document, int]:
    """Return a proof with branches on moments, which the planner may come to prove otherwise."""
    document = json.loads((DATA / "recompute-moments.json").read_text())
    return training_graph(np.random.default_rng(1234)), document, 17


def proof_of(seed: int, peak: int) -> tuple[Graph, Document, int]:
    """Return a graph, its certificate for a peak, and the least extra cost."""
    graph = training_graph(np.random.default_rng(seed))
    planner = Planner(graph)
    planner.find_base(Clock.of(Limits(seconds=20)))
    again = [planner.problem.ops[u] for u in planner.problem.again]
    truth = least_extra(planner.problem.graph, peak, again)
    assert truth is not None
    certificate = certify_recompute(planner.plan(peak, Clock.of(Limits(seconds=20))))
    return graph, recompute_document(graph, certificate), truth


def accepts(graph: Graph, document: Document) -> bool:
    try:
        check_recompute(graph, read_recompute_document(graph, document))
    except OptschedError:
        return False
    return True


PROOFS = [lambda: proof_of(2, 19), lambda: proof_of(150, 21), stored_proof]


@pytest.mark.parametrize("proof", PROOFS)
def test_no_change_of_a_field_proves_more_than_the_truth(proof: Proof) -> None:
    graph, document, truth = proof()
    assert accepts(graph, document)
    for field, changed in corruptions(graph, document):
        for claim in (truth + 1, None):
            assert not accepts(graph, changed | {"bound": claim}), field


def branch_fields(tree: Document) -> set[str]:
    if "ops" not in tree:
        return {f"{row[0]} {i}" for row in tree["rows"] for i in range(len(row))}
    fields = {key for key in tree if key not in ("fewer", "more")}
    return fields | branch_fields(tree["fewer"]) | branch_fields(tree["more"])


@pytest.mark.parametrize("proof", PROOFS)
def test_each_field_is_read(proof: Proof) -> None:
    graph, document, _ = proof()
    fields = branch_fields(document["tree"]) | {"scale", "branches", "sides"}
    refused = Counter(
        field for field, changed in corruptions(graph, document) if not accepts(graph, changed)
    )
    assert {field for field in fields if not refused[field]} == set()


def moment_branch(**changes: Any) -> Document:
    leaf = {"scale": 1, "rows": [], "branches": [1]}
    branch = {"has_run_at": "f4", "ops": ["f3"], "at_most": 0, "fewer": leaf, "more": leaf}
    return {key: x for key, x in (branch | changes).items() if x is not ...}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (moment_branch(ops=["f3", "f2"]), "several at a moment"),
        (moment_branch(has_run_at=..., ops=["f0", "f0"]), "lists an op twice"),
        (moment_branch(has_run_at="nope"), "names op 'nope', which is not in the graph"),
        (moment_branch(has_run_at=..., runs_later_than="f4", ops=["b0"]), "must not run again"),
        (moment_branch(at_most=-1), "at_most must be at least 0, got -1"),
        (moment_branch(more=...), "tree"),
        (moment_branch(later=1), "later"),
    ],
)
def test_malformed_branches_are_refused(tree: Document, message: str) -> None:
    graph, document, _ = stored_proof()
    with pytest.raises(OptschedError, match=message):
        check_recompute(graph, read_recompute_document(graph, document | {"tree": tree}))


def test_a_certificate_may_have_as_many_branches_as_the_format_allows() -> None:
    """Reading, checking and writing went to Python's limit of recursion."""
    graph, document, _ = stored_proof()
    leaf = {"scale": 1, "rows": []}
    deep: Document = leaf | {"branches": [0] * MOST_DEPTH}
    for level in reversed(range(MOST_DEPTH)):
        more = leaf | {"branches": [0] * (level + 1)}
        deep = {"ops": ["f0"], "at_most": 0, "fewer": deep, "more": more}
    shallow = {"ops": ["f0"], "at_most": 0, "fewer": deep, "more": deep}
    claimed = document | {"bound": 0, "tree": deep}
    certificate = read_recompute_document(graph, claimed)
    assert check_recompute(graph, certificate) == 0
    assert recompute_document(graph, certificate) == claimed
    with pytest.raises(OptschedError, match=f"the tree is deeper than {MOST_DEPTH}"):
        read_recompute_document(graph, document | {"tree": shallow})
