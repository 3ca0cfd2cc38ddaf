"""Set bounds in the search and in certificates, against brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heuristics import ORDERINGS
from optsched.certificate import CertificateEffort, bounds, certify_peak
from optsched.check.certificate import Certificate, check_certificate
from optsched.check.steps import SetStep
from optsched.errors import OptschedError, PlanError
from optsched.explanation import bottleneck, explain, words
from optsched.formats import read_graph
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.ordering import ALL_RULES, closure_bound, rounds, solve_order
from optsched.ordering.bound.precedences import related
from optsched.ordering.bound.sets import ForcedSet
from optsched.ordering.context import SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.problem import build_problem
from optsched.runtime.limits import Limits, Proof
from tests.ordering.test_inplace import some_graph
from tests.support.brute import least_peak
from tests.support.generators import PLANNABLE, random_graph
from tests.support.order_rules import random_rules

INSTANCES = Path(__file__).parents[2] / "instances"
OPTIMUM = 3_516_327_944
"""Minimum peak in bytes of a backward graph of DeBERTa-v2, 949 ops."""
WITHOUT = replace(ALL_RULES, sets=False)
NO_SEARCH = CertificateEffort(most_states=0, most_cases=0)


def graphs(seed: int, count: int, most: int = 7) -> Iterator[Graph]:
    """Plain and in-place graphs in turn, every third one with order rules."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        if number % 2:
            graph = some_graph(rng, most)
        else:
            size = int(rng.choice([3, 12, 1000]))
            ops = int(rng.integers(1, most + 1))
            graph = random_graph(rng, ops, max_size=size, features=PLANNABLE | {"shuffled"})
        if number % 3 == 0:
            try:
                graph = random_rules(rng, graph).apply(graph)
            except OptschedError:
                continue  # No order keeps these rules.
        yield replace(graph, name=f"random{number}")


def wide_graph(branches: int) -> Graph:
    """Each branch computes a large value, and keeps a smaller part of it for a common end."""
    build = GraphBuilder("wide")
    kept = []
    for i in range(branches):
        build.op(f"large{i}", writes={f"x{i}": 1000 + i})
        build.op(f"small{i}", reads=[f"x{i}"], writes={f"y{i}": 100 + 7 * i})
        kept.append(f"y{i}")
    build.op("end", reads=kept, writes={"z": 1})
    return build.build()


@pytest.mark.parametrize("seed", range(3))
def test_set_bound_is_never_above_the_least_peak(seed: int) -> None:
    met = 0
    for graph in graphs(seed, 400):
        context, peak = SearchContext(build_problem(graph.arrays)), least_peak(graph)
        above = related(context.problem)
        found = ForcedSet.find(context, above, 0)
        assert found is None or found.value <= peak
        met += found is not None and found.value == peak
        # Some set that says enough is as good; none says more than all of them.
        some = ForcedSet.find(context, above, 0, enough=1)
        assert (some is None) == (found is None)
        assert some is None or found is None or 1 <= some.value <= found.value
    assert met > 60


def test_search_with_and_without_set_bounds_proves_the_least_peak() -> None:
    effort = replace(EFFORT, first_states=1, first_flows=1, flow_work=0)
    raised = Counter[str]()
    for graph in graphs(3, 500):
        peak = least_peak(graph)
        for rules in (ALL_RULES, WITHOUT):
            events = []
            outcome = solve_order(graph, rules=rules, effort=effort, on_event=events.append)
            assert (outcome.peak, outcome.bound) == (peak, peak)
            raised[f"{rules.sets}"] += any(event.source == "set bound" for event in events)
    assert raised["True"] > 10
    assert raised["False"] == 0


def test_set_bound_is_a_bound_and_no_search() -> None:
    few = replace(EFFORT, first_states=1)
    for branches in (4, 8, 12):
        graph = wide_graph(branches)
        assert solve_order(graph, effort=few).proof is Proof.BOUND
        assert solve_order(graph, effort=few, rules=WITHOUT).proof is Proof.SEARCH


def test_a_real_backward_graph_is_proved_by_a_set() -> None:
    graph = read_graph(INSTANCES / "searched" / "debertav2_default_qa_bs1_cuda.bwd.json.gz")
    start = ORDERINGS["lpmf_backward"](graph, 0)
    outcome = solve_order(graph, warm_start=start.tolist(), limits=Limits(seconds=60))
    assert (outcome.peak, outcome.bound, outcome.proof) == (OPTIMUM, OPTIMUM, Proof.BOUND)
    assert closure_bound(graph).value < OPTIMUM
    written = certify_peak(graph, outcome.order, OPTIMUM, limits=Limits(seconds=60))
    assert [type(step) for step in written.certificate.steps] == [SetStep]


def test_certificates_by_sets_are_accepted_and_say_no_more_than_is_true() -> None:
    effort = CertificateEffort(most_states=0, most_cases=0)
    met = Counter[bool]()
    for graph in graphs(4, 400, 8):
        peak, order = least_peak(graph), solve_order(graph).order
        written = certify_peak(graph, order, peak, effort=effort)
        steps = written.certificate.steps
        if any(isinstance(step, SetStep) for step in steps):
            met[graph.in_place] += 1
            assert check_certificate(graph, written.certificate) == written.rung == "L2"
            with pytest.raises(PlanError):
                check_certificate(graph, Certificate(graph.name, peak + 1, steps))
    assert min(met[False], met[True]) > 3


def test_a_set_shows_what_no_precedences_do(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = wide_graph(8)
    outcome = solve_order(graph)
    written = certify_peak(graph, outcome.order, outcome.peak, effort=NO_SEARCH)
    assert [type(step) for step in written.certificate.steps] == [SetStep]
    assert (written.certificate.bound, written.missing) == (outcome.peak, None)
    monkeypatch.setattr(bounds, "refuting_bound", lambda _: None)
    assert certify_peak(graph, outcome.order, outcome.peak, effort=NO_SEARCH).missing is not None


def test_a_row_of_the_table_serves_search_certificates_and_explanations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bound that only its class and the table know, in place of that by sets."""

    class Gang(ForcedSet):
        name, source = "gang", "gang bound"

    for module in (rounds, bounds, bottleneck, words):
        monkeypatch.setattr(module, "ORDER_BOUNDS", (Gang,))
    graph, sources = wide_graph(8), []
    few = replace(EFFORT, first_states=1)
    outcome = solve_order(graph, effort=few, on_event=lambda event: sources.append(event.source))
    assert "gang bound" in sources
    written = certify_peak(graph, outcome.order, outcome.peak, effort=NO_SEARCH)
    assert (written.rung, written.certificate.bound) == (Proof.BOUND, outcome.peak)
    found = explain(graph)
    assert found.reason == "gang"
    assert {"gang", "reason"} <= found.to_dict().keys()
    assert "one of these" in str(found)
    assert "bound of all ops and gangs" in str(found)
