"""Certificates: each one written is accepted; none that says more than is true ever is."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from optsched.certificate import CertificateEffort, bounds, certify_peak
from optsched.certificate.states import list_states
from optsched.check.certificate import Certificate, Step, check_certificate
from optsched.check.network import Cases, Flow, Network
from optsched.check.steps import EndStep, OpStep, OrderStep, SetStep, StatesStep, SupposeStep
from optsched.errors import FormatError, GraphError, OptschedError, PlanError
from optsched.formats import read_certificate, write_certificate
from optsched.formats.certificate import certificate_document, read_certificate_document
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.memory_model import plannable
from optsched.ordering import closure_bound, solve_order
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.ordering.test_inplace import some_graph
from tests.support.brute import least_peak
from tests.support.generators import random_graph
from tests.support.schemas import certificate_schema, schema

Document = dict[str, Any]


@cache
def samples() -> list[tuple[Graph, int, Certificate]]:
    """Graphs, their least peaks and certificates of these, by every kind of step."""
    rng = np.random.default_rng(11)
    made = []
    for number in range(200):
        graph = random_graph(rng, ops=int(rng.integers(0, 11)), name=f"random{number}")
        if number % 2:
            graph = replace(some_graph(rng, 10), name=f"random{number}")
        peak = least_peak(graph)
        order = solve_order(graph).order
        # Where no states may be listed, sets or implied precedences have to do.
        for most in (0, 100_000):
            written = certify_peak(graph, order, peak, effort=CertificateEffort(most_states=most))
            assert check_certificate(graph, written.certificate) == written.rung
            if most or written.missing is None:
                assert (written.certificate.bound, written.missing) == (peak, None)
                made.append((graph, peak, written.certificate))
                if kind_of(written.certificate) <= {OpStep, EndStep}:
                    break
    return made


def kind_of(certificate: Certificate) -> set[type]:
    return {type(step) for step in certificate.steps}


def test_every_kind_of_step_occurs_and_proves_the_least_peak() -> None:
    met = Counter(kind for _, _, c in samples() for kind in kind_of(c))
    kinds = {EndStep, OpStep, SetStep, OrderStep, StatesStep}
    assert set(met) >= kinds
    assert min(met[kind] for kind in kinds) >= 4
    spared = Counter(kind for g, _, c in samples() for kind in kind_of(c) if g.in_place)
    assert min(spared[kind] for kind in (OpStep, SetStep, OrderStep, StatesStep)) >= 2
    assert sum(has_cases(graph, certificate) for graph, _, certificate in samples()) >= 4


def has_cases(graph: Graph, certificate: Certificate) -> bool:
    """Return True if a step of the certificate has cases with and without a free input."""
    return '"held"' in json.dumps(certificate_document(graph, certificate))


def test_a_case_left_out_is_refused() -> None:
    refused = 0
    for graph, _, certificate in samples():
        last = certificate.steps[-1] if certificate.steps else None
        if not isinstance(last, OpStep) or not isinstance(last.flow, Cases):
            continue
        cases = last.flow
        for left in (cases.free, cases.held):
            for changed in (left, Cases(cases.input, left, left), Cases(last.op, left, left)):
                if changed == cases:
                    continue
                step = OpStep(last.op, changed)
                steps = (*certificate.steps[:-1], step)
                try:
                    check_certificate(graph, Certificate(graph.name, certificate.bound, steps))
                except PlanError:
                    refused += 1
    assert refused >= 8


def test_a_certificate_of_the_in_place_model_is_none_of_the_other() -> None:
    graph, _, certificate = next(row for row in samples() if has_cases(row[0], row[2]))
    document = certificate_document(graph, certificate)
    assert read_certificate_document(graph, document) == certificate
    with pytest.raises(PlanError, match="certificate is for the in-place model"):
        read_certificate_document(graph.without_inplace(), document)
    with pytest.raises(PlanError, match="a case has no sense"):
        check_certificate(graph.without_inplace(), certificate)


def test_cases_and_flows_are_told_apart() -> None:
    graph, _, certificate = next(row for row in samples() if has_cases(row[0], row[2]))
    document = certificate_document(graph, certificate)
    step = next(step for step in document["steps"] if "input" in step)
    with pytest.raises(FormatError, match="a flow or two cases"):
        read_certificate_document(graph, document | {"steps": [step | {"releases": []}]})
    deep: Document = {"releases": [], "passes": []}
    for _ in range(300):
        deep = {"input": 0, "free": deep, "held": {"releases": [], "passes": []}}
    with pytest.raises(FormatError, match="cases nested more than"):
        read_certificate_document(graph, document | {"steps": [{"kind": "op", "op": 0, **deep}]})


def test_the_schema_has_the_steps_as_their_classes_are() -> None:
    assert schema("certificate-1") == certificate_schema()


def test_documents_fit_the_schema_and_come_back_the_same(tmp_path: Path) -> None:
    validator = jsonschema.Draft202012Validator(schema("certificate-1"))
    for number, (graph, _, certificate) in enumerate(samples()[:300]):
        document = certificate_document(graph, certificate)
        validator.validate(json.loads(json.dumps(document)))
        path = tmp_path / f"{number}.json{'.gz' if number % 2 else ''}"
        write_certificate(certificate, path, graph)
        assert read_certificate(path, graph) == certificate


def test_a_bound_above_the_least_peak_is_refused() -> None:
    for graph, peak, certificate in samples():
        raised = Certificate(graph.name, peak + 1, certificate.steps)
        with pytest.raises(PlanError):
            check_certificate(graph, raised)
        lowered = Certificate(graph.name, peak - 1, certificate.steps)
        if StatesStep not in kind_of(certificate):
            check_certificate(graph, lowered)


@pytest.mark.parametrize("backward", [False, True])
def test_states_are_listed_for_every_budget_below_the_least_peak(backward: bool) -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        graph = random_graph(rng, ops=int(rng.integers(1, 10)))
        if rng.random() < 0.5:
            graph = some_graph(rng, 9)
        peak = least_peak(graph)
        network = Network(graph)
        assert list_states(network, peak, 10_000, Clock.of(Limits()), backward=backward) is None
        for budget in {b for b in (peak - 1, peak - 3, peak // 2) if 0 <= b < peak}:
            step = list_states(network, budget, 10_000, Clock.of(Limits()), backward=backward)
            assert step is not None
            certificate = Certificate(graph.name, budget + 1, (step,))
            assert check_certificate(graph, certificate) == "L3"
            other = StatesStep(not backward, step.states)
            with pytest.raises(PlanError):
                check_certificate(graph, Certificate(graph.name, peak + 1, (other,)))


def test_a_dropped_state_is_refused() -> None:
    dropped = 0
    for graph, _, certificate in samples():
        last = certificate.steps[-1] if certificate.steps else None
        if not isinstance(last, StatesStep) or not last.states:
            continue
        steps = (*certificate.steps[:-1], StatesStep(last.backward, last.states[:-1]))
        with pytest.raises(PlanError, match="leads to no listed state"):
            check_certificate(graph, Certificate(graph.name, certificate.bound, steps))
        dropped += 1
    assert dropped >= 10


def test_a_certificate_needs_a_last_step() -> None:
    for graph, _, certificate in samples():
        cut = Certificate(graph.name, certificate.bound, certificate.steps[:-1])
        with pytest.raises(PlanError, match="no step that refutes"):
            check_certificate(graph, cut)


def test_another_graph_is_refused() -> None:
    by_graph = {graph.name: (graph, c) for graph, _, c in samples() if len(graph.ops) > 3}
    held = 0
    for (graph, _), (other, foreign) in pairwise(by_graph.values()):
        with pytest.raises(PlanError, match="certificate is of graph"):
            check_certificate(graph, foreign)
        document = certificate_document(other, foreign) | {"graph": graph.name}
        try:
            check_certificate(graph, read_certificate_document(graph, document))
        except OptschedError:
            continue
        held += 1
        assert foreign.bound <= least_peak(graph)
    assert held < len(by_graph) // 2


def all_numbers(value: Any) -> list[tuple[Any, Any]]:
    """Every place of an integer in a document."""
    found = []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        if isinstance(part, dict | list):
            found += all_numbers(part)
        elif isinstance(part, int):
            found.append((value, key))
    return found


def mutate(document: Document, rng: random.Random) -> None:
    """Change a document in one place, or in a few."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        lists = [step for step in document["steps"] if isinstance(step, dict)]
        kind = rng.randrange(5)
        cased = [step for step in lists if "held" in step]
        if cased and rng.random() < 0.3:
            step = rng.choice(cased)
            step["free"], step["held"] = rng.choice(
                ((step["held"], step["free"]), (step["free"],) * 2, (step["held"],) * 2)
            )
        elif kind <= 1:
            holder, key = rng.choice(all_numbers(document))
            change = rng.choice((-1, 1, 1, 2, 7, 1 << 70, -holder[key]))
            holder[key] = abs(holder[key] + change)
        elif kind == 2 and document["ops"]:
            i, j = rng.randrange(len(document["ops"])), rng.randrange(len(document["ops"]))
            ops = document["ops"]
            ops[i], ops[j] = ops[j], ops[i]
        elif kind == 3 and lists:
            step = rng.choice(lists)
            rows = [v for v in step.values() if isinstance(v, list) and v]
            if rows:
                part = rng.choice(rows)
                if rng.random() < 0.5:
                    part.pop(rng.randrange(len(part)))
                else:
                    part.append(copy.deepcopy(rng.choice(part)))
        elif document["steps"]:
            steps = document["steps"]
            if rng.random() < 0.5 and len(steps) > 1:
                steps.pop(rng.randrange(len(steps)))
            else:
                rng.shuffle(steps)


