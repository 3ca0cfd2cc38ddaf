"""The study of heuristics: families, excess, results there and back, tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.heuristic_quality import tables
from experiments.heuristic_quality.__main__ import RESULTS, main, make_tables
from experiments.heuristic_quality.families import GENERATED, INSTANCES, family_of, files
from experiments.heuristic_quality.measure import (
    GraphFigures,
    excess,
    mean_excess,
    measure,
    read_found,
    write_found,
)
from heuristics import ORDERINGS, PACKINGS
from optsched.compare import OUR_METHOD
from optsched.formats import read_graph


def found(
    name: str = "g", family: str = "f", factor: int = 1, *, proved: bool = True
) -> GraphFigures:
    """A graph of least peak 10 and least slab 20; heuristics have `factor` times as much."""
    peaks = {OUR_METHOD: 10, **dict.fromkeys(ORDERINGS, 10 * factor)}
    slabs = {(s, p): (20 if s == OUR_METHOD else 20 * factor) for s in peaks for p in PACKINGS}
    return GraphFigures(name, family, 3, 10, 20, proved, peaks, slabs)


def test_files_fall_into_families() -> None:
    inductor = INSTANCES / "inductor"
    assert family_of(inductor / "albert_mlm_bs4_ac0.5.bwd.json.gz").endswith("checkpointed")
    assert family_of(inductor / "albert_mlm_bs4.fwd.json.gz") == "captured forward"
    assert family_of(INSTANCES / "small" / "chain.json") == "small"
    assert sum(len(makers) for makers in files().values()) > 90
    assert not set(files()) & set(GENERATED)


def test_means_are_geometric() -> None:
    assert mean_excess([1.0, 0.0, 0.0]) == pytest.approx(2 ** (1 / 3) - 1)
    assert (excess(15, 10), excess(0, 0)) == (0.5, 0)


def test_measure_a_small_graph() -> None:
    graph = read_graph(INSTANCES / "small" / "diamond.json")
    got = measure(graph, "small", 20.0)
    assert got.proved
    assert set(got.peaks) == {*ORDERINGS, OUR_METHOD}
    assert len(got.slabs) == (len(ORDERINGS) + 1) * len(PACKINGS)
    assert got.peaks[OUR_METHOD] == got.least_peak
    assert min(got.slabs.values()) >= got.least_slab >= got.least_peak


def test_results_are_read_as_written(tmp_path: Path) -> None:
    rows = [found(), found("h", factor=2, proved=False)]
    write_found(tmp_path / "results.csv", rows)
    assert list(read_found(tmp_path / "results.csv")) == rows


def test_tables_leave_out_what_is_not_proved_or_made_to_fail() -> None:
    rows = [found(), found("h", factor=2), found("i", factor=9, proved=False)]
    rows.append(found("j", "counterexamples", factor=3))
    texts = make_tables(rows)
    assert "3 of 4" in texts["graphs"]
    assert "i" in texts["graphs"].split("not ")[1]
    lpmf = next(line for line in texts["sorters"].splitlines() if "| lpmf |" in line)
    assert lpmf == "| lpmf | 41.4 | 200.0 | 41.4 | 100.0 | 50 |"
    naive = next(line for line in texts["packers"].splitlines() if "| naive |" in line)
    assert naive == "| naive | 0 | 0 | 0 | 0 | 100 |"
    assert len(tables.best_pairs(rows)) == 10


def test_committed_results_are_what_the_readme_shows() -> None:
    readme = (RESULTS.parent / "README.md").read_text()
    for text in make_tables(list(read_found(RESULTS))).values():
        assert text in readme


def test_unknown_family_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--families", "nothing"])
    assert "no family 'nothing'" in capsys.readouterr().err
