"""tune(): every result is kept, searches resume, and a bad graph costs only itself."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sqlite3
import sys
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from optsched.check.plan import check_plan
from optsched.errors import OptschedError, UsageError
from optsched.fleet import Fleet, FleetSettings, FleetStanding, FleetState, tune, writer
from optsched.fleet.study import fleet_study
from optsched.fleet.unit import Unit, UnitContext, is_proved, look_up
from optsched.formats import read_graph, write_graph, write_plan
from optsched.model.question import Question
from optsched.ordering.progress import OrderProgress
from optsched.reports.fleet import fleet_record, print_fleet, standing_text
from optsched.reports.study_files import study_csv
from optsched.reports.study_page import study_html
from optsched.runtime.facts import code_digest
from optsched.runtime.limits import Limits, Objective, Proof, StopReason
from optsched.solver.pipeline import solve
from optsched.solver.resume import Resume
from optsched.store import PlanStore, collect_garbage
from tests.support.families.small import SMALL_GRAPHS, diamond
from tests.support.families.wiring import random_wiring
from tests.support.fleets import SETTINGS, WORK, make_fleet, undisturbed


def slabs(fleet: Fleet) -> dict[str, int | None]:
    return {graph.name: graph.slab for graph in fleet.graphs}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return make_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, paths: list[str]) -> Path:
    """A store after an undisturbed run."""
    path = tmp_path_factory.mktemp("store") / "plans.store"
    undisturbed(paths, path)
    return path


def test_easy_graphs_are_proved_and_hard_ones_use_all_work(paths: list[str], store: Path) -> None:
    fleet = undisturbed(paths, store)
    hard = [graph for graph in fleet.graphs if graph.state is FleetState.OPEN]
    assert [graph.slices for graph in hard] == [3, 3]
    assert fleet.count(FleetState.PROVED) == len(paths) - 2
    by_hand = {make().name: slab for make, (_, slab) in SMALL_GRAPHS.items()}
    for graph in fleet.graphs:
        assert graph.slab == by_hand.get(graph.name, graph.slab)
        assert graph.saved(Objective.SLAB) >= 0


def test_what_is_in_the_store_is_not_searched_again(
    paths: list[str], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from optsched.fleet import unit

    def never(*_: object, **__: object) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr(unit, "solve", never)
    first, again = undisturbed(paths, store), undisturbed(paths, store)
    assert first.rows() == again.rows()
    assert again.units == len(paths)


def test_a_longer_run_goes_on_where_the_shorter_ended(paths: list[str], tmp_path: Path) -> None:
    one, two = tmp_path / "one.store", tmp_path / "two.store"
    at_once = undisturbed(paths, one)
    for work in (500, 500, 2_500, WORK):
        in_parts = undisturbed(paths, two, replace(SETTINGS, work=work))
    assert in_parts.rows() == at_once.rows()
    units = [graph.slices for graph in in_parts.graphs if graph.state is FleetState.OPEN]
    assert units == [3, 3]


def test_plans_of_the_store_are_valid_and_its_bounds_below(paths: list[str], store: Path) -> None:
    for path in paths:
        graph = read_graph(path)
        known = PlanStore(store).get(graph)
        assert known is not None
        check_plan(graph, known.plan, peak=known.peak, slab=known.slab)
        assert known.bound <= known.slab


def test_a_damaged_search_costs_nothing_but_itself(
    paths: list[str], store: Path, tmp_path: Path
) -> None:
    context = UnitContext(SETTINGS, str(store), PlanStore(store).digest())
    hard = next(path for path in paths if "wiring" in path)
    graph = read_graph(hard)
    search = PlanStore(store).search(Question(graph, objective=context.settings.objective))
    assert search is not None
    context = replace(context, code=search.code)
    whole = look_up(graph, context)
    assert whole is not None
    assert whole.resume is not None
    assert whole.resume.units == 3
    # Notes of another code are not believed; plan and bounds are.
    other = look_up(graph, replace(context, code="other"))
    assert other is not None
    assert other.resume is not None
    assert (other.plan, other.resume.units, other.resume.orders) == (whole.plan, 0, ())
    assert other.peak_bound == whole.peak_bound
    damaged = tmp_path / "s.store"
    shutil.copy(store, damaged)
    with sqlite3.connect(damaged) as connection:
        state = gzip.compress(json.dumps({"orders": [], "notes": {"slices": 3}}).encode())
        connection.execute("UPDATE searches SET state = ?", (state,))
    connection.close()
    found = look_up(graph, replace(context, store=str(damaged)))
    assert found is not None
    assert found.resume is not None
    assert (found.plan, found.resume.units, found.peak_bound) == (whole.plan, 0, whole.peak_bound)


def test_bounds_of_a_search_that_a_plan_refutes_are_not_believed(
    paths: list[str], store: Path, tmp_path: Path
) -> None:
    graph, path = read_graph(next(path for path in paths if "wiring" in path)), tmp_path / "s.store"
    shutil.copy(store, path)
    copied, question = PlanStore(path), Question(graph, objective=SETTINGS.objective)
    search, known = copied.search(question), copied.get(question)
    assert search is not None
    assert known is not None
    wrong = replace(search, peak_bound=known.slab + 1)
    copied.put_search(question, wrong)
    found = look_up(graph, UnitContext(SETTINGS, str(path), search.code))
    assert found is not None
    assert found.peak is not None
    assert found.peak_bound <= found.peak


def test_rounds_are_kept_for_the_same_ids_and_steps_for_an_equal_graph(
    paths: list[str], store: Path
) -> None:
    graph = read_graph(next(path for path in paths if "wiring" in path))
    search = PlanStore(store).search(Question(graph, objective=SETTINGS.objective))
    assert search is not None
    known, notes = Resume(graph=graph.digest), search.to_dict()
    assert search.trusted(known).rounds.steps > 0
    notes["rounds"] = notes["rounds"] | {"failure_counts": [1] * len(graph.ops)}
    same = Resume.from_dict(notes, len(graph.ops)).trusted(known)
    assert same.rounds.failure_counts == (1,) * len(graph.ops)
    other = Resume.from_dict(notes | {"graph": "00" * 16}, len(graph.ops)).trusted(known)
    assert other.rounds == same.rounds.of_other_ids()
    assert (other.graph, other.packed, other.seen) == (known.graph, {}, {})
    # Older versions kept no rounds; what they kept besides is of use.
    del notes["rounds"]
    older = Resume.from_dict(notes, len(graph.ops))
    assert (older.orders, older.rounds, older.units) == (search.orders, OrderProgress(), 3)


def test_bounds_of_another_version_are_not_believed(tmp_path: Path) -> None:
    graph, path = diamond(), tmp_path / "s.store"
    tune([graph], path, work=1_000, jobs=0)
    store = PlanStore(path)
    known = store.get(graph)
    assert known is not None
    other = tmp_path / "other.store"
    origin = {"versions": {"optsched": "0.0.1"}}
    PlanStore(other).put(graph, known.plan, bound=known.bound, proof="L5", origin=origin)
    context = UnitContext(FleetSettings(work=1), str(other), "code")
    found = look_up(graph, context)
    assert found is not None
    assert not is_proved(found, Objective.SLAB)
    # It is proved again, and then counts.
    (row,) = tune([graph], other, work=1_000, jobs=0).graphs
    assert (row.state, row.slices) == (FleetState.PROVED, 1)
    # Once: another run does not search again, also after the garbage collection.
    for _ in range(2):
        assert tune([graph], other, work=1_000, jobs=0).units == 1
        collect_garbage(PlanStore(other))


def test_a_claim_about_a_plan_does_not_cost_the_bound_below_it(tmp_path: Path) -> None:
    graph = diamond()
    found = solve(graph)
    none = replace(found, peak_bound=0, peak_proof=None)
    claimed = replace(none, slab_bound=17, slab_proof=Proof.CLAIMED)
    store = PlanStore(tmp_path / "s.store")
    store.put_result(graph, claimed)
    known = store.get(graph)
    assert known is not None
    assert (known.slab, known.bound, known.proof) == (18, 17, None)


def test_a_poisoned_file_among_many_costs_itself(paths: list[str], tmp_path: Path) -> None:
    poison = {
        "cut.json": '{"format": "optsched-graph/1", "ops": [',
        "deep.json": "[" * 100_000,
        "huge.json": json.dumps({"ops": [{"name": "a"}] * 3, "buffers": "none"}),
        "text.json": "no graph at all",
    }
    for name, text in poison.items():
        (tmp_path / name).write_text(text)
    bad = [str(tmp_path / name) for name in poison] + [str(tmp_path / "missing.json")]
    fleet = tune([*paths, *bad], tmp_path / "s.store", settings=SETTINGS, jobs=0)
    failed = [graph for graph in fleet.graphs if graph.state is FleetState.FAILED]
    assert [graph.label for graph in failed] == bad
    assert all(graph.reason and "\n" not in graph.reason for graph in failed)
    assert fleet.count(FleetState.PROVED) == len(paths) - 2


def test_a_defect_costs_its_graph(
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from optsched.fleet import unit

    original = unit.solve

    def defective(graph, **options):  # type: ignore[no-untyped-def]
        if graph.name == "diamond":
            raise RuntimeError("a\ndefect")
        return original(graph, **options)

    monkeypatch.setattr(unit, "solve", defective)
    fleet = undisturbed(paths, tmp_path / "s.store", replace(SETTINGS, work=10))
    (failed,) = (graph for graph in fleet.graphs if graph.reason)
    assert failed.reason == "RuntimeError: a defect"


def test_a_wrong_bound_costs_its_graph(
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from optsched.fleet import unit

    original, path = unit.solve, tmp_path / "s.store"

    def defective(graph, **options):  # type: ignore[no-untyped-def]
        found = original(graph, **options)
        if graph.name != "diamond":
            return found
        # While it was searched, somebody else has put a better plan in.
        PlanStore(path).put_result(graph, found)
        apart = tuple(None if x is None else 2 * x for x in found.plan.offsets)
        plan = replace(found.plan, offsets=apart)
        return replace(found, plan=plan, slab=plan.slab(graph), slab_bound=plan.slab(graph))

    monkeypatch.setattr(unit, "solve", defective)
    fleet = undisturbed(paths, path, replace(SETTINGS, work=10))
    (open_,) = (graph for graph in fleet.graphs if graph.reason)
    assert (open_.name, open_.state, open_.proof) == ("diamond", FleetState.OPEN, None)
    assert "is above the 18 of a plan" in open_.reason
    assert len(PlanStore(path).records()) == len(paths)


def test_a_store_that_others_write_for_long_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from optsched.store import file

    path = tmp_path / "s.store"
    PlanStore(path).require_writable()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    ends = threading.Timer(0.5, other.rollback)
    written = PlanStore.batch

    def locked(store: PlanStore) -> AbstractContextManager[PlanStore]:
        monkeypatch.setattr(file, "SECONDS_TO_WAIT", 0.05)
        monkeypatch.setattr(PlanStore, "batch", written)
        other.execute("BEGIN IMMEDIATE")
        ends.start()
        return written(store)

    monkeypatch.setattr(PlanStore, "batch", locked)
    tune([diamond()], path, work=1_000, jobs=0)
    ends.join()
    other.close()
    assert len(PlanStore(path).records()) == 1


@pytest.mark.parametrize("most", range(1, 10))
def test_finds_are_written_at_once_where_the_run_ends_or_many_wait(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they just fill what may wait when the run ends."""
    monkeypatch.setattr(writer, "GATHER_SECONDS", 600.0)
    monkeypatch.setattr(writer, "MOST_WAITING", most)
    graphs = [make() for make in SMALL_GRAPHS]
    tune(graphs, tmp_path / "plans.store", work=WORK, jobs=0)
    kept = {record.name for record in PlanStore(tmp_path / "plans.store").records()}
    assert kept == {graph.name for graph in graphs}