def test_no_mutation_proves_what_is_not_so() -> None:
    rng = random.Random(5)
    rows = [row for row in samples() if OpStep not in kind_of(row[2]) or len(row[2].steps) > 1]
    rows += [row for row in samples() if kind_of(row[2]) == {OpStep}][:200]
    refused = accepted = 0
    for _ in range(5_000):
        graph, peak, certificate = rng.choice(rows)
        document = copy.deepcopy(certificate_document(graph, certificate))
        document = json.loads(json.dumps(document))
        if rng.random() < 0.8:
            document["bound"] = peak + rng.choice((1, 1, 2, 5))
        mutate(document, rng)
        try:
            changed = read_certificate_document(graph, document)
            check_certificate(graph, changed)
        except OptschedError:
            refused += 1
            continue
        accepted += 1
        assert changed.bound <= peak
    assert refused > 2_500
    assert accepted > 12


def harder(graph: Graph, rng: random.Random) -> Graph:
    """The graph with a larger buffer or one more control edge."""
    if rng.random() < 0.5:
        b = rng.choice([b for b, buffer in enumerate(graph.buffers) if buffer.alias_of is None])
        larger = replace(graph.buffers[b], size=graph.buffers[b].size + rng.choice((1, 4, 16)))
        return replace(graph, buffers=(*graph.buffers[:b], larger, *graph.buffers[b + 1 :]))
    u, v = rng.sample(range(len(graph.ops)), 2)
    op = replace(graph.ops[v], control=(*graph.ops[v].control, u))
    return replace(graph, ops=(*graph.ops[:v], op, *graph.ops[v + 1 :]))


