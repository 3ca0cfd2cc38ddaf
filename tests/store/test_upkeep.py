"""Stores are checked, merged, exported and purged; proofs are withdrawn by rule."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from optsched import certify
from optsched.cli import main
from optsched.errors import FormatError, OptschedError, UsageError
from optsched.model.graph import Graph
from optsched.model.question import Question
from optsched.runtime.limits import Objective
from optsched.solver.resume import Resume
from optsched.store import (
    PlanStore,
    collect_garbage,
    export_store,
    import_store,
    merge,
    read_rule,
    revoke,
    rows,
    translate,
    upkeep,
    verify,
)
from tests.store.test_database import best, diamond, wasteful
from tests.support.generators import random_graph, random_order

DATA = Path(__file__).parents[1] / "data" / "stores"


def peak(graph: Graph) -> Question:
    return Question(graph, objective=Objective.PEAK)


def filled(path: Path, count: int = 5) -> PlanStore:
    """A store of diamonds: plans, bounds, a certificate, a search, several questions."""
    store = PlanStore(path)
    with store.batch() as batch:
        for size in range(1, 1 + count):
            graph = diamond(size)
            batch.put(graph, wasteful(graph))
            plan = best(graph)
            batch.put(graph, plan, bound=plan.peak(graph), proof="L3")
            batch.put(peak(graph), plan, bound=4, proof="")
            batch.put_search(peak(graph), Resume(size, orders=(plan.order,)))
        graph = diamond(1)
        batch.put_certificate(graph, certify(graph, time_limit=5).certificate)
    return store


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("sound") / "plans.db").path


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> PlanStore:
    shutil.copy(sound, tmp_path / "plans.db")
    return PlanStore(tmp_path / "plans.db")


def change(store: PlanStore, statement: str, *values: object) -> None:
    with sqlite3.connect(store.path) as connection:
        connection.execute(statement, values)
    connection.close()


def numbers(store: PlanStore) -> list[tuple[object, ...]]:
    """Return the contents of each record, without its number."""
    return sorted(
        (
            r.key,
            f"{r.objective} {r.capacity}",
            r.peak,
            r.slab,
            r.best_bound.value,
            r.best_bound.certified,
        )
        for r in store.records()
    )


def test_a_sound_store_is_sound(store: PlanStore) -> None:
    assert verify(store) == []
    assert len(store.records()) == 10
    assert all(
        record.is_proved is (record.objective is Objective.SLAB) for record in store.records()
    )


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE records SET peak = peak - 1 WHERE id = 1", "claims a peak"),
        ("UPDATE records SET plan = (SELECT plan FROM records WHERE id = 3) WHERE id = 1", ""),
        ("UPDATE records SET plan = x'00' WHERE id = 1", "damaged"),
        ("UPDATE records SET question = '{}' WHERE id = 1", "objective is missing"),
        ("UPDATE bounds SET value = value + 1 WHERE record = 1", "damaged"),
        ("UPDATE bounds SET withdrawn = 'so' WHERE record = 1", "damaged"),
        ("UPDATE graphs SET document = substr(document, 1, 40) WHERE id = 1", "gzip"),
        ("UPDATE graphs SET key = 'another' WHERE id = 1", "its key"),
        ("UPDATE graphs SET ops = 4 WHERE id = 1", "summary"),
        ("UPDATE searches SET state = x'1f8b' WHERE record = 2", "gzip"),
        ("DELETE FROM graphs WHERE id = 1", "lost"),
        ("UPDATE history SET detail = '[' WHERE id = 1", "JSON"),
        ("UPDATE history SET at = 'noon' WHERE id = 1", "a row is damaged"),
        ("UPDATE records SET question = x'00' WHERE id = 1", "a row is damaged"),
        ("UPDATE graphs SET ops = 'three' WHERE id = 1", "a row is damaged"),
        ("UPDATE graphs SET name = x'00' WHERE id = 1", "a row is damaged"),
    ],
)
def test_whatever_was_changed_is_found(store: PlanStore, statement: str, words: str) -> None:
    change(store, statement)
    found = verify(store)
    assert found
    assert words in " ".join(found)
    assert main(["store", "verify", str(store.path)]) == 1


def test_a_bound_that_was_changed_does_not_count(store: PlanStore) -> None:
    graph = diamond(2)
    bound = store.get(graph).bound  # type: ignore[union-attr]
    change(store, "UPDATE bounds SET value = value - 1")
    assert bound > 0
    assert store.get(graph).bound == 0  # type: ignore[union-attr]


def test_the_other_stores_word_counts_only_if_trusted(store: PlanStore, tmp_path: Path) -> None:
    wary, trusting = PlanStore(tmp_path / "wary.db"), PlanStore(tmp_path / "trusting.db")
    assert merge(wary, store).new == 10
    assert merge(trusting, store, trust=True).new == 10
    assert numbers(trusting) == numbers(store)
    # The certificate speaks for itself, everything else is a claim.
    assert [r.best_bound.value > 0 for r in wary.records()].count(True) == 1
    assert [(r.peak, r.slab) for r in wary.records()] == [(r.peak, r.slab) for r in store.records()]
    # What a search left holds bounds too.
    assert wary.search(peak(diamond(3))) is None
    assert verify(wary) == verify(trusting) == []
    again = merge(trusting, store, trust=True)
    assert (again.new, again.known, again.refused) == (0, 10, 0)
    assert trusting.search(peak(diamond(3))) == store.search(peak(diamond(3)))


def test_an_export_brings_the_same(store: PlanStore, tmp_path: Path) -> None:
    path = tmp_path / "plans.jsonl.gz"
    assert export_store(store, path) == (10, [])
    other = PlanStore(tmp_path / "other.db")
    assert import_store(other, path, trust=True).new == 10
    assert numbers(other) == numbers(store)


def test_what_is_wrong_in_an_export_is_refused_by_itself(store: PlanStore, tmp_path: Path) -> None:
    path = tmp_path / "plans.jsonl"
    export_store(store, path)
    first, *lines = path.read_text().splitlines()
    documents = [json.loads(line) for line in lines]
    documents[0]["peak"] -= 1
    documents[1]["plan"]["order"] = [2, 1, 0]
    documents[2]["graph"]["buffers"][0]["size"] = -1
    documents[3]["bounds"][0]["value"] = 10**9
    del documents[4]["question"]
    documents[5]["provenance"] = {"by": "x" * rows.MAX_TEXT}
    documents[6]["bounds"][0]["provenance"] = {"by": "x" * (rows.MAX_TEXT - 10)}
    documents[7] |= {"plan": None, "peak": None, "slab": None}
    documents[7]["bounds"][0]["value"] = 2**63
    texts = [first, *(json.dumps(x) for x in documents), "{", "[]"]
    path.write_text("\n".join(texts))
    other = PlanStore(tmp_path / "other.db")
    taken = import_store(other, path, trust=True)
    assert (taken.new, taken.known, taken.refused) == (4, 1, 7)
    assert len(taken.troubles) == 10
    assert verify(other) == []
    assert import_store(other, path).new == 0
    path.write_text("{}\n")
    with pytest.raises(FormatError, match="format is missing"):
        import_store(other, path)


def test_withdrawn_proofs_are_proved_again(store: PlanStore, tmp_path: Path) -> None:
    before = numbers(store)
    other = filled(tmp_path / "other.db", 2)
    assert revoke(store, read_rule("optsched<0.1")) == 0
    assert revoke(store, read_rule("optsched==0.1.0:L6")) == 0
    assert revoke(store, read_rule("optsched<=0.1:L3")) == 5
    # One has a certificate, which no engine's error touches.
    assert [r.is_proved for r in store.records() if r.objective is Objective.SLAB].count(True) == 1
    assert store.search(peak(diamond(2))) is None
    assert "revoked: optsched<=0.1:L3" in {b.withdrawn for r in store.records() for b in r.bounds}
    assert [c.what for c in store.history(3)][-1] == "withdrawn"
    assert merge(store, other, trust=True).new == 0
    assert verify(store) == []
    for size in range(1, 6):
        plan = best(diamond(size))
        store.put(diamond(size), plan, bound=plan.peak(diamond(size)), proof="L3")
    assert numbers(store) == before


def test_proofs_of_other_versions_stand_by_themselves(store: PlanStore) -> None:
    graph = diamond(3)
    origins = [{"versions": {"optsched": version}} for version in ("0.1", "0.2")]
    for origin in origins:
        assert store.put_bound(peak(graph), 4, "L5", origin=origin)
        assert not store.put_bound(peak(graph), 4, "L5", origin=origin)
    collect_garbage(store)
    revoke(store, read_rule("optsched==0.1"))
    record = store.record(peak(graph))
    assert record is not None
    assert (record.best_bound.value, record.best_bound.provenance) == (4, origins[1])


@pytest.mark.parametrize("text", ["optsched >= 0", "a.b==0.0:L3", "ortools<=9.12:L6", "x<1.0"])
def test_a_rule_is_kept_as_it_can_be_read(text: str, store: PlanStore, tmp_path: Path) -> None:
    rule = read_rule(text)
    assert read_rule(str(rule)) == rule
    revoke(store, rule)
    assert merge(store, filled(tmp_path / "other.db", 1)).troubles == []


@pytest.mark.parametrize("text", ["", "optsched", "optsched<", "optsched<1:L9", "<1", "a<1;b<2"])
def test_what_is_no_rule_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="is not a rule"):
        read_rule(text)


def test_garbage_is_collected_and_nothing_else(
    store: PlanStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "KEPT_CHANGES", 5)
    graph = diamond(2)
    plan = best(graph)
    with store.batch() as batch:
        for value in range(5, 15):
            batch.put_bound(peak(graph), value)
        for _ in range(20):
            revoke(batch, read_rule("optsched<=0.1:L3"))
            batch.put(graph, plan, bound=plan.peak(graph), proof="L3")
    before, size = numbers(store), store.path.stat().st_size
    counts = collect_garbage(store)
    assert counts["bounds"] > 20
    assert counts["changes"] > 10
    assert numbers(store) == before
    assert verify(store) == []
    assert store.path.stat().st_size <= size
    assert store.search(peak(graph)) is None
    assert not any(collect_garbage(store).values())


def test_records_that_no_run_met_are_deleted_by_age(store: PlanStore) -> None:
    """Of five records two are old, and a run met one of these; nothing else changes."""
    old, met, *others = store.records()
    for record in (old, met):
        change(store, "UPDATE history SET at = at - 864000 WHERE record = ?", record.number)
    store.mark_met([met.key, others[0].key], met.objective)
    whats = [[x.what for x in store.history(r.number)].count("met") for r in (met, others[0])]
    # A record that changed within the hour needs no mark.
    assert whats == [1, 0]
    assert collect_garbage(store, 11 * 86_400)["records"] == 0
    assert collect_garbage(store, 5 * 86_400)["records"] == 1
    assert [x.number for x in store.records()] == [x.number for x in (met, *others)]
    assert verify(store) == []


def larger(tmp_path: Path) -> tuple[PlanStore, list[Graph]]:
    """A store of many pages, one random order a graph: rows that lie in several pages too."""
    store = PlanStore(tmp_path / "large.db")
    rng = np.random.default_rng(5)
    graphs = [random_graph(rng, 20, name=f"g{i}", max_size=1000) for i in range(16)]
    graphs.append(random_graph(rng, 400, name="long", max_size=1000))
    with store.batch() as batch:
        for graph in graphs:
            order = random_order(rng, graph)
            batch.put(graph, stacked(graph, order), bound=3, proof="L2")
    return store, graphs


def stacked(graph: Graph, order: tuple[int, ...]):
    from heuristics import PACKINGS
    from optsched.model.packing_problem import packing_problem
    from optsched.model.plan import make_plan

    problem, _ = packing_problem(graph, order)
    return make_plan(graph, order, PACKINGS["naive"](problem))


def test_of_a_damaged_store_the_sound_records_are_exported(tmp_path: Path) -> None:
    """Each page in turn is destroyed: the damage is named, and the file stays as it is."""
    store, graphs = larger(tmp_path)
    whole = store.path.read_bytes()
    rng, refused, partly = random.Random(1), 0, 0
    for page in range(len(whole) // 4096):
        noise = bytearray(whole)
        noise[page * 4096 : page * 4096 + 4096] = rng.randbytes(4096)
        store.path.write_bytes(noise)
        try:
            found = verify(store)
            count, left_out = export_store(store, tmp_path / "export.jsonl")
        except FormatError as error:
            # Pages with the tables' names or the list of records.
            refused += 1
            found, count, left_out = [str(error)], 0, []
        assert found
        assert not any("\n" in text for text in (*found, *left_out))
        assert store.path.read_bytes() == noise
        if left_out and count:
            partly += 1
            target = PlanStore(tmp_path / f"saved{page}.db")
            taken = import_store(target, tmp_path / "export.jsonl", trust=True)
            assert (taken.new, taken.refused) == (count, 0)
            assert count + len(left_out) == len(graphs)
            assert verify(target) == []
    assert refused < 6
    assert partly > 5


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE searches SET state = x'1f8b' WHERE record = 4",
        "UPDATE records SET plan = x'1f8b' WHERE id = 3",
        "UPDATE bounds SET value = value + 1 WHERE record = 3",
    ],
)
def test_a_damaged_record_is_named_and_the_others_are_exported(
    store: PlanStore, tmp_path: Path, statement: str
) -> None:
    before = numbers(store)
    change(store, statement)
    (trouble,) = verify(store)
    count, left_out = export_store(store, tmp_path / "export.jsonl")
    assert (count, left_out) == (9, [trouble])
    saved = PlanStore(tmp_path / "saved.db")
    assert import_store(saved, tmp_path / "export.jsonl", trust=True).new == 9
    assert len(set(numbers(saved)) & set(before)) == 9


def test_a_damaged_plan_is_an_error_with_the_way_out(store: PlanStore) -> None:
    change(store, "UPDATE records SET peak = peak - 1 WHERE id = 3")
    with pytest.raises(OptschedError, match=r"graph 'diamond': .*restore a copy .*store export"):
        store.get(diamond(2))


def test_a_store_that_is_cut_off_in_its_head_is_refused_and_not_written(tmp_path: Path) -> None:
    store, graphs = larger(tmp_path)
    whole = store.path.read_bytes()
    for size in range(100):
        store.path.write_bytes(whole[:size])
        for use in (store.records, lambda: store.put_bound(graphs[0], 4, "L2")):
            with pytest.raises(OptschedError):
                use()
        assert store.path.read_bytes() == whole[:size]


def test_what_is_packed_too_tightly_is_refused_before_it_is_unpacked(
    store: PlanStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few bytes that unpack to many, and JSON of many values."""
    monkeypatch.setattr(translate, "MAX_UNPACKED", 10**6)
    monkeypatch.setattr(translate, "MAX_VALUES", 1000)
    for data, words in ((b" " * 10**7, "limit of 1,000,000"), (b"[" + b"0," * 1000, "values")):
        change(store, "UPDATE records SET plan = ? WHERE id = 1", gzip.compress(data))
        assert words in " ".join(verify(store))
        with pytest.raises(FormatError, match=words):
            store.get(diamond(1))
