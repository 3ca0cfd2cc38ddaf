"""Trees of supposed precedences: refutations are accepted, no budget with an order is refuted."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import jsonschema
import numpy as np
import pytest

from heuristics import ORDERINGS
from optsched.certificate import CertificateEffort, certify_peak
from optsched.certificate.bounds import Claim
from optsched.certificate.trail import list_steps
from optsched.certificate.tree import ConflictTree
from optsched.check.certificate import Certificate, check_certificate
from optsched.check.steps import OpStep, OrderStep, SupposeStep
from optsched.errors import PlanError
from optsched.formats.certificate import certificate_document, read_certificate_document
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.ordering import closure_bound, solve_order
from optsched.ordering.kernels.bits import has_bit
from optsched.ordering.tree import known_pairs
from optsched.ordering.tree.kernels.downsets import WATCHED
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.certificate.branches import some_graphs
from tests.support.brute import least_peak
from tests.support.families.wiring import random_wiring
from tests.support.schemas import schema

ENOUGH = 10_000


ONLY_CASES = CertificateEffort(few_states=0, most_states=0)
"""No states are listed."""


def a_tree(graph: Graph, order: IntArray, budget: int) -> ConflictTree:
    return ConflictTree(Claim(graph, order, budget, Clock.of(Limits())))


def refuted(graph: Graph, order: IntArray, budget: int) -> Certificate | None:
    """The certificate of a tree alone, if it refutes the budget."""
    why = a_tree(graph, order, budget).run(ENOUGH)
    if why is None:
        return None
    steps = list_steps(graph, budget, why, ENOUGH)
    return Certificate(graph.name, budget + 1, tuple(steps))


def test_tree_decides_every_budget() -> None:
    branched = 0
    for graph in some_graphs(1, 80):
        peak = least_peak(graph)
        order = np.asarray(solve_order(graph).order)
        if peak:
            found = refuted(graph, order, peak - 1)
            assert found is not None
            check_certificate(graph, found)
            branched += any(isinstance(step, SupposeStep) for step in found.steps)
        assert refuted(graph, order, peak) is None
    assert branched > 1


def wiring(nodes: int, seed: int, *, unit: bool, inplace: bool) -> Graph:
    """Random wiring; in-place, each op may write into any of its inputs."""
    graph = random_wiring(nodes, seed, unit=unit)
    if not inplace:
        return graph
    pairs = [(v, op.writes[0], b) for v, op in enumerate(graph.ops) for b in op.reads]
    return replace(graph, inplace_candidates=tuple(pairs)).with_inplace()


@pytest.mark.parametrize(
    ("nodes", "seed", "unit", "inplace"),
    [
        (20, 6, False, False),
        (20, 7, True, False),
        (40, 0, True, False),
        (20, 6, False, True),
        (24, 6, False, True),
    ],
)
def test_random_wiring_is_certified_by_cases(
    nodes: int, seed: int, unit: bool, inplace: bool
) -> None:
    graph = wiring(nodes, seed, unit=unit, inplace=inplace)
    outcome = solve_order(graph)
    written = certify_peak(graph, outcome.order, outcome.peak, effort=ONLY_CASES)
    certificate = written.certificate
    assert (written.missing, written.rung) == (None, "L3")
    assert certificate.bound == outcome.peak == outcome.bound
    assert {type(step) for step in certificate.steps} == {OpStep, OrderStep, SupposeStep}
    for bound in (outcome.peak + 1, outcome.peak + 5):
        with pytest.raises(PlanError):
            check_certificate(graph, replace(certificate, bound=bound))
    document = json.loads(json.dumps(certificate_document(graph, certificate)))
    jsonschema.Draft202012Validator(schema("certificate-1")).validate(document)
    assert read_certificate_document(graph, document) == certificate
    again = certify_peak(graph, outcome.order, outcome.peak, effort=ONLY_CASES)
    assert again.certificate == certificate


def test_hardly_a_step_is_there_for_nothing() -> None:
    graph = wiring(20, 7, unit=True, inplace=False)
    outcome = solve_order(graph)
    steps = certify_peak(graph, outcome.order, outcome.peak, effort=ONLY_CASES).certificate.steps
    spare = 0
    for number in range(len(steps)):
        left = Certificate(graph.name, outcome.peak, steps[:number] + steps[number + 1 :])
        try:
            check_certificate(graph, left)
        except PlanError:
            continue
        spare += 1
        with pytest.raises(PlanError):
            check_certificate(graph, replace(left, bound=outcome.peak + 1))
    assert spare <= len(steps) // 4


def test_a_tree_is_taken_up_again() -> None:
    graph = wiring(20, 6, unit=False, inplace=False)
    outcome = solve_order(graph)
    order = np.asarray(outcome.order)
    whole = a_tree(graph, order, outcome.peak - 1).run(ENOUGH)
    tree, found, turns = a_tree(graph, order, outcome.peak - 1), None, 0
    while found is None:
        found = tree.run(tree.conflicts + 1)
        turns += 1
    assert whole is not None
    assert turns > 1
    once, again = (list_steps(graph, outcome.peak - 1, why, ENOUGH) for why in (whole, found))
    assert once == again


def test_what_is_too_long_is_said() -> None:
    graph = wiring(20, 6, unit=False, inplace=False)
    outcome = solve_order(graph)

    def missing(seconds: float | None = None, **tried: int) -> str:
        effort, limits = replace(ONLY_CASES, **tried), Limits(seconds=seconds)
        written = certify_peak(graph, outcome.order, outcome.peak, effort=effort, limits=limits)
        assert written.missing is not None
        assert "\n" not in written.missing
        assert written.certificate.bound < outcome.peak
        return written.missing

    assert "more than 0 states to list, and more than 1 case" in missing(most_cases=1)
    assert "time is up" in missing(seconds=0)
    assert "more than 3 steps" in missing(most_steps=3)
    assert "more than 0 states to list" in missing(case_ops=10)


def test_watched_downsets_obey_all_facts_of_their_node() -> None:
    # Successors tried after the chosen one leave downsets that are not its own.
    graph = wiring(96, 2, unit=False, inplace=False)
    tree = a_tree(graph, ORDERINGS["lpmf"](graph, 0), 1_831)
    looked = 0
    while tree.run(tree.conflicts + 1) is None:
        if tree.why is not None:
            continue
        branch, member = tree.nodes[-1].branch, tree.propagation.watched.member
        for v, k in product(range(len(graph.ops)), range(WATCHED)):
            if branch.valid[v] >> k & 1:
                ended = {u for u in range(len(graph.ops)) if has_bit(member[v, k], u)}
                for first, second in known_pairs(branch).tolist():
                    assert first in ended or second not in {v, *ended}
                looked += 1
    assert looked > 100


def test_what_is_shown_instead_is_more_than_the_closure_bound() -> None:
    graph = wiring(40, 0, unit=True, inplace=False)
    outcome = solve_order(graph)
    bounds_alone = replace(ONLY_CASES, most_cases=0)
    written = certify_peak(graph, outcome.order, outcome.peak, effort=bounds_alone)
    assert written.missing is not None
    assert closure_bound(graph).value + 1 < written.certificate.bound < outcome.peak
    assert check_certificate(graph, written.certificate) == written.rung
    late = certify_peak(graph, outcome.order, outcome.peak, limits=Limits(seconds=0))
    assert late.certificate.bound == closure_bound(graph).value


def test_a_limit_on_work_ends_cases_at_the_same_place_each_time() -> None:
    graph = wiring(40, 0, unit=True, inplace=False)
    outcome = solve_order(graph)
    whole = certify_peak(graph, outcome.order, outcome.peak, effort=ONLY_CASES)
    assert whole.missing is None
    first, again = (
        certify_peak(graph, outcome.order, outcome.peak, limits=Limits(work=500), effort=ONLY_CASES)
        for _ in range(2)
    )
    assert first.certificate == again.certificate
    assert first.missing is not None
    assert "time is up" in first.missing