def test_the_proof_of_a_harder_graph_proves_nothing_of_this_one() -> None:
    rng = random.Random(6)
    graphs = [graph for graph, _, _ in samples() if len(graph.ops) > 2]
    met = 0
    for number in range(250):
        graph = rng.choice(graphs)
        try:
            other = harder(graph, rng)
        except GraphError:
            continue
        peak, bound = least_peak(graph), least_peak(other)
        most = 100_000 if number % 2 else 0
        effort = CertificateEffort(most_states=most)
        found = certify_peak(other, solve_order(other).order, bound, effort=effort)
        if found.certificate.bound > peak:
            met += 1
            with pytest.raises(PlanError):
                check_certificate(graph, found.certificate)
    assert met > 18


@pytest.fixture
def no_refutation(monkeypatch: pytest.MonkeyPatch) -> None:
    """No op and no set refutes a budget; the precedences it implies are found all the same."""
    monkeypatch.setattr(bounds, "refuting_op", lambda *_: None)
    monkeypatch.setattr(bounds, "refuting_bound", lambda *_: None)


@pytest.mark.usefixtures("no_refutation")
def test_a_search_too_large_to_write_says_so() -> None:
    graph, peak, _ = next(row for row in samples() if StatesStep in kind_of(row[2]))
    order = solve_order(graph).order
    nothing = CertificateEffort(most_states=0, most_cases=0)
    written = certify_peak(graph, order, peak, effort=nothing)
    assert written.missing is not None
    assert "more than 0 states" in written.missing
    assert written.certificate.bound == closure_bound(graph).value < peak
    late = certify_peak(graph, order, peak, effort=nothing, limits=Limits(seconds=0))
    assert late.missing is not None
    assert "time is up" in late.missing


@pytest.mark.usefixtures("no_refutation")
def test_states_may_rest_on_precedences() -> None:
    effort = CertificateEffort(few_states=-1, few_cases=0, some_cases=0)
    met = 0
    for graph, peak, certificate in samples():
        if OrderStep not in kind_of(certificate):
            continue
        written = certify_peak(graph, solve_order(graph).order, peak, effort=effort)
        assert (written.certificate.bound, written.rung) == (peak, "L3")
        met += kind_of(written.certificate) == {OrderStep, StatesStep}
        with pytest.raises(PlanError):
            steps = written.certificate.steps
            check_certificate(graph, Certificate(graph.name, peak + 1, steps))
    assert met >= 5


@pytest.mark.parametrize(
    "step",
    [
        OpStep(-1, Flow(releases=((0, 0, 4),))),
        SetStep(last=True, ops=(-1,), flows=((-1, Flow(releases=((0, 0, 4),))),)),
        OrderStep(0, -1, -1, Flow(releases=((0, 0, 4),))),
        SupposeStep(0, -1),
    ],
)
def test_no_op_goes_by_a_second_number(step: Step) -> None:
    # Of the op -1 it is not known that it may write into its input.
    build = GraphBuilder("in place")
    build.input("x", 4)
    build.op("a", reads=["x"], writes={"y": 4})
    build.inplace("a", "y", "x")
    build.output("y")
    graph = plannable(build.build(), inplace=True)
    with pytest.raises(PlanError, match="unknown op number -1"):
        check_certificate(graph, Certificate(graph.name, 8, (step,)))
