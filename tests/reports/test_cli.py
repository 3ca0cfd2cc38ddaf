"""`optsched report` as a user meets it: files written, wrong input refused in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from optsched.cli import main
from optsched.formats import write_graph, write_plan
from tests.reports.conftest import naive_plan
from tests.support.commands import Cli
from tests.support.families.small import diamond

EXTRA = pytest.mark.usefixtures("extra")


@pytest.fixture
def extra() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `report`")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A graph and a plan that uses no byte twice."""
    graph, plan = tmp_path / "diamond.json", tmp_path / "before.json"
    write_graph(diamond(), graph)
    write_plan(naive_plan(diamond()), plan, diamond())
    return str(graph), str(plan)


def refused(args: list[str], cli: Cli) -> str:
    """The one line that says why the command does not run."""
    printed = cli.both("report", *args, code=2)
    assert printed.out == ""
    assert printed.err.startswith("optsched: error: ")
    assert printed.err.count("\n") == 1
    return printed.err


@EXTRA
def test_all_outputs_at_once(files: tuple[str, str], tmp_path: Path, cli: Cli) -> None:
    outputs = {name: str(tmp_path / f"out.{name}") for name in ("report", "png", "svg", "trace")}
    options = [x for name, path in outputs.items() for x in (f"--{name}", path)]
    options[0] = "--output"
    record = cli.json("report", *files, "--best", "--methods", "bfs", *options)
    assert record["files"] == outputs
    assert [(p["peak"], p["slab"]) for p in record["plans"]] == [(20, 24), (18, 18)]
    assert (record["peak_bound"], record["slab_bound"]) == (18, 18)
    assert record["memory_model"] == "default"
    page = (tmp_path / "out.report").read_text("utf-8")
    assert "best plan found" in page
    assert "bfs" in page
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "out.svg").read_text("utf-8")
    assert json.loads((tmp_path / "out.trace").read_text("utf-8"))["traceEvents"]


@EXTRA
def test_the_ending_decides_the_kind_of_report(files: tuple[str, str], tmp_path: Path) -> None:
    starts = {"r.png": b"\x89PNG", "r.pdf": b"%PDF", "r.svg": b"<?xml", "r.html": b"<!", "r": b"<!"}
    for name, start in starts.items():
        path = tmp_path / name
        assert main(["report", *files, "-o", str(path)]) == 0
        assert path.read_bytes().startswith(start), name


def test_an_ending_of_another_kind_is_refused(
    files: tuple[str, str], tmp_path: Path, cli: Cli
) -> None:
    path = str(tmp_path / "r.html")
    assert f"{path}: --png does not write this kind of file; use -o" in cli.error(
        "report", *files, "--png", path
    )
    assert not Path(path).exists()
    path = str(tmp_path / "r.onnx")
    assert f"{path}: optsched-graph is written to a file that ends in .json" in (
        cli.error("convert", files[0], "-o", path)
    )
    assert not Path(path).exists()


@EXTRA
def test_a_plan_file_tells_how_it_was_found(files: tuple[str, str], tmp_path: Path) -> None:
    plan, page = str(tmp_path / "kept.json"), tmp_path / "page.html"
    assert main(["solve", files[0], "--keep-trace", "-o", plan]) == 0
    assert main(["report", files[0], plan, "-o", str(page)]) == 0
    assert f"How the search for {plan} went" in page.read_text("utf-8")


