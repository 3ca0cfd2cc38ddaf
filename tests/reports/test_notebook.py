"""Results show themselves: text, HTML, pictures, files and data frames agree with their numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from optsched import (
    PackingProblem,
    check_packing,
    compare_methods,
    pack,
    read_packing,
    read_plan,
    solve,
)
from optsched.errors import MissingDependencyError, UsageError
from tests.support.families.small import chain, diamond

PROBLEM = PackingProblem(size=[8, 4, 8, 4], start=[0, 0, 2, 1], end=[2, 4, 4, 3])
MADE = {
    "result": lambda: solve(diamond()),
    "packing": lambda: pack(PROBLEM),
    "comparison": lambda: compare_methods(diamond(), methods="lpmf,greedy_by_size"),
    "study": lambda: compare_methods([diamond(), chain()], methods="lpmf"),
}


@pytest.mark.parametrize("name", MADE)
def test_summary_and_html_have_the_saving(name: str) -> None:
    found: Any = MADE[name]()
    first = found.summary().splitlines()[0]
    assert " bytes" in first
    html = found._repr_html_()
    assert "<style>" in html
    assert "<script" not in html
    if name != "study":
        assert html.count("<rect") > 1
        assert "address (B)" in html
        assert ">step<" in html


def test_html_is_safe() -> None:
    problem = PackingProblem(size=[1], start=[0], end=[1], names=["<script>"])
    assert "<script" not in pack(problem)._repr_html_()


def test_files_are_read_back(tmp_path: Path) -> None:
    result = solve(diamond())
    result.save(tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json", diamond()) == result.plan
    packed = pack(PROBLEM)
    packed.save(tmp_path / "packing.csv")
    offsets = read_packing(tmp_path / "packing.csv").offsets
    assert check_packing(PROBLEM, offsets.tolist()) == packed.slab
    for ending in (".html", ".csv", ".md", ".json"):
        MADE["study"]().save(tmp_path / f"study{ending}")
        assert (tmp_path / f"study{ending}").stat().st_size > 100


def test_an_unknown_ending_names_those_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a Result is saved as .json, .html, .png, .svg"):
        solve(diamond()).save(tmp_path / "plan.txt")
    assert not list(tmp_path.iterdir())


def test_a_data_frame_has_every_buffer() -> None:
    pytest.importorskip("pandas", reason="needs the extra `report`")
    result = solve(diamond())
    frame = result.to_dataframe()
    assert dict(zip(frame.buffer, frame.offset, strict=True)) == result.offsets
    assert (frame.offset + frame.bytes).max() == result.slab
    assert len(MADE["study"]().to_dataframe()) == 4


@pytest.mark.parametrize("name", MADE)
def test_a_plot_has_a_picture_of_its_own(name: str) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `report`")
    # A fresh kernel has no hook of Matplotlib's: IPython then asks the object itself.
    assert MADE[name]().plot()._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", MADE)
def test_plots_are_figures(name: str) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `report`")
    assert MADE[name]().plot().axes


@pytest.mark.parametrize(("call", "package"), [("plot", "matplotlib"), ("to_dataframe", "pandas")])
def test_a_missing_package_is_one_line(
    call: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (package, f"{package}.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=rf"{package} is not installed; run: pip"):
        getattr(solve(diamond()), call)()