def test_no_defect_of_the_writer_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(*_: object, **__: object) -> None:
        raise RuntimeError("a\ndefect")

    monkeypatch.setattr(PlanStore, "put_prepared", defective)
    with pytest.raises(OptschedError, match=r"s\.store: RuntimeError: a defect"):
        tune([diamond()], tmp_path / "s.store", work=1_000, jobs=0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits addresses")
def test_a_search_that_runs_out_of_memory_costs_its_graph(
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Really: our own searches hold so few states that it would take them minutes."""
    from optsched.fleet import unit

    original, begun = unit.solve, []

    def hungry(graph, **options):  # type: ignore[no-untyped-def]
        begun.append(graph.name)
        if graph.name == "diamond":
            kept = [np.ones(2**20) for _ in range(1_000)]
            raise AssertionError(f"{len(kept)} blocks of 8 MiB")
        return original(graph, **options)

    monkeypatch.setattr(unit, "solve", hungry)
    settings = replace(SETTINGS, work=500, memory=2**27)
    fleet = undisturbed(paths, tmp_path / "s.store", settings)
    (failed,) = (graph for graph in fleet.graphs if graph.reason)
    assert (failed.name, failed.reason) == ("diamond", "out of memory (limit 134,217,728 bytes)")
    assert sorted(begun) == sorted(graph.name for graph in fleet.graphs)


def test_a_store_that_can_not_be_written_ends_the_run_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="store"):
        tune([diamond()], tmp_path, work=10, jobs=0)
    with pytest.raises(OptschedError, match="store"):
        tune([diamond()], tmp_path / "nowhere" / "s.store", work=10, jobs=0)


def test_two_graphs_that_are_equal_share_a_record(tmp_path: Path) -> None:
    other = replace(diamond(), name="other")
    fleet = tune([diamond(), other], tmp_path / "s.store", work=1_000, jobs=0)
    assert set(slabs(fleet).values()) == {18}
    assert len(PlanStore(tmp_path / "s.store").records()) == 1


def test_equal_graphs_do_not_search_with_each_others_work(paths: list[str], tmp_path: Path) -> None:
    """The soak found two schedules of one program: the table depended on which came in first."""
    hard = read_graph(next(path for path in paths if "wiring" in path))
    other = replace(hard, name="other")
    at_once = tune([hard, other], tmp_path / "one.store", settings=SETTINGS, jobs=0)
    # What an earlier run made of the second counts for both.
    tune([other], tmp_path / "two.store", settings=replace(SETTINGS, work=500), jobs=0)
    resumed = tune([hard, other], tmp_path / "two.store", settings=SETTINGS, jobs=0)
    assert resumed.rows() == at_once.rows()
    assert [graph.slices for graph in at_once.graphs] == [3, 0]


@pytest.mark.parametrize("stop", [False, True])
def test_a_driver_beside_does_not_change_the_table(
    stop: bool, paths: list[str], store: Path, tmp_path: Path
) -> None:
    """Each resumes its own search, and the store keeps the state with most work."""
    alone, path, units = undisturbed(paths, store), tmp_path / "s.store", 0

    def disturb(_: FleetStanding) -> None:
        nonlocal units
        units += 1
        if units == len(paths):
            assert undisturbed(paths, path).rows() == alone.rows()
        if units == len(paths) + 1 and stop:
            raise KeyboardInterrupt

    fleet = tune(paths, path, settings=SETTINGS, jobs=0, on_progress=disturb)
    assert fleet.interrupted is stop
    resumed = undisturbed(paths, path)
    assert resumed.rows() == alone.rows()
    assert resumed.units == len(paths)
    assert [g.slices for g in resumed.graphs] == [g.slices for g in alone.graphs]
    if not stop:
        assert fleet.rows() == alone.rows()


def test_what_is_no_graph_in_a_folder_is_no_failure(tmp_path: Path) -> None:
    write_graph(diamond(), tmp_path / "diamond.json")
    graph = read_graph(tmp_path / "diamond.json")
    write_plan(solve(graph), tmp_path / "plan.json")
    (tmp_path / "cut.json").write_text("{")
    files = [str(tmp_path / f"{name}.json") for name in ("diamond", "plan", "cut")]
    fleet = tune(files, tmp_path / "s.store", work=1_000, jobs=0, named=[False] * 3)
    states = [FleetState.PROVED, FleetState.SKIPPED, FleetState.FAILED]
    assert [graph.state for graph in fleet.graphs] == states
    fleet = tune(files[:2], tmp_path / "s.store", work=1_000, jobs=0)
    assert [graph.state for graph in fleet.graphs] == [FleetState.PROVED, FleetState.FAILED]


def test_the_peak_may_be_what_is_asked_for(tmp_path: Path) -> None:
    settings = FleetSettings(work=1_000, objective=Objective.PEAK)
    (row,) = tune([diamond()], tmp_path / "s.store", settings=settings, jobs=0).graphs
    assert (row.state, row.peak, row.peak_bound) == (FleetState.PROVED, 18, 18)


def test_the_comparator_shows_the_fleet(paths: list[str], store: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    fleet = undisturbed([*paths, str(tmp_path / "bad.json")], store)
    study = fleet_study(fleet, store)
    assert len(study.comparisons) == len(paths)
    assert [row.path for row in study.skipped] == [str(tmp_path / "bad.json")]
    for graph, comparison in zip(fleet.graphs, study.comparisons, strict=False):
        ours = comparison.row("optsched")
        assert ours is not None
        assert (ours.slab, comparison.slab_bound) == (graph.slab, graph.slab_bound)
    assert study_csv(study).count("\n") == 2 * len(paths) + 2
    assert "diamond" in study_html(study)


def test_the_log_has_a_line_for_every_unit_and_a_live_line_says_the_sums(
    paths: list[str], tmp_path: Path
) -> None:
    told = []
    log = tmp_path / "log"
    fleet = tune(
        paths,
        tmp_path / "s.store",
        settings=replace(SETTINGS, work=500),
        jobs=0,
        log=log,
        on_progress=told.append,
    )
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["begin", *["unit"] * len(paths), "end"]
    assert [line.get("searched") for line in lines[1:-1]].count(True) == len(paths)
    assert len(told) == len(paths)
    assert told[-1].proved == fleet.count(FleetState.PROVED) == lines[-1]["proved"]
    assert told[-1].gap == fleet.totals()["gap"] > 0
    assert f"[{len(paths)}/{len(paths)} seen, {told[-1].proved} proved]" in standing_text(told[-1])
    assert json.loads(json.dumps(fleet_record(fleet)))["totals"] == fleet.totals()


def test_the_table_says_which_graphs_it_shows_and_names_a_failed_file_once(
    paths: list[str], store: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    fleet = undisturbed([*paths, str(bad)], store)
    said = {}
    for top in (0, 1, 3):
        out = io.StringIO()
        print_fleet(fleet, Console(file=out, width=200), top=top)
        said[top] = out.getvalue()
    assert "\nThe 1 graph of largest gap\n" in said[1]
    assert f"; {len(paths) - 3} graphs more: --top 0 prints them\n" in said[3]
    assert "more" not in said[0]
    assert "largest" not in said[0]
    assert all(text.count(str(bad)) == 1 for text in said.values())


def test_units_are_small_enough_to_travel() -> None:
    import pickle

    unit = Unit(0, "a.json", Limits(work=SETTINGS.work, seed=3))
    assert len(pickle.dumps(unit)) < 600


def test_one_graph_is_a_fleet(tmp_path: Path) -> None:
    fleet = tune(diamond(), tmp_path / "plans.store", work=WORK, jobs=0)
    path = tmp_path / "diamond.json"
    write_graph(diamond(), path)
    again = tune(str(path), tmp_path / "plans.store", work=WORK, jobs=0)
    assert slabs(fleet) == slabs(again) == {"diamond": 18}


def test_an_interrupted_unit_of_so_much_work_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What it had found by then would make the table one of the moment of the interrupt.
    from optsched.fleet import unit

    monkeypatch.setattr(
        unit,
        "solve",
        lambda *args, **options: replace(
            solve(*args, **options), stop_reason=StopReason.INTERRUPTED
        ),
    )
    graph, found = random_wiring(30, 5, unit=False), []
    for settings in (FleetSettings(work=10), FleetSettings(budget=1.0)):
        context = UnitContext(settings, str(tmp_path / "s.store"), code_digest())
        asked = Unit(0, graph, Limits(work=10), look=False)
        found.append(unit.work_on_unit(context, asked, lambda deadline: None))
    worked, timed = found
    assert (worked.slab, worked.prepared) == (None, None)
    assert timed.slab is not None
    assert timed.prepared is not None
