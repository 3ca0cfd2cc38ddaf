"""Records other than plans: bounds, certificates, questions, searches; and older files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optsched import GraphBuilder, Limits, MemoryModel, Question, certify, read_graph, read_plan
from optsched.check.certificate import check_certificate
from optsched.check.plan import check_order
from optsched.errors import FormatError, PlanError, UsageError
from optsched.runtime.limits import Objective
from optsched.solver.pipeline import solve
from optsched.solver.resume import Resume
from optsched.store import PlanStore, import_store, merge, rows, verify
from tests.store.test_database import best, diamond, wasteful
from tests.store.test_keys import renamed

DATA = Path(__file__).parents[1] / "data" / "stores"
SMALL = Path(__file__).parents[2] / "instances" / "small"


@pytest.fixture
def store(tmp_path: Path) -> PlanStore:
    return PlanStore(tmp_path / "plans.db")


def test_questions_are_kept_apart(store: PlanStore) -> None:
    graph = diamond()
    store.put(graph, wasteful(graph))
    slab = Question(graph, capacity=1000)
    assert store.get(graph, slab) is None
    assert store.put(slab, best(graph))
    assert store.get(graph).plan == wasteful(graph)  # type: ignore[union-attr]
    assert [r.capacity for r in store.records()] == [None, 1000]
    with pytest.raises(PlanError, match="exceeds"):
        store.put(Question(graph, capacity=20), wasteful(graph))


def test_memory_models_are_kept_apart(store: PlanStore) -> None:
    build = GraphBuilder("g")
    build.input("x", 3)
    build.op("f", reads=["x"], writes={"y": 3})
    build.output("y")
    graph = replace(build.build(), inplace_candidates=((0, 1, 0),))
    models = [MemoryModel(), MemoryModel(inplace=True), MemoryModel(align=64)]
    graphs = [model.apply(graph) for model in models]
    for graph in graphs:
        assert store.put(graph, best(graph))
    assert len({r.key for r in store.records()}) == len(models)
    assert [r.memory_model for r in store.records()] == [graph.model_name for graph in graphs]


def test_a_bound_never_falls(store: PlanStore) -> None:
    graph = diamond()
    assert store.put_bound(graph, 10)
    assert not store.put_bound(graph, 9, "L3")
    assert store.put_bound(graph, 10, "L2")
    assert not store.put_bound(graph, 12, "claimed") or store.record(graph).best_bound.value == 10  # type: ignore[union-attr]
    assert store.put(graph, best(graph), bound=18, proof="L3")
    record = store.record(graph)
    assert record is not None
    assert (record.best_bound.value, record.best_bound.proof) == (18, "L3")
    assert record.is_proved
    with pytest.raises(PlanError, match="above"):
        store.put_bound(graph, 19, "L3")
    changes = [(change.what, change.detail.get("value")) for change in store.history(record.number)]
    assert changes[:2] == [("bound", 10), ("bound", 10)]


def test_a_plan_below_a_bound_shows_that_it_was_wrong(store: PlanStore) -> None:
    graph = diamond()
    store.put_bound(graph, 19, "L3")
    store.put_search(graph, Resume(peak_bound=19))
    assert store.put(graph, best(graph))
    assert store.search(graph) is None
    record = store.record(graph)
    assert record is not None
    assert record.best_bound.value == 0
    assert "peak of 18" in record.bounds[0].withdrawn


@pytest.mark.parametrize("origin", [{"by": float("nan")}, {"by": "x" * rows.MAX_TEXT}])
def test_what_could_not_be_read_again_is_not_written(store: PlanStore, origin: Any) -> None:
    graph = diamond()
    store.put(graph, best(graph))
    with pytest.raises(UsageError, match="provenance"):
        store.put_bound(graph, 9, "L3", origin=origin)
    with pytest.raises(UsageError, match="no bound"):
        store.put_bound(diamond(1), 2**63)
    for order in ((0,), (0, 1, 3), (0, 0, 1)):
        with pytest.raises(UsageError, match="3 ops"):
            store.put_search(graph, Resume(orders=(order,)))
    assert verify(store) == []


def test_certificates_are_checked_and_found_for_a_renamed_graph(store: PlanStore) -> None:
    graph = diamond()
    written = certify(graph, time_limit=5)
    with pytest.raises(PlanError):
        store.put_certificate(diamond(3), written.certificate)
    assert store.put_bound(graph, 18, "L3")
    assert store.put_certificate(graph, written.certificate)
    assert not store.put_certificate(graph, written.certificate)
    other = renamed(graph)
    found = store.certificate(other)
    assert found is not None
    assert check_certificate(other, found) == written.rung
    assert store.record(other).best_bound.certified  # type: ignore[union-attr]


def test_a_search_is_continued_in_a_renamed_graph(store: PlanStore) -> None:
    graph = diamond()
    orders = ((0, 1, 2), (1, 0, 2))
    assert store.put_search(graph, Resume(17, orders=orders))
    found = store.search(renamed(graph))
    assert found is not None
    assert (found.peak_bound, found.orders) == (17, orders)
    with pytest.raises(UsageError, match="limit"):
        store.put_search(graph, Resume(code="y" * 2**24))
    assert store.put_search(graph, None)
    assert store.search(graph) is None


def test_a_result_is_kept_with_both_bounds(store: PlanStore) -> None:
    graph = read_graph(SMALL / "two_towers.json")
    result = solve(graph, limits=Limits(work=1000))
    assert store.put_result(graph, result)
    record = store.record(graph)
    assert record is not None
    assert (record.slab, record.is_proved) == (result.slab, True)
    assert {bound.quantity: bound.value for bound in record.bounds} == {
        Objective.PEAK: result.peak_bound,
        Objective.SLAB: result.slab_bound,
    }
    assert "optsched" in record.provenance["versions"]


def test_a_batch_is_kept_whole_or_not_at_all(store: PlanStore) -> None:
    graphs = [diamond(size) for size in (3, 4)]
    with pytest.raises(PlanError), store.batch() as batch:
        assert batch.put(graphs[0], best(graphs[0]))
        assert batch.get(graphs[0]) is not None
        batch.put_bound(graphs[0], 10**6, "L3")
    assert store.get(graphs[0]) is None
    with store.batch() as batch:
        for graph in graphs:
            batch.put(graph, best(graph))
    assert len(store.records()) == 2


WAY_OUT = r"tune into a new store; .*'optsched store show STORE GRAPH --plan FILE'.*PlanStore\.put"


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_store_of_an_older_version_is_refused_with_the_way_out(
    version: int, store: PlanStore
) -> None:
    shutil.copy(DATA / f"version{version}.db", store.path.parent / "old.db")
    old = PlanStore(store.path.parent / "old.db")
    before = old.path.read_bytes()
    for use in (
        old.records,
        lambda: old.get(diamond(1)),
        lambda: old.put(diamond(), best(diamond())),
        lambda: verify(old),
        lambda: merge(store, old, trust=True),
    ):
        with pytest.raises(FormatError, match=rf"old\.db: version {version} .*{WAY_OUT}"):
            use()
    assert old.path.read_bytes() == before
    assert len(store) == 0


def test_an_export_of_an_older_version_is_refused_with_the_way_out(store: PlanStore) -> None:
    with pytest.raises(FormatError, match=rf"version4\.jsonl: .* version 1 .*{WAY_OUT}"):
        import_store(store, DATA / "version4.jsonl", trust=True)
    assert len(store) == 0


def test_a_store_and_an_export_of_this_version_are_read(store: PlanStore) -> None:
    """Files that an earlier commit wrote: what is in a store or an export must stay readable."""
    shutil.copy(DATA / "version5.db", store.path.parent / "written.db")
    written = PlanStore(store.path.parent / "written.db")
    assert verify(written) == []
    taken = import_store(store, DATA / "version5.jsonl", trust=True)
    assert (taken.new, taken.refused) == (4, 0)
    for known in (written, store):
        for size in (1, 2):
            graph = renamed(diamond(size))
            found = known.get(graph)
            assert found is not None
            assert (found.peak, found.slab, found.bound) == (12 + size, 12 + size, 12 + size)
            left = known.search(Question(graph, objective=Objective.PEAK))
            assert left is not None
            assert check_order(graph, left.orders[0]) == 12 + size
        certificate = known.certificate(diamond(1))
        assert certificate is not None
        assert check_certificate(diamond(1), certificate) == "L3"


def test_a_plan_of_an_older_store_is_taken_along(store: PlanStore) -> None:
    """Written by the release that made the store, as the message says."""
    graph = diamond(1)
    assert store.put(graph, read_plan(DATA / "version4.plan.json", graph))
    found = store.get(graph)
    assert found is not None
    assert (found.peak, found.slab) == (13, 13)


def test_a_file_of_version_1_is_refused(tmp_path: Path) -> None:
    """It kept keys of graphs, and not the graphs: nothing in it can be found again."""
    shutil.copy(DATA / "version1.db", tmp_path / "old.db")
    with pytest.raises(FormatError, match=r"old\.db: version 1 kept no graphs"):
        PlanStore(tmp_path / "old.db").get(diamond())


@pytest.mark.parametrize("objective", list(Objective)[:2])
def test_a_question_beside_its_graph_is_the_question(
    store: PlanStore, objective: Objective
) -> None:
    graph = read_graph(SMALL / "two_towers.json")
    question = Question(graph, objective=objective)
    assert store.put_result(graph, solve(graph, objective=objective, limits=Limits(work=1000)))
    found, alone = store.get(graph, question), store.get(question)
    assert found is not None
    assert alone is not None
    assert found.plan == alone.plan
    assert found.question == question
    assert store.record(graph, question) == store.record(question) is not None
    assert store.put(question, found.plan or best(graph)) is False
    # The question in another memory model, or about another graph, is not the one of this graph.
    for other in (MemoryModel(align=64).apply(graph), diamond()):
        with pytest.raises(UsageError, match="not that of the question"):
            store.get(other, question)
    with pytest.raises(UsageError, match="wants a Question, got str"):
        store.get(graph, "peak")  # type: ignore[arg-type]
