"""Records other than plans: bounds, certificates, questions, searches; and older files."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optsched import GraphBuilder, Limits, MemoryModel, Question, certify, read_graph
from optsched.check.certificate import check_certificate
from optsched.check.plan import check_order, check_plan
from optsched.errors import FormatError, PlanError, UsageError
from optsched.model.graph import Graph
from optsched.runtime.limits import Objective
from optsched.solver.pipeline import solve
from optsched.solver.resume import Resume
from optsched.store import (
    MINIMUM_PEAK,
    CanonicalGraph,
    PlanStore,
    StoredQuestion,
    canonical_form,
    document,
    export_store,
    import_store,
    rows,
    verify,
)
from tests.store.test_canonical import shuffled
from tests.store.test_database import best, diamond, wasteful
from tests.support.generators import FEATURES, random_graph, with_sharing

DATA = Path(__file__).parents[1] / "data" / "stores"
SMALL = Path(__file__).parents[2] / "instances" / "small"


@pytest.fixture
def store(tmp_path: Path) -> PlanStore:
    return PlanStore(tmp_path / "plans.db")


def test_every_field_of_a_graph_is_written_or_left_out_on_purpose() -> None:
    assert document.unknown_fields() == []


def on_streams(graph: Graph) -> Graph:
    ops = (replace(op, stream=f"s{v % 2}") for v, op in enumerate(graph.ops))
    return replace(graph, ops=tuple(ops), inplace_candidates=(), inplace=())


def test_a_canonical_graph_is_the_graph() -> None:
    """Its text makes a graph of the same key, in which each op has the same predecessors."""
    for seed in range(120):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, int(rng.integers(10)), features=FEATURES)
        if seed % 3 == 0:
            graph = with_sharing(rng, graph)
        asked = rows.ask(graph.with_inplace() if seed % 2 else graph)
        made = document.read_canonical(asked.text.document)
        assert canonical_form(made).key == asked.form.key
        position = {v: i for i, v in enumerate(asked.form.ops)}
        for v, before in enumerate(graph.predecessors):
            assert {position[u] for u in before} == set(made.predecessors[position[v]])


def test_questions_are_kept_apart(store: PlanStore) -> None:
    graph = diamond()
    store.put(graph, wasteful(graph))
    slab = StoredQuestion(Objective.SLAB, capacity=1000)
    assert store.get(graph, slab) is None
    assert store.put(graph, best(graph), question=slab)
    assert store.get(graph).plan == wasteful(graph)  # type: ignore[union-attr]
    assert [r.question for r in store.records()] == [StoredQuestion(), slab]
    with pytest.raises(PlanError, match="exceeds"):
        store.put(graph, wasteful(graph), question=StoredQuestion(Objective.SLAB, capacity=20))


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


def test_certificates_are_checked_and_found_for_a_graph_in_other_words(store: PlanStore) -> None:
    graph = diamond()
    written = certify(graph, time_limit=5)
    with pytest.raises(PlanError):
        store.put_certificate(diamond(3), written.certificate)
    assert store.put_bound(graph, 18, "L3")
    assert store.put_certificate(graph, written.certificate)
    assert not store.put_certificate(graph, written.certificate)
    other = shuffled(graph, 1)
    found = store.certificate(other)
    assert found is not None
    assert check_certificate(other, found) == written.rung
    assert store.record(other).best_bound.certified  # type: ignore[union-attr]


def test_a_search_is_continued_in_a_graph_in_other_words(store: PlanStore) -> None:
    graph = diamond()
    orders = ((0, 1, 2), (1, 0, 2))
    assert store.put_search(graph, Resume(17, orders=orders))
    other = shuffled(graph, 2)
    found = store.search(other)
    assert found is not None
    assert found.peak_bound == 17
    mine, theirs = canonical_form(graph), canonical_form(other)
    match = dict(zip(mine.ops, theirs.ops, strict=True))
    assert found.orders == tuple(tuple(match[v] for v in order) for order in orders)
    with pytest.raises(UsageError, match="limit"):
        store.put_search(graph, Resume(code="y" * 2**24))
    assert store.put_search(graph, None)
    assert store.search(graph) is None


def test_a_result_is_kept_with_both_bounds(store: PlanStore) -> None:
    graph = read_graph(SMALL / "two_towers.json")
    result = solve(graph, limits=Limits(work=1000))
    assert store.put_result(graph, result)
    record = store.record(graph, StoredQuestion(Objective.SLAB))
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


def same_key(graph: Graph, store: PlanStore, other: Graph) -> None:
    """Let the file say that a graph has the key of another one."""
    with sqlite3.connect(store.path) as connection:
        key = canonical_form(other).key
        connection.execute(
            "UPDATE graphs SET key = ? WHERE key = ?", (key, canonical_form(graph).key)
        )
    connection.close()


def test_graphs_of_equal_keys_are_kept_apart(store: PlanStore) -> None:
    graph, other = diamond(), diamond(7)
    store.put(graph, best(graph), bound=18, proof="L3")
    same_key(graph, store, other)
    assert store.get(other) is None
    assert store.put(other, best(other))
    assert [r.key for r in store.records()] == [canonical_form(other).key] * 2
    assert store.get(other).peak == check_plan(other, best(other)).peak  # type: ignore[union-attr]


@pytest.fixture(params=[2, 3])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> PlanStore:
    """A file that an older version wrote: two diamonds, solved for both objectives."""
    shutil.copy(DATA / f"version{request.param}.db", tmp_path / "old.db")
    return PlanStore(tmp_path / "old.db")


def require_old_content(store: PlanStore) -> None:
    for size in (1, 2):
        graph = shuffled(diamond(size), size)
        found, peak = store.get(graph, MINIMUM_PEAK), 12 + size
        assert found is not None
        assert (found.peak, found.slab, found.bound, found.proof) == (peak, peak, peak, "L3")
        left = store.search(graph, StoredQuestion(Objective.SLAB))
        assert left is not None
        assert (left.peak_bound, left.packed, left.units) == (0, {}, 0)
        assert all(check_order(graph, order) for order in left.orders)
    certificate = store.certificate(diamond(1), MINIMUM_PEAK)
    assert certificate is not None
    assert check_certificate(diamond(1), certificate) == "L3"
    assert verify(store) == []


def test_a_file_of_an_older_version_is_refused_with_the_way_out(old: PlanStore) -> None:
    before = old.path.read_bytes()
    for use in (old.records, lambda: old.put(diamond(), best(diamond()))):
        with pytest.raises(FormatError, match=r"old\.db: version \d is older than 4: write an exp"):
            use()
    assert old.path.read_bytes() == before


@pytest.mark.parametrize("version", [2, 3])
def test_an_export_of_an_older_version_is_taken(version: int, store: PlanStore) -> None:
    taken = import_store(store, DATA / f"version{version}.jsonl", trust=True)
    assert (taken.new, taken.refused) == (4, 0)
    require_old_content(store)


def test_numbers_of_any_graph_are_translated(
    store: PlanStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exports with other keys and numbers, as older versions wrote them, are found again."""
    graphs, written = [], 0
    with monkeypatch.context() as patched:
        patched.setattr(rows, "canonical_form", _in_other_numbers)
        for seed in range(20):
            rng = np.random.default_rng(seed)
            graph = random_graph(rng, 2 + seed % 8)
            graphs.append(graph)
            plan = best(graph)
            store.put(graph, plan)
            store.put_search(graph, Resume(orders=(plan.order,)))
            found = certify(graph, limits=Limits(work=2000))
            if found.certificate is not None:
                written += store.put_certificate(graph, found.certificate)
    assert written
    export_store(store, tmp_path / "export.jsonl")
    taken = PlanStore(tmp_path / "taken.db")
    assert import_store(taken, tmp_path / "export.jsonl", trust=True).refused == 0
    for graph in graphs:
        other = shuffled(graph, 1)
        found_plan, left = taken.get(other), taken.search(other)
        assert found_plan is not None
        assert left is not None
        assert found_plan.peak == check_plan(graph, best(graph)).peak
        assert check_order(other, left.orders[0]) == found_plan.peak
    assert verify(taken) == []


def _in_other_numbers(graph: Graph) -> CanonicalGraph:
    rng = np.random.default_rng(len(graph.ops))
    ops, buffers = (rng.permutation(len(x)).tolist() for x in (graph.ops, graph.buffers))
    return CanonicalGraph(f"of before {graph.name}", tuple(ops), tuple(buffers))


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
    assert store.put(graph, found.plan or best(graph), question=question) is False
    # The question in another memory model, or about another graph, is not the one of this graph.
    for other in (MemoryModel(align=64).apply(graph), diamond()):
        with pytest.raises(UsageError, match="not that of the question"):
            store.get(other, question)
    with pytest.raises(UsageError, match="wants a Question or StoredQuestion, got str"):
        store.get(graph, "peak")  # type: ignore[arg-type]
