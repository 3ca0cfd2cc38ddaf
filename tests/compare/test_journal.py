"""The journal: what is in it is not done again, and nothing in it is believed that is damaged."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optsched.compare import Journal, Study, StudySettings, compare_files, parse_methods
from optsched.compare.journal import keys_of
from optsched.compare.methods import Kind, with_reference
from optsched.compare.rows import Failed, Measured, Trouble
from optsched.compare.task import GraphTask
from optsched.errors import UsageError
from optsched.formats import write_graph
from optsched.formats.reading import GraphReading
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from tests.compare.rows import rows_without_times
from tests.support.families.small import aligned, chain, diamond

SETTINGS = StudySettings(parse_methods(["bfs", "naive", "skyline"]), Limits(seconds=10.0), jobs=0)
METHODS = 4


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    for graph in (chain(), diamond(), aligned()):
        write_graph(graph, tmp_path / f"{graph.name}.json")
    return sorted(str(path) for path in tmp_path.glob("*.json"))


def study(
    paths: list[str], journal: Path, settings: StudySettings = SETTINGS
) -> tuple[Study, Journal]:
    with Journal(journal) as kept:
        return compare_files(paths, settings, journal=kept), kept


def test_a_rerun_measures_nothing_again(paths: list[str], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first, _ = study(paths, path)
    size = path.stat().st_size
    again, _ = study(paths, path)
    assert (first.reused, again.reused) == (0, METHODS * 3)
    assert path.stat().st_size == size
    # Even the seconds are those of the first run, and our own results whole, with plan and trace.
    assert again.comparisons == first.comparisons


def test_a_plan_keeps_its_pools(tmp_path: Path) -> None:
    graph = diamond()
    solved = solve(graph)
    assert solved.plan is not None
    plan = replace(solved.plan, pools=("fast",) * len(graph.buffers))
    row = Measured("optsched", Kind.PLAN, 1, 1, 0.0, replace(solved, plan=plan), plan.order)
    path = tmp_path / "journal"
    with Journal(path) as kept:
        kept.put("key", "diamond", row)
    with Journal(path) as kept:
        assert kept.get("key") == row


def test_it_goes_on_after_a_line_that_was_cut_off(paths: list[str], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first, _ = study(paths, path)
    whole = path.read_bytes()
    last = len(whole) - whole.rindex(b"\n", 0, -1) - 1
    for cut in (1, 40, last - 1):
        path.write_bytes(whole[:-cut])
        again, kept = study(paths, path)
        lost = 0 if cut == 1 else 1
        assert (again.reused, kept.damaged) == (METHODS * 3 - lost, lost)
        assert rows_without_times(again) == rows_without_times(first)
        # The line that was cut off stays; the repeated row is on a line of its own.
        assert path.read_bytes().startswith(whole[:-cut] + b"\n")
        assert study(paths, path)[0].reused == METHODS * 3


def test_a_changed_number_is_noticed(paths: list[str], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first, _ = study(paths, path)
    lines = path.read_text().splitlines()
    record = json.loads(lines[2])
    record["slab"] -= 1
    path.write_text("\n".join([*lines[:2], json.dumps(record), *lines[3:]]) + "\n")
    again, kept = study(paths, path)
    assert kept.damaged == 1
    assert rows_without_times(again) == rows_without_times(first)


def test_packings_go_with_the_order_they_were_given(paths: list[str], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    study(paths, path)
    lines = path.read_text().splitlines()
    kept = [line for line in lines if '"method":"optsched"' not in line]
    path.write_text("\n".join(kept) + "\n")
    # Without our own result two packings a graph are measured again with it.
    assert study(paths, path)[0].reused == 3


def test_keys_tell_apart_what_may_differ(paths: list[str]) -> None:
    methods, reference = with_reference(SETTINGS.methods)
    one = StudySettings(SETTINGS.methods, Limits(seconds=1.0))
    base = GraphTask(0, paths[0], methods, reference, one)
    changes: list[dict[str, Any]] = [
        {"limits": Limits(seconds=2.0)},
        {"limits": Limits(seconds=1.0, seed=1)},
        {"limits": Limits(work=1000)},
        {"reading": GraphReading(inplace=True)},
        {"reading": GraphReading(input_bytes="true")},
    ]
    tasks = [base, replace(base, path=paths[1])]
    tasks += [replace(base, settings=replace(one, **change)) for change in changes]
    keys = [key for task in tasks for key in keys_of(task).values()]
    assert len(set(keys)) == len(tasks) * METHODS
    same = replace(base, number=9, settings=replace(one, jobs=7))
    assert keys_of(base) == keys_of(same)


def test_a_compressed_journal_is_not_appended_to_as_text(paths: list[str], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    study(paths, path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(UsageError, match="journal is compressed; decompress it first"):
        Journal(path)
    assert path.read_bytes() == before


def test_a_header_that_was_cut_off_is_mended(paths: list[str], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path):
        header = path.read_bytes()
    for length in range(len(header)):
        path.write_bytes(header[:length])
        with Journal(path):
            assert path.read_bytes() == header
    path.write_bytes(header[:-1])
    study(paths, path)
    assert study(paths, path)[0].reused == METHODS * 3


def test_a_full_disk_ends_the_journal_and_not_the_run(paths: list[str], tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "journal"
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most))
    try:
        found, kept = study(paths, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert len(found.comparisons) == 3
    assert kept.trouble == f"{path}: cannot write the journal: no space left on device"
    assert path.stat().st_size == 1000
    # The next run continues after the line that was cut off.
    assert 0 < study(paths, path)[0].reused < METHODS * 3
    assert study(paths, path)[0].reused == METHODS * 3


def test_another_file_is_left_as_it_is(paths: list[str]) -> None:
    before = Path(paths[0]).read_bytes()
    with pytest.raises(UsageError, match="not an optsched journal"):
        Journal(paths[0])
    assert Path(paths[0]).read_bytes() == before


def test_failures_are_kept_unless_they_are_to_be_tried_again(tmp_path: Path) -> None:
    path, kind = tmp_path / "journal", SETTINGS.methods[0].kind
    lost = Failed("bfs", kind, Trouble.DIED, "gone", 1.5)
    cut = Failed("dfs", kind, Trouble.INTERRUPTED, "cut")
    fine = Measured("lpmf", kind, 3, 4, 0.5, order=(1, 0))
    with Journal(path) as journal:
        for key, outcome in (("a", lost), ("b", cut), ("c", fine)):
            journal.put(key, "g.json", outcome)
    with Journal(path) as journal:
        assert [journal.get(key) for key in "abc"] == [lost, None, fine]
    with Journal(path, retry=True) as journal:
        assert [journal.get(key) for key in "abc"] == [None, None, fine]
