"""Regions in certificates: what they spare, and that nothing is taken for one that costs bytes."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from optsched.certificate import certify_peak, regions
from optsched.certificate.write import CertificateSearch
from optsched.check import region as check_region
from optsched.check.certificate import Certificate, check_certificate
from optsched.check.network import Network
from optsched.check.steps import BlocksStep, End, EndStep, RegionStep, StatesStep, SupposeStep
from optsched.errors import FormatError, OptschedError, PlanError
from optsched.formats.certificate import certificate_document, read_certificate_document
from optsched.formats.native import graph_document
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.ordering import solve_order
from optsched.ordering.context import SearchContext
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.reduce import modules
from optsched.ordering.reduce.hill_valley import HillValleyOrder, cut_at_valleys
from optsched.ordering.reduce.modules import ModuleContraction
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.certificate.test_certificate import mutate
from tests.fuzz.ordering import chains
from tests.support.brute import least_peak
from tests.support.definition import Model
from tests.support.families.shapes import series_parallel
from tests.support.schemas import schema


def test_no_chain_that_is_accepted_costs_bytes() -> None:
    counts: Counter[str] = Counter()
    for number in range(80):
        assert list(chains.examine(11, number, counts)) == []
    assert counts["found"] > 100
    assert counts["refused that cost bytes"] > 10
    assert counts["proposed"] - counts["refused"] > 200


def released_outside() -> Graph:
    """`a` releases much and `b` needs much; between them `w` would do best, that shares `x`."""
    build = GraphBuilder("shared")
    build.op("start", writes={"x": 100, "z": 50, "v": 50})
    build.op("a", reads=["z"], writes={"y": 10})
    build.op("b", reads=["x", "y"], writes={"p": 60})
    build.op("w", reads=["x", "v"], writes={"q": 1}, workspace=60)
    build.op("join", reads=["p", "q"], writes={"out": 1})
    build.output("out")
    return build.build()


def test_a_buffer_that_others_release_as_well_is_none_of_a_region() -> None:
    graph = released_outside()
    model = Model(graph_document(graph), in_place=False)
    _, a, b, _, _ = range(5)
    together = chains.least_peak(model, [[[a, b]]])
    assert together is not None
    assert together > least_peak(graph)
    with pytest.raises(PlanError, match="buffer 'x' is released inside and outside"):
        check_region.check_region(Network(graph), [[a, b]])


def climb(rise: int, *, last: int, left: int = 10) -> Graph:
    """A chain that rises, falls and rises a little again; beside it an op that needs the fall."""
    build = GraphBuilder("climb")
    build.op("start", writes={"x": 40, "w": 1})
    build.op("up", reads=["x"], writes={"y": 40 + rise})
    build.op("down", reads=["y"], writes={"z": 5})
    build.op("again", reads=["z"], writes={"z2": left}, workspace=last)
    build.op("beside", reads=["w"], writes={"v": 1}, workspace=90)
    build.op("join", reads=["z2", "v"], writes={"out": 1})
    build.output("out")
    return build.build()


def test_a_part_that_needs_no_more_than_the_one_before_may_hide_the_least() -> None:
    # From after `up`, which rises, nothing falls as low as `first` and `second` do without it.
    build = GraphBuilder("hidden")
    build.op("start", writes={"x": 15, "z": 8, "w": 1})
    build.op("first", reads=["x"], writes={"x2": 10})
    build.op("up", control=["start"], writes={"y": 3}, workspace=5)
    build.op("second", reads=["z"], writes={"z2": 1}, workspace=11)
    build.op("beside", reads=["w"], writes={"v": 1}, workspace=50)
    build.op("join", reads=["x2", "y", "z2", "v"], writes={"out": 1})
    build.output("out")
    graph = build.build()
    parts = [[1, 2], [3]]
    along = chains.least_peak(Model(graph_document(graph), in_place=False), [parts])
    assert along == least_peak(graph) + 3
    with pytest.raises(PlanError, match="needs no more bytes than the one before"):
        check_region.check_region(Network(graph), parts)


@pytest.mark.parametrize("last", [0, 40, 200])
def test_a_part_ends_where_least_is_live(last: int) -> None:
    graph = climb(20, last=last)
    _, up, down, again, _, _ = range(6)
    for parts, fine in (
        ([[up, down], [again]], True),
        ([[up, down, again]], False),
        ([[up], [down], [again]], False),
    ):
        if fine:
            check_region.check_region(Network(graph), parts)
        else:
            with pytest.raises(PlanError, match=r"region: (after a part|a part needs no more)"):
                check_region.check_region(Network(graph), parts)
    # Seen from inside the part that is too long, the least is beyond a rise.
    network = Network(graph)
    network.join([[up, down]])
    with pytest.raises(PlanError, match="the part of op 'up' is taken apart"):
        check_region.check_region(network, [[up], [down, again]])


def test_one_byte_less_within_a_part_is_noticed() -> None:
    graph = climb(-20, last=0, left=6)
    parts = [[1, 2, 3]]
    along = chains.least_peak(Model(graph_document(graph), in_place=False), [parts])
    assert along == least_peak(graph) + 1
    with pytest.raises(PlanError, match="after a part fewer bytes can be live"):
        check_region.check_region(Network(graph), parts)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (((1,),), "two ops are needed"),
        ((), "two ops are needed"),
        (((1, 2), ()), "two ops are needed, and one in each part"),
        (((1, 2), (2, 3)), "in one place of one part"),
        (((1, 2, 9),), "in one place of one part"),
        (((1, 2, -1),), "in one place of one part"),
        (((2, 1),), "op 'down' runs before|op 'up' runs before|runs before one that it needs"),
        (((1, 3),), "before or after a part of it only"),
        (((1, 2), (3, 5)), "before or after a part of it only"),
    ],
)
def test_what_are_no_regions(parts: tuple[tuple[int, ...], ...], reason: str) -> None:
    graph = climb(20, last=0)
    certificate = Certificate("climb", 1, (RegionStep(parts),))
    with pytest.raises(PlanError, match=f"step 0: region: .*({reason})"):
        check_certificate(graph, certificate)


def test_precedences_that_contradict_each_other_leave_no_region() -> None:
    # A budget that is too small may imply both; then nothing of the region comes first.
    network = Network(climb(20, last=0))
    for pair in ((1, 2), (2, 3), (3, 1)):
        network.add(*pair)
    with pytest.raises(PlanError, match="runs before one that it needs"):
        check_region.check_region(network, [[1, 2], [3]])


def test_regions_come_first() -> None:
    graph = climb(20, last=0)
    region = RegionStep(((1, 2), (3,)))
    refute = EndStep(End.START)
    assert check_certificate(graph, Certificate("climb", 0, (region, refute))) == "L3"
    with pytest.raises(PlanError, match="step 1: region: comes before"):
        check_certificate(graph, Certificate("climb", 0, (SupposeStep(1, 4), region, refute)))
    with pytest.raises(PlanError, match="step 1: blocks: an op is in a region"):
        blocks = BlocksStep(((1,), (2,)), None)
        check_certificate(graph, Certificate("climb", 0, (region, blocks, refute)))
    names = {op.name: v for v, op in enumerate(graph.ops)}, graph.buffer_ids
    pair = names[0]["down"], names[1]["z"], names[1]["y"]
    sizes = [replace(b, size=5) if b.name == "y" else b for b in graph.buffers]
    inplace = replace(graph, buffers=tuple(sizes), inplace_candidates=(pair,)).with_inplace()
    with pytest.raises(PlanError, match="step 0: region: ops that write into their inputs"):
        check_certificate(inplace, Certificate("climb", 0, (region, refute)))


def chained(graph: Graph, budget: int) -> CertificateSearch:
    """A search for a certificate with all regions of the graph as chains."""
    order = np.array(solve_order(graph).order)
    return CertificateSearch(graph, order, budget, Clock.of(Limits())).with_regions()


def test_a_region_of_too_many_states_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = series_parallel(40, 1)
    steps = chained(graph, 0).regions
    assert steps
    monkeypatch.setattr(check_region, "MOST_STATES", 0)
    with pytest.raises(PlanError, match="more than 0 states to look at"):
        check_certificate(graph, Certificate(graph.name, 1, steps))


@pytest.mark.parametrize(("ops", "seed"), [(256, 1)])
def test_series_parallel_graphs_have_a_certificate_of_the_optimum(ops: int, seed: int) -> None:
    graph = series_parallel(ops, seed)
    outcome = solve_order(graph)
    written = certify_peak(graph, outcome.order, outcome.bound)
    assert (written.certificate.bound, written.rung, written.missing) == (outcome.peak, "L3", None)
    assert any(isinstance(step, RegionStep) for step in written.certificate.steps)
    document = json.loads(json.dumps(certificate_document(graph, written.certificate)))
    jsonschema.Draft202012Validator(schema("certificate-1")).validate(document)
    assert read_certificate_document(graph, document) == written.certificate
    with pytest.raises(PlanError):
        raised = replace(written.certificate, bound=outcome.peak + 1)
        check_certificate(graph, raised)


def test_no_mutation_with_regions_proves_what_is_not_so() -> None:
    rng = random.Random(3)
    counts: Counter[str] = Counter()
    for number in range(60):
        graph = chains.some_graph(7, number)
        peak = least_peak(graph)
        search = chained(graph, peak - 1)
        found = search.states(10_000) if search.regions else None
        if found is None:
            continue
        certificate = Certificate(graph.name, peak, tuple(found))
        assert check_certificate(graph, certificate) == "L3"
        with pytest.raises(PlanError):
            check_certificate(graph, replace(certificate, bound=peak + 1))
        text = json.dumps(certificate_document(graph, certificate))
        for _ in range(20):
            document = json.loads(text)
            document["bound"] += rng.choice((0, 1, 1, 4))
            mutate(document, rng)
            try:
                changed = read_certificate_document(graph, document)
                check_certificate(graph, changed)
            except OptschedError:
                counts["refused"] += 1
            else:
                counts["accepted"] += 1
                assert changed.bound <= peak
        counts["graphs"] += 1
        counts["chains"] += len(search.regions)
        counts["states"] += sum(isinstance(step, StatesStep) for step in certificate.steps)
    assert min(counts["graphs"], counts["states"]) > 30
    assert counts["chains"] > 50
    assert counts["refused"] > 500


def test_malformed_regions_are_no_certificates() -> None:
    graph = climb(20, last=0)
    good = certificate_document(graph, Certificate("climb", 0, (RegionStep(((1, 2), (3,))),)))
    assert read_certificate_document(graph, good).steps == (RegionStep(((1, 2), (3,))),)
    for parts in (None, 3, [3], [[0], 1], [["up"]], [[7]], [[0.5]], [[True]], {}):
        step = {"kind": "region", "parts": parts}
        with pytest.raises(FormatError, match="step 0"):
            read_certificate_document(graph, good | {"steps": [step]})
    with pytest.raises(FormatError, match="step 0"):
        step = {"kind": "region", "parts": [[0, 1]], "line": 0}
        read_certificate_document(graph, good | {"steps": [step]})


def test_a_mistake_of_the_writer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # The checker decides on every proposed chain before it is used.
    graph = series_parallel(60, 1)
    right = chained(graph, 0).regions

    def backward(_: SearchContext, problem: OrderingProblem) -> HillValleyOrder:
        return cut_at_valleys(problem, list(range(len(problem.delta)))[::-1])

    def find_chain(chains: regions.Chains, region: list[int]) -> HillValleyOrder | None:
        with monkeypatch.context() as patch:
            patch.setattr(modules, "hill_valley_order", backward)
            return ModuleContraction.find_chain(chains, region)

    monkeypatch.setattr(regions.Chains, "find_chain", find_chain)
    left = chained(graph, 0).regions
    assert len(left) < len(right) / 3
    network = Network(graph)
    for step in left:
        check_region.check_region(network, step.parts)
        network.join(step.parts)
