"""A store of plans: kept, found, improved, refused."""

from __future__ import annotations

import gzip
import os
import pickle
import sqlite3
import sys
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from optsched import GraphBuilder, Limits
from optsched.errors import FormatError, OptschedError, PlanError, UsageError
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.solver.pipeline import solve
from optsched.solver.resume import Resume
from optsched.store import PlanStore, file, prepare_result, schema
from optsched.store.translate import pack


def diamond(size: int = 6) -> Graph:
    build = GraphBuilder("diamond")
    build.input("x", 8)
    build.op("left", reads=["x"], writes={"a": 4})
    build.op("right", reads=["x"], writes={"b": size}, workspace=2)
    build.op("join", reads=["a", "b"], writes={"y": 4})
    build.output("y")
    return build.build()


@cache
def best(graph: Graph) -> Plan:
    plan = solve(graph, limits=Limits(work=1000)).plan
    assert plan is not None
    return plan


def wasteful(graph: Graph) -> Plan:
    """The other order, the buffers further apart."""
    plan = best(graph)
    offsets = tuple(None if x is None else 10 * x for x in plan.offsets)
    return replace(plan, offsets=offsets)


@pytest.fixture
def store(tmp_path: Path) -> PlanStore:
    return PlanStore(tmp_path / "plans.db")


def test_nothing_is_there_at_first(store: PlanStore) -> None:
    assert store.get(diamond()) is None
    assert store.digest() == "empty"
    assert not store.path.exists()


def test_a_better_plan_replaces_and_a_worse_one_does_not(store: PlanStore) -> None:
    graph = diamond()
    assert store.put(graph, wasteful(graph))
    first = store.digest()
    assert store.put(graph, best(graph), bound=18, proof="L3")
    assert store.digest() != first
    assert not store.put(graph, wasteful(graph))
    found = store.get(graph)
    assert found is not None
    assert (found.plan, found.peak, found.bound, found.proof) == (best(graph), 18, 18, "L3")
    assert store.get(diamond(7)) is None


def test_a_wrong_plan_is_not_kept(store: PlanStore) -> None:
    graph = diamond()
    with pytest.raises(PlanError):
        store.put(graph, replace(best(graph), order=(2, 1, 0)))
    assert store.get(graph) is None


def test_a_result_is_prepared_where_the_graph_is_and_written_elsewhere(store: PlanStore) -> None:
    graph = diamond()
    found = solve(graph, limits=Limits(work=1000))
    notes = Resume(orders=(best(graph).order,), units=1)
    packed = pickle.dumps(prepare_result(graph, found, notes))
    assert len(packed) < 2_000
    assert store.put_prepared(pickle.loads(packed))
    known = store.get(graph)
    assert known is not None
    assert (known.plan, known.slab, known.bound) == (found.plan, found.slab, found.slab_bound)
    assert store.search(graph) == notes
    assert not store.put_prepared(pickle.loads(packed))
    with pytest.raises(PlanError):
        prepare_result(graph, replace(found, plan=replace(best(graph), order=(2, 1, 0))))


def test_who_packs_elsewhere_may_pack_otherwise(store: PlanStore) -> None:
    graph = diamond()
    prepared = prepare_result(graph, solve(graph, limits=Limits(work=1000)))
    row = prepared.graph
    other = row._replace(packed=gzip.compress(gzip.decompress(row.packed), 9, mtime=0))
    assert other.packed != row.packed
    assert store.put_prepared(prepared)
    assert not store.put_prepared(replace(prepared, graph=other))
    assert len(store.records()) == 1


def test_a_plan_of_another_graph_is_refused(store: PlanStore) -> None:
    """The file was changed to a plan that is not of this graph."""
    graph = diamond()
    store.put(graph, best(graph))
    plans = ({"order": [2, 1, 0], "offsets": [0] * 5}, {"order": [9]}, {"order": [0, 1, 2]}, 7)
    for blob in (*map(pack, plans), b"nonsense", "text", pack({})[:-4]):
        with sqlite3.connect(store.path) as connection:
            connection.execute("UPDATE records SET plan = ?", (blob,))
        connection.close()
        with pytest.raises((PlanError, FormatError)) as caught:
            store.get(graph)
        assert str(store.path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_newer_version_is_refused(store: PlanStore) -> None:
    graph = diamond()
    store.put(graph, best(graph))
    with sqlite3.connect(store.path) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()
    with pytest.raises(FormatError, match="newer"):
        store.get(graph)
    with pytest.raises(FormatError, match="newer"):
        store.put(graph, best(graph))


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0broken", b"{}" * 600])
def test_what_is_no_store_is_refused(store: PlanStore, content: bytes) -> None:
    store.path.write_bytes(content)
    with pytest.raises((FormatError, OptschedError)) as caught:
        store.get(diamond())
    assert str(store.path) in str(caught.value)
    assert store.path.read_bytes() == content


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="folder"):
        PlanStore(tmp_path)


def test_a_link_to_itself_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "loop.db").symlink_to("loop.db")
    store = PlanStore(tmp_path / "loop.db")
    assert store.get(diamond()) is None
    with pytest.raises(OptschedError, match=r"loop\.db"):
        store.put(diamond(), best(diamond()))


def test_what_to_do_about_a_damaged_store_is_said(store: PlanStore) -> None:
    store.put(diamond(), best(diamond()))
    store.path.write_bytes(store.path.read_bytes()[:5_000])
    with pytest.raises(FormatError, match=r"plans\.db: .*malformed; restore a copy .*store export"):
        store.records()
    store.path.write_bytes(b"")
    with pytest.raises(FormatError, match="not a plan store: it is empty"):
        store.records()


def test_a_pipe_is_no_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe"):
        PlanStore(tmp_path / "pipe")
    with pytest.raises(UsageError, match="path of a file"):
        PlanStore(3)  # type: ignore[arg-type]


def test_a_locked_store_is_one_line(store: PlanStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "SECONDS_TO_WAIT", 0.05)
    graph = diamond()
    store.put(graph, wasteful(graph))
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(OptschedError, match="locked"):
            store.put(graph, best(graph))
        # Readers of a write-ahead log do not wait.
        assert store.get(graph) is not None
    finally:
        other.close()


def test_many_writers(store: PlanStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads put plans of different graphs at once; all are there afterwards."""
    monkeypatch.setattr(file, "SECONDS_TO_WAIT", 300.0)
    graphs = [diamond(size) for size in range(1, 9)]
    threads = [threading.Thread(target=store.put, args=(g, best(g))) for g in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(store.get(graph) is not None for graph in graphs)


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux alone")
def test_a_store_may_have_a_name_that_is_not_text(tmp_path: Path) -> None:
    store = PlanStore(os.fsdecode(bytes(tmp_path) + b"/plans-\xff.db"))
    assert store.put(diamond(), best(diamond()))
    assert len(store) == 1
