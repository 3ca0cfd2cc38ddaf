"""Many graphs: plug-ins that go wrong cost their own row, and the number of processes nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import heuristics
from optsched.compare import Failed, Study, StudySettings, Trouble, compare_files, parse_methods
from optsched.compare.study import Standing
from optsched.formats import write_graph
from optsched.runtime.limits import Limits
from tests.compare.rows import rows_without_times
from tests.support.commands import Cli
from tests.support.families.small import chain, diamond, two_towers

posix = pytest.mark.skipif(os.name != "posix", reason="a process kills itself by a POSIX signal")

PLUGINS = """
import os, signal, time
import numpy as np

def fine(graph, seed):
    return range(len(graph.ops))

def dying(graph, seed):
    os.kill(os.getpid(), signal.SIGKILL)

def hanging(graph, seed):
    time.sleep(600)

def backwards(graph, seed):
    return range(len(graph.ops))[::-1]

def crashing(problem):
    raise ZeroDivisionError("of zero")

def overlapping(problem):
    return np.zeros(len(problem), np.int64)

def leaving(source):
    os._exit(7)
"""


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    for graph in (chain(), diamond(), two_towers()):
        write_graph(graph, tmp_path / f"{graph.name}.json")
    return sorted(str(path) for path in tmp_path.glob("*.json"))


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that offers methods, most of them faulty; workers see it too."""
    (tmp_path / "their_methods.py").write_text(PLUGINS)
    found = tmp_path / "theirs-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    orderings = ["fine", "dying", "hanging", "backwards"]
    lines = ["[optsched.orderings]", *(f"{x} = their_methods:{x}" for x in orderings)]
    lines += ["missing = no_such_module:f", "[optsched.packings]"]
    lines += [f"{x} = their_methods:{x}" for x in ("crashing", "overlapping")]
    (found / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    before = dict(heuristics.ORDERINGS), dict(heuristics.PACKINGS)
    heuristics.load_plugins.cache_clear()
    yield
    for methods, kept in zip((heuristics.ORDERINGS, heuristics.PACKINGS), before, strict=True):
        methods.clear()
        methods.update(kept)
    heuristics.load_plugins.cache_clear()
    sys.modules.pop("their_methods", None)


@posix
@pytest.mark.usefixtures("plugins")
def test_plug_ins_that_go_wrong_cost_their_own_row(paths: list[str]) -> None:
    theirs = ["fine", "dying", "hanging", "backwards", "crashing", "overlapping"]
    methods = parse_methods([*theirs, "lpmf", "skyline"])
    settings = StudySettings(methods, Limits(seconds=0.5), grace=1.0)
    study = compare_files(paths[:1], settings)
    for comparison in study.comparisons:
        assert [row.method for row in comparison.rows] == ["fine", "lpmf", "skyline", "optsched"]
        assert {f.method: f.trouble for f in comparison.failed} == {
            "dying": Trouble.DIED,
            "hanging": Trouble.TIMED_OUT,
            "backwards": Trouble.REFUSED,
            "crashing": Trouble.FAILED,
            "overlapping": Trouble.REFUSED,
        }
        reasons = {f.method: f.reason for f in comparison.failed}
        assert "SIGKILL" in reasons["dying"]
        assert reasons["hanging"] == "not done long after its limit of 0.5 s"
        assert reasons["crashing"] == "ZeroDivisionError: of zero"


@pytest.mark.usefixtures("plugins")
def test_methods_of_installed_packages_are_known_to_the_command(paths: list[str], cli: Cli) -> None:
    out = cli("compare", paths[1], "--methods", "fine,fine+skyline,lpmf")
    assert "fine" in out
    assert "did you mean one of: fine" in cli.error("compare", paths[1], "--methods", "fone")


def test_a_process_that_ends_while_it_reads_costs_one_graph(
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_format.py").write_text(
        "import os\n"
        "from optsched.formats import register_format\n"
        "@register_format('theirs', lambda source: source.text.startswith('THEIRS'))\n"
        "def read(source):\n"
        "    os._exit(7)\n"
    )
    found = tmp_path / "theirs-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (found / "entry_points.txt").write_text("[optsched.formats]\ntheirs = their_format\n")
    # Workers have this process's path.
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bad.json").write_text("THEIRS")
    files = [str(tmp_path / "bad.json"), paths[0]]
    settings = StudySettings(parse_methods(["lpmf"]), Limits(seconds=10.0))
    study = compare_files(files, settings)
    assert [c.path for c in study.comparisons] == paths[:1]
    (skipped,) = study.skipped
    assert skipped.bad
    assert "exit code 7 while reading the graph" in skipped.reason


def test_the_number_of_processes_changes_nothing(paths: list[str]) -> None:
    methods = parse_methods(["bfs", "naive", "lpmf+naive", "recorded"])

    def study(jobs: int) -> Study:
        return compare_files(paths, StudySettings(methods, Limits(seconds=10.0), jobs=jobs))

    here, one, two = (study(jobs) for jobs in (0, 1, 2))
    assert rows_without_times(here) == rows_without_times(one) == rows_without_times(two)
    assert [c.path for c in two.comparisons] == paths
    assert [c.graph for c in two.comparisons] == [c.graph for c in here.comparisons]
    digests = {c.digest for c in two.comparisons}
    assert (len(digests), digests) == (3, {c.digest for c in here.comparisons})


def test_an_interrupt_in_this_process_keeps_what_is_there(paths: list[str]) -> None:
    def interrupt(standing: Standing) -> None:
        if standing.done == 1:
            raise KeyboardInterrupt

    settings = StudySettings(parse_methods(["lpmf"]), Limits(seconds=10.0), jobs=0)
    study = compare_files(paths, settings, on_progress=interrupt)
    assert study.interrupted
    assert [c.path for c in study.comparisons] == paths[:1]
    assert not any(isinstance(x, Failed) for c in study.comparisons for x in c.failed)
    assert all(skipped.cut_off for skipped in study.skipped)


def test_the_last_word_of_a_solver_is_where_it_ended(tmp_path: Path) -> None:
    """Events come at most ten times a second; a fast graph is done before the second."""
    write_graph(diamond(), tmp_path / "diamond.json")
    seen: list[Standing] = []
    settings = StudySettings(parse_methods(["lpmf"]), Limits(seconds=10.0), jobs=0)
    compare_files([str(tmp_path / "diamond.json")], settings, on_progress=seen.append)
    last = [x for x in seen if x.event is not None][-1]
    assert last.event is not None
    assert last.method == "optsched"
    assert (last.event.incumbent, last.event.bound, last.event.source) == (18, 18, "optimal")
