"""Identical blocks in certificates: what they spare, and that nothing else is taken for them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from optsched.certificate import certify_peak
from optsched.certificate.effort import CertificateEffort
from optsched.certificate.write import CertificateSearch
from optsched.check.blocks import Layout, check_blocks
from optsched.check.certificate import Certificate, Step, check_certificate
from optsched.check.network import Network
from optsched.check.steps import BlocksStep, StatesStep, SupposeStep
from optsched.errors import FormatError, OptschedError, PlanError
from optsched.formats.certificate import certificate_document, read_certificate_document
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.ordering import solve_order
from optsched.ordering.problem import build_problem
from optsched.ordering.reduce.blocks import find_blocks
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.certificate.test_certificate import mutate
from tests.ordering.test_blocks import block_graphs, swapped
from tests.support.brute import least_peak
from tests.support.families.copies import branches, microbatches
from tests.support.generators import random_order
from tests.support.schemas import schema


def pairs(scratch: int = 9) -> Graph:
    """Two blocks of two ops: `a` makes 4 bytes from nothing, `b` reads them and keeps 1; a join."""
    build = GraphBuilder("pairs")
    for j in range(2):
        build.op(f"a{j}", writes={f"x{j}": 4})
        build.op(f"b{j}", reads=[f"x{j}"], writes={f"y{j}": 1}, workspace=9 if j else scratch)
    build.op("join", reads=["y0", "y1"], writes={"z": 1})
    build.output("z")
    return build.build()


A0, B0, A1, B1, JOIN = range(5)
LEAST = 15
"""The second block: 1 byte of the first, 4 read, 1 and 9 more."""
ROWS = ((A0, B0), (A1, B1))
STATES = StatesStep(backward=False, states=((0, A0), (1, A1)))
"""Nothing has run; `a`, and `b` by the closure rule; then the other `a`, after which `b` is 15."""
EVERYTHING = StatesStep(backward=False, states=((0, A0), (1, A1), (0, A1), (3, A0)))


def refused(steps: tuple[Step, ...], reason: str, graph: Graph | None = None) -> None:
    with pytest.raises(PlanError, match=reason):
        check_certificate(graph or pairs(), Certificate("pairs", LEAST, steps))


def test_proof_by_hand() -> None:
    assert least_peak(pairs()) == LEAST
    proof = Certificate("pairs", LEAST, (EVERYTHING,))
    assert check_certificate(pairs(), proof) == "L3"
    refused((STATES,), "leads to no listed state")
    blocks = BlocksStep(ROWS, None)
    assert check_certificate(pairs(), replace(proof, steps=(blocks, STATES))) == "L3"
    for number in range(2):
        fewer = StatesStep(False, STATES.states[:number])
        refused((blocks, fewer), "leads to no listed state")
    # a1 waits for a0; or b1 for b0, and blocks before that point are told apart.
    assert check_certificate(pairs(), replace(proof, steps=(BlocksStep(ROWS, 0), STATES))) == "L3"
    refused((BlocksStep(ROWS, 1), STATES), "leads to no listed state")
    last = BlocksStep(ROWS, 1), EVERYTHING
    assert check_certificate(pairs(), replace(proof, steps=last)) == "L3"
    with pytest.raises(PlanError):
        check_certificate(pairs(), Certificate("pairs", LEAST + 1, last))


@pytest.mark.parametrize(
    ("rows", "column", "reason"),
    [
        (((A0, B0), (B1, A1)), None, "not in the same position"),
        (((A0, B0), (A1, JOIN)), None, "not in the same position"),
        (((A0,), (A1,)), None, "not in the same position"),
        (((A0, B0),), None, "two or more"),
        (((), ()), None, "two or more"),
        (((A0, B0), (A1,)), None, "two or more"),
        (((A0, B0), (A0, B0)), None, "in one place"),
        (((A0, B0), (A1, 7)), None, "in one place"),
        (((A0, B0), (A1, -1)), None, "in one place"),
        (ROWS, 2, "not one of theirs"),
        (ROWS, -1, "not one of theirs"),
    ],
)
def test_what_are_no_blocks(
    rows: tuple[tuple[int, ...], ...], column: int | None, reason: str
) -> None:
    refused((BlocksStep(rows, column), STATES), reason)


def test_the_former_name_of_the_column_is_read() -> None:
    proof = Certificate("pairs", LEAST, (BlocksStep(ROWS, 0), STATES))
    document = certificate_document(pairs(), proof)
    assert read_certificate_document(pairs(), document) == proof
    blocks = document["steps"][0]
    blocks["line"] = blocks["column"]
    with pytest.raises(FormatError, match="got both"):
        read_certificate_document(pairs(), document)
    del blocks["column"]
    assert read_certificate_document(pairs(), document) == proof


def test_blocks_of_another_graph() -> None:
    refused((BlocksStep(ROWS, None), STATES), "not in the same position", pairs(scratch=8))
    twice = BlocksStep(ROWS, None)
    refused((twice, twice, STATES), "in another family already")
    refused((twice,), "no step that refutes")


def test_a_precedence_tells_blocks_apart() -> None:
    # With a0 before b1 known, or supposed, the blocks are not identical any more.
    blocks = BlocksStep(ROWS, None)
    refused((SupposeStep(A0, B1), blocks), "not in the same position")
    refused((blocks, SupposeStep(A0, B1), STATES), "step 2: state 0: op 'a1' leads to no")
    # Refuted is b1 before a0: from there on a0 is before b1.
    contrary = SupposeStep(B1, A0), StatesStep(False, ((0, A1), (1, A0)))
    refused((blocks, *contrary, STATES), "step 3: state 0: op 'a1' leads to no")
    refused((*contrary, blocks, STATES), "step 2: blocks: ops .* are not in the same position")


def forced(graph: Graph, optimum: int) -> Iterator[Certificate]:
    """Certificates of the optimum that rest on blocks, in line or not, where there are any."""
    order = np.array(solve_order(graph).order, np.int64)
    clock, effort = Clock.of(Limits()), CertificateEffort(most_cases=100)
    together = CertificateSearch(graph, order, optimum - 1, clock, effort).with_blocks()
    if not together.blocks:
        return
    for search in (together, together.in_order()):
        for steps in (search.states(10_000), search.cases(search.tree(), 100)):
            if steps is not None:
                yield Certificate(graph.name, optimum, tuple(steps))


def test_nothing_above_the_optimum_is_accepted_whatever_is_changed() -> None:
    rng = random.Random(1)
    made = ordered = accepted = 0
    for graph in block_graphs(60, most=9):
        optimum = least_peak(graph)
        if not optimum:
            continue
        for certificate in forced(graph, optimum):
            check_certificate(graph, certificate)
            made += 1
            first = certificate.steps[0]
            ordered += isinstance(first, BlocksStep) and first.column is not None
            text = json.dumps(certificate_document(graph, certificate))
            for _ in range(12):
                document = json.loads(text)
                document["bound"] = optimum + rng.choice((0, 1, 1, 3))
                mutate(document, rng)
                try:
                    changed = read_certificate_document(graph, document)
                    check_certificate(graph, changed)
                except OptschedError:
                    continue
                accepted += 1
                assert changed.bound <= optimum
    assert min(made, ordered, accepted) > 15


def test_blocks_that_are_accepted_change_places_in_any_order() -> None:
    rng = np.random.default_rng(2)
    accepted = wrong = 0
    for graph in block_graphs(200):
        network = Network(graph)
        for rows in find_blocks(build_problem(graph.arrays)):
            for _ in range(4):
                changed = rows.copy()
                at = rng.integers(rows.size, size=2)
                flat = changed.ravel()
                flat[at] = flat[at[::-1]]
                if rng.integers(2):
                    flat[at[0]] = rng.integers(len(graph.ops))
                try:
                    check_blocks(network, changed.tolist(), None)
                except PlanError:
                    wrong += 1
                    continue
                accepted += 1
                order = random_order(rng, graph)
                i, j = rng.choice(len(rows), 2, replace=False)
                image = swapped(changed[i], changed[j], order)
                steps = timeline(graph, order).running, timeline(graph, image).running
                assert (steps[0] == steps[1]).all()
    assert min(accepted, wrong) > 100


@pytest.mark.parametrize("graph", [branches(6, 20, 1), microbatches(6, 10)], ids=["par", "steps"])
def test_small_certificates_of_what_only_blocks_prove(graph: Graph) -> None:
    outcome = solve_order(graph)
    written = certify_peak(graph, outcome.order, outcome.bound)
    assert (written.certificate.bound, written.missing) == (outcome.peak, None)
    assert isinstance(written.certificate.steps[0], BlocksStep)
    document = certificate_document(graph, written.certificate)
    text = json.dumps(document)
    assert len(text) < 20_000
    jsonschema.Draft202012Validator(schema("certificate-1")).validate(json.loads(text))
    assert read_certificate_document(graph, json.loads(text)) == written.certificate
    without = replace(written.certificate, steps=written.certificate.steps[1:])
    with pytest.raises(PlanError):
        check_certificate(graph, without)


def test_keys_are_the_same_for_blocks_in_other_places_only() -> None:
    rows = [[4, 0], [1, 5], [2, 3]]
    layout = Layout(7, [(rows, None)])
    for one, other, same in (
        ([4, 0, 1], [2, 1, 5], True),
        ([4, 0, 1], [4, 1, 2], False),
        ([4, 6], [2, 6], True),
        ([4, 6], [2], False),
        ([0], [5], True),
        ([0], [4], False),
    ):
        assert (layout.key(layout.mask(one)) == layout.key(layout.mask(other))) == same
    ordered = Layout(7, [(rows, 0)])
    for one, other, same in (
        ([4, 0, 1], [4, 1, 5], True),
        ([4, 0], [2, 3], False),
        ([0], [5], False),
        ([4, 0, 5], [4, 0, 3], False),
    ):
        assert (ordered.key(ordered.mask(one)) == ordered.key(ordered.mask(other))) == same
