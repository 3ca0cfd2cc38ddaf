"""Proofs by cases of precedences: suppositions are retracted, and no case can be left out."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from optsched.check.certificate import Certificate, Step, check_certificate
from optsched.check.network import Flow
from optsched.check.steps import End, EndStep, OpStep, OrderStep, SetStep, StatesStep, SupposeStep
from optsched.cli import main
from optsched.errors import GraphError, OptschedError, PlanError
from optsched.formats import write_graph
from optsched.formats.certificate import certificate_document, read_certificate_document
from optsched.model.graph import Graph
from tests.certificate.branches import by_cases, some_graphs, steps_by_cases, with_order
from tests.certificate.test_certificate import mutate
from tests.support.brute import least_peak
from tests.support.commands import Cli

Row = tuple[Graph, int, Certificate]


@cache
def samples() -> list[Row]:
    """Graphs, their least peaks, and certificates with suppositions."""
    rng = np.random.default_rng(2)
    found = []
    for graph in some_graphs(2, 120):
        peak = least_peak(graph)
        certificate = by_cases(graph, peak, rng)
        if any(isinstance(step, SupposeStep) for step in certificate.steps):
            found.append((graph, peak, certificate))
    return found


def changed(certificate: Certificate, steps: list[Step]) -> Certificate:
    return Certificate(certificate.graph, certificate.bound, tuple(steps))


def is_accepted(graph: Graph, certificate: Certificate) -> bool:
    try:
        check_certificate(graph, certificate)
    except PlanError:
        return False
    return True


def branches(steps: tuple[Step, ...]) -> Iterator[tuple[int, int]]:
    """Return the step of each supposition, and the step after the one that refutes it."""
    open_ = []
    for number, step in enumerate(steps):
        if isinstance(step, SupposeStep):
            open_.append(number)
        elif not isinstance(step, OrderStep) and open_:
            yield open_.pop(), number + 1


def test_cases_prove_the_least_peak() -> None:
    kinds = set()
    for graph, peak, certificate in samples():
        assert check_certificate(graph, certificate) == "L3"
        assert not is_accepted(graph, Certificate(graph.name, peak + 1, certificate.steps))
        kinds |= {type(step) for step in certificate.steps}
    assert kinds >= {OpStep, SetStep, OrderStep, StatesStep, SupposeStep}


def test_a_dropped_branch_is_refused() -> None:
    # But where the branch was not needed: there the rest is a proof as well.
    refused = accepted = 0
    for graph, peak, certificate in samples():
        steps = list(certificate.steps)
        for start, end in branches(certificate.steps):
            left = changed(certificate, steps[:start] + steps[end:])
            # The rest can refute only the budget `peak - 1`.
            if is_accepted(graph, left):
                accepted += 1
                raised = Certificate(graph.name, peak + 1, left.steps)
                assert not is_accepted(graph, raised)
            else:
                refused += 1
        cut = changed(certificate, steps[: next(branches(certificate.steps))[1]])
        with pytest.raises(PlanError, match="no step that refutes"):
            check_certificate(graph, cut)
    assert refused > 20
    assert accepted < refused * 5


def test_what_rests_on_a_supposition_ends_with_it() -> None:
    # Nothing is within 0 bytes: what is supposed is refuted at once, and the contrary holds then.
    flow = Flow()
    graph = next(graph for graph, _, _ in samples() if graph.arrays.initial)
    bound = graph.arrays.initial
    suppose, end = SupposeStep(0, 1), EndStep(End.START)
    for steps, fault in (
        ([suppose, end, end], None),
        ([suppose, suppose, end, end, end], None),
        ([suppose, end], "no step that refutes"),
        ([suppose], "no step that refutes"),
        ([], "no step that refutes"),
        ([suppose, suppose, end, end], "no step that refutes"),
        ([end, end], "refuted before this step"),
        ([end, suppose, end], "refuted before this step"),
        ([SupposeStep(1, 1), end, end], "two ops"),
        ([OrderStep(1, 1, 1, flow), end], "two ops"),
    ):
        certificate = Certificate(graph.name, bound, tuple(steps))
        if fault is None:
            assert check_certificate(graph, certificate) == "L3"
        else:
            with pytest.raises(PlanError, match=fault):
                check_certificate(graph, certificate)


def test_changed_steps_are_refused_or_prove_no_more() -> None:
    rng = random.Random(3)
    refused = 0
    for graph, peak, certificate in samples() * 3:
        steps = list(certificate.steps)
        number = rng.choice([i for i, s in enumerate(steps) if isinstance(s, SupposeStep)])
        step = steps[number]
        assert isinstance(step, SupposeStep)
        turned = [*steps[:number], SupposeStep(step.second, step.first), *steps[number + 1 :]]
        at = rng.randrange(1, len(steps))
        pair = rng.sample(range(len(graph.ops)), 2)
        other = [*steps[:number], SupposeStep(*pair), *steps[number + 1 :]]
        for made in (turned, other, steps[at:] + steps[:at], steps[::-1]):
            refused += not is_accepted(graph, changed(certificate, made))
            raised = Certificate(graph.name, peak + 1, tuple(made))
            assert not is_accepted(graph, raised)
    assert refused > 200


def test_no_mutation_proves_what_is_not_so() -> None:
    rng = random.Random(7)
    rows = [
        (graph, peak, json.dumps(certificate_document(graph, certificate)))
        for graph, peak, certificate in samples()
    ]
    refused = accepted = 0
    for _ in range(2_500):
        graph, peak, text = rng.choice(rows)
        document = json.loads(text)
        if rng.random() < 0.7:
            document["bound"] = peak + rng.choice((1, 1, 2, 5))
        mutate(document, rng)
        if rng.random() < 0.3:
            step = copy.deepcopy(rng.choice(document["steps"]))
            document["steps"].insert(rng.randrange(len(document["steps"])), step)
        try:
            found = read_certificate_document(graph, document)
            check_certificate(graph, found)
        except OptschedError:
            refused += 1
            continue
        accepted += 1
        assert found.bound <= peak
    assert refused > 1_000
    assert accepted > 100


def test_one_case_alone_is_refused() -> None:
    rng = random.Random(4)
    met = 0
    for graph in some_graphs(4, 250):
        first, second = rng.sample(range(len(graph.ops)), 2)
        try:
            harder = with_order(graph, first, second)
        except GraphError:
            continue
        bound = least_peak(harder)
        if bound == least_peak(graph):
            continue
        met += 1
        case = steps_by_cases(harder, bound, [])
        assert is_accepted(harder, Certificate(graph.name, bound, tuple(case)))
        suppose = [SupposeStep(first, second), *case]
        for steps in (case, suppose, suppose + case, suppose + suppose, [suppose[0], *suppose]):
            assert not is_accepted(graph, Certificate(graph.name, bound, tuple(steps)))
    assert met > 8


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, Path]:
    graph, plan, proof = tmp_path / "g.json", tmp_path / "plan.json", tmp_path / "proof.json"
    sample = next(graph for graph, _, _ in samples() if graph.arrays.initial and not graph.in_place)
    write_graph(sample, graph)
    assert main(["solve", str(graph), "-o", str(plan), "--certificate", str(proof)]) == 0
    return str(graph), str(plan), proof


SUPPOSE = '{"kind": "suppose", "first": 0, "second": 1}'


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        (",".join([SUPPOSE] * 50_000), 1),
        (",".join([SUPPOSE] * 50_000 + ['{"kind": "start"}'] * 50_000), 1),
        ('{"kind": "suppose", "first": 0}', 2),
        ('{"kind": "suppose", "first": 0, "second": 1, "at": 1}', 2),
        ('{"kind": "suppose", "first": 0, "second": [1]}', 2),
        ('{"kind": "suppose", "first": 0, "second": 1e0}', 2),
        ('{"kind": "suppose", "first": 0, "second": 99}', 2),
        ('{"kind": "suppose", "first": -1, "second": 1}', 2),
        ('{"kind": ["suppose"], "first": 0, "second": 1}', 2),
        ('{"kind": "op", "op": 0, "releases": {}, "passes": []}', 2),
        ('{"kind": "op", "op": 0, "input": 0, "free": 1, "held": 2}', 2),
        ('{"kind": "op", "op": 0, "input": 0, "free": ' * 20_000 + "1" + "}" * 20_000, 2),
        ("[" * 100_000 + "]" * 100_000, 2),
        ('{"kind": "last", "ops": [0, 0, [0]], "flows": []}', 2),
        (f'{{"kind": "op", "op": {"9" * 5_000}, "releases": [], "passes": []}}', 2),
        ("1," * 100_000 + "1", 2),
    ],
)
def test_hostile_files_are_refused_in_one_line(
    files: tuple[str, str, Path],
    steps: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
    cli: Cli,
) -> None:
    graph, plan, proof = files
    document = json.loads(proof.read_text()) | {"steps": []}
    names = [op["name"] for op in json.loads(Path(graph).read_text())["ops"]]
    text = json.dumps(document | {"ops": names[:2], "bound": 10**30})
    proof.write_text(text.replace('"steps": []', f'"steps": [{steps}]'))
    capsys.readouterr()
    printed = cli.both("check", graph, plan, proof, code=code)
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert len(printed.err) < 600