def test_packings_of_given_live_ranges_are_shown(tmp_path: Path, cli: Cli) -> None:
    plain, placed, pooled = tmp_path / "plain.csv", tmp_path / "placed.csv", tmp_path / "pools.csv"
    plain.write_text("id,lower,upper,size\na,0,4,8\nb,2,6,4\nc,4,7,4\n")
    placed.write_text("id,lower,upper,size,offset\na,0,4,8,0\nb,2,6,4,8\nc,4,7,4,12\n")
    pooled.write_text("id,lower,upper,size,pool\na,0,4,8,x\nb,2,6,4,y\nc,3,7,4,x\n")
    trace = ["--trace", str(tmp_path / "trace.json")]
    for files, slabs in (
        ([plain], {"optsched": 12}),
        ([placed, "--best"], {str(placed): 16, "best packing found": 12}),
        ([plain, placed], {str(placed): 16}),
        ([pooled], {"optsched": 16}),
    ):
        record = cli.json("report", *map(str, files), *trace)
        assert {plan["name"]: plan["slab"] for plan in record["plans"]} == slabs
        assert record["slab_bound"] == (16 if files == [pooled] else 12)
    names = {e["name"] for e in json.loads(Path(trace[1]).read_text("utf-8"))["traceEvents"]}
    assert {"a", "b", "c", "live bytes"} <= names
    assert "not the live ranges" in refused([str(plain), str(pooled), *trace], cli)
    assert "live ranges" in refused([str(plain), *trace, "--methods", "bfs"], cli)
    assert "offset" in refused([str(placed), str(plain), *trace], cli)


def test_a_page_and_a_trace_need_no_extra(
    files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out, page = tmp_path / "trace.json", tmp_path / "page.html"
    assert main(["report", files[0], "--trace", str(out), "-o", str(page)]) == 0
    assert json.loads(out.read_text("utf-8"))["traceEvents"]
    assert "<svg" in page.read_text("utf-8")


@pytest.mark.parametrize("option", ["--png", "--svg"])
def test_a_missing_package_names_the_extra(
    option: str,
    files: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: Cli,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = refused([files[0], option, str(tmp_path / "out")], cli)
    assert "matplotlib is not installed; run: pip install " in line


def test_wrong_plans_are_refused(files: tuple[str, str], tmp_path: Path, cli: Cli) -> None:
    out = str(tmp_path / "trace.json")
    plan = json.loads(Path(files[1]).read_text("utf-8"))
    bad = tmp_path / "bad.json"
    for change, words in (
        ({"slab": 23}, "claims a slab of 23 bytes, the replay gives 24"),
        ({"offsets": dict.fromkeys(plan["offsets"], 0), "slab": 8}, "overlap"),
        ({"order": plan["order"][::-1]}, "which it needs"),
        ({"inplace": True}, "show it with --inplace"),
    ):
        bad.write_text(json.dumps({**plan, **change}), "utf-8")
        line = refused([files[0], str(bad), "--trace", out], cli)
        assert str(bad) in line
        assert words in line
    assert not Path(out).exists()


def test_a_plan_needs_its_graph(files: tuple[str, str], tmp_path: Path, cli: Cli) -> None:
    out = ["--trace", str(tmp_path / "trace.json")]
    assert "give its graph first" in refused([files[1], *out], cli)
    assert "got a graph" in refused([files[0], files[0], *out], cli)
    assert "nothing to write" in refused([files[0]], cli)


def test_nothing_is_overwritten(files: tuple[str, str], tmp_path: Path, cli: Cli) -> None:
    before = [Path(path).read_bytes() for path in files]
    for path in files:
        line = refused([*files, "--trace", path], cli)
        assert "would overwrite an input" in line
    twice = str(tmp_path / "x")
    assert "two outputs name the same file" in refused(
        [*files, "--trace", twice, "--png", f"{tmp_path}/./x"], cli
    )
    assert [Path(path).read_bytes() for path in files] == before


def test_no_time_and_no_plan(
    files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from optsched.solver import pipeline

    real = pipeline.solve

    def nothing(*args: Any, **options: Any) -> Any:
        return replace(real(*args, **options), plan=None, peak=None, slab=None)

    monkeypatch.setattr(pipeline, "solve", nothing)
    out = tmp_path / "trace.json"
    assert main(["report", files[0], "--trace", str(out)]) == 5
    assert not out.exists()
    assert main(["report", *files, "--trace", str(out)]) == 0
