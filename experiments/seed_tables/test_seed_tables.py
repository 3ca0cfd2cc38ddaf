"""The tables' code on one small shipped graph, and the first version's estimator by hand."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments.seed_tables.__main__ import RESULTS, main
from experiments.seed_tables.first_version import first_choice, first_graph, first_lpmf
from experiments.seed_tables.measure import METHODS, SeedRow, measure
from experiments.seed_tables.setups import PUBLISHED, SeedSetup, all_setups
from experiments.seed_tables.tables import TABLES, changed
from experiments.tables import read_rows, replace_table, write_rows
from heuristics import ORDERINGS
from optsched.errors import OptschedError
from optsched.formats.inductor import read_inductor
from optsched.model.builder import GraphBuilder
from optsched.model.liveness import inductor_2025_09_peak, peak_memory

INSTANCES = Path(__file__).parents[2] / "instances" / "inductor"
SETUP = SeedSetup("alexnet_bs128", "train", None, False)


def shipped(name: str) -> dict[str, Any]:
    """Return a shipped capture, with what the first version saw as if it saw no more than we."""
    document: dict[str, Any] = json.loads(
        gzip.decompress((INSTANCES / f"{name}.json.gz").read_bytes())
    )
    deps = {buffer["name"]: buffer["deps"] for buffer in document["buffers"]}
    reads = [sorted({d for b in n["buffer_names"] for d in deps[b]}) for n in document["nodes"]]
    sizes = {b["name"]: b["size_free"] for b in document["buffers"] if b["is_input"]}
    document["extra"].update(all_reads=reads, read_bytes=sizes, renamed_bytes={})
    return document


def tiny(**extra: object) -> dict[str, Any]:
    """`a` reads the weights and makes x; `b` overwrites x as x2; `c` reads x2 and a tangent."""

    def row(name: str, size: int, deps: list[str], *, is_output: bool = False) -> dict[str, Any]:
        return {
            "name": name,
            "size_alloc": size,
            "size_free": size,
            "is_input": False,
            "is_output": is_output,
            "deps": deps,
        }

    names = {"a": "x", "b": "x2", "c": "y"}
    facts: Mapping[str, Any] = {
        "graph_outputs": ["y"],
        "all_reads": [["primals_1"], ["x"], ["tangents_1", "x2"]],
        "read_bytes": {"primals_1": 100, "tangents_1": 3},
        "renamed_bytes": {"x2": 8},
    }
    return {
        "nodes": [{"name": op, "buffer_names": [made]} for op, made in names.items()],
        "buffers": [row("x", 8, []), row("x2", 0, ["x"]), row("y", 5, ["x", "x2"], is_output=True)],
        "extra": {**facts, **extra},
    }


def test_the_first_version_counts_renamed_buffers_and_tangents() -> None:
    graph = first_graph(tiny())
    assert {b.name: b.size for b in graph.buffers} == {"tangents_1": 3, "x": 8, "x2": 8, "y": 5}
    # x, its new name and the tangent, while `b` runs; today: x and y, while `c` runs.
    assert peak_memory(graph, [0, 1, 2]) == 3 + 8 + 8
    assert peak_memory(read_inductor(tiny()), [0, 1, 2]) == 8 + 5
    apart = first_graph(tiny(renamed_bytes={}, read_bytes={}))
    assert peak_memory(apart, [0, 1, 2]) == 8


def test_where_it_saw_what_today_sees_the_estimates_agree() -> None:
    document = shipped("alexnet_bs128.bwd")
    graph, first = read_inductor(document), first_graph(document)
    for order in document["extra"]["orders"].values():
        assert peak_memory(first, order) == peak_memory(graph, order)
    peaks, chosen, order = first_choice(first)
    assert tuple(peaks) == METHODS
    assert peaks[chosen] == min(peaks.values()) == peak_memory(first, order)


def test_the_slip_of_the_first_lpmf() -> None:
    build = GraphBuilder()
    build.op("a", writes={"a": 1})
    build.op("b", reads=["a"], writes={"b": 1})
    build.op("c", reads=["b"], writes={"c": 2})
    build.op("d", writes={"d": 1})
    build.output("c", "d")
    graph = build.build()
    # After `b`, 1 byte is live and `c` fits below the 3 bytes of the outputs. The first version
    # takes off what `d`, listed last, would free: nothing. With 2 bytes live only `d` fits.
    assert ORDERINGS["lpmf"](graph, 0).tolist() == [0, 1, 2, 3]
    assert first_lpmf(graph).tolist() == [0, 1, 3, 2]
    document = shipped("alexnet_bs128.bwd")
    assert sorted(first_lpmf(first_graph(document))) == list(range(len(document["nodes"])))


def test_outputs_never_change_the_choice_of_september_2025() -> None:
    document = shipped("alexnet_bs128.fwd")
    graph = read_inductor(document)
    outputs = sum(b["size_free"] for b in document["buffers"] if b["is_output"])
    for method in METHODS:
        order = document["extra"]["orders"][method]
        assert inductor_2025_09_peak(graph, order) == document["extra"]["peaks"][method] - outputs


@pytest.fixture(scope="module")
def row() -> SeedRow:
    return measure(SETUP, "alexnet_bs128.fwd", shipped("alexnet_bs128.fwd"), seconds=20)


def test_row_of_a_shipped_graph(row: SeedRow) -> None:
    assert (row.baseline, row.lpmf, row.bfs, row.dfs) == (
        408_977_160,
        269_232_912,
        312_371_984,
        408_977_160,
    )
    assert (row.chosen, row.choice) == ("lpmf", row.lpmf)
    assert row.least == row.bound == row.slab == row.slab_bound <= row.choice
    assert (row.proof, row.slab_proof) == ("L3", "L5")
    assert (row.old_chosen, row.first_chosen, row.first_choice) == ("lpmf", "lpmf", row.choice)


def test_a_peak_that_is_not_that_of_its_order_is_refused() -> None:
    document = shipped("alexnet_bs128.fwd")
    document["extra"]["peaks"]["bfs"] += 1
    with pytest.raises(OptschedError, match="peak of bfs"):
        measure(SETUP, "alexnet_bs128.fwd", document, seconds=1)


def test_rows_survive_the_file(row: SeedRow, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv", [row, row])
    assert read_rows(tmp_path / "rows.csv", SeedRow) == [row, row]


def test_tables_name_the_row(row: SeedRow) -> None:
    for name in ("peaks-cpu", "estimators"):
        lines = TABLES[name]([row]).splitlines()
        assert lines[-1].startswith("| alexnet_bs128.fwd | ")
        assert len({line.count("|") for line in lines}) == 1
    assert "| lpmf 269.2 |" in TABLES["peaks-cpu"]([row])
    assert changed([row]) == "None.\n"
    other = dataclasses.replace(row, first_chosen="dfs", first_choice=row.dfs)
    assert changed([other]).splitlines()[-1].endswith("| 51.90 |")


def test_replacing_a_table(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- t: begin -->\nold\n<!-- t: end -->\nafter\n")
    replace_table(readme, "t", "new\n")
    assert readme.read_text() == "before\n<!-- t: begin -->\nnew\n<!-- t: end -->\nafter\n"


def test_written_results_are_whole_and_proved_numbers_consistent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = read_rows(RESULTS, SeedRow)
    assert {r.graph for r in rows} == {
        name.removesuffix(".json.gz") for setup in all_setups() for name in setup.files
    }
    assert {r.model for r in rows} == set(PUBLISHED)
    for r in rows:
        assert r.bound <= r.least <= r.slab
        assert r.least <= r.choice == min(getattr(r, method) for method in METHODS)
        assert (r.proof != "") == (r.bound == r.least)
        # The estimator of September 2025 is off by the outputs, the same for every order.
        assert r.ordering_only == 0
        assert len({getattr(r, m) - getattr(r, f"old_{m}") for m in METHODS}) == 1
    main(["--table", "summary"])
    assert f"| all | {len(rows)} |" in capsys.readouterr().out


def test_results_agree_with_the_shipped_captures() -> None:
    with RESULTS.open(newline="") as file:
        rows = {entry["graph"]: entry for entry in csv.DictReader(file)}
    for name in rows:
        path = INSTANCES / f"{name}.json.gz"
        if path.exists():
            peaks = json.loads(gzip.decompress(path.read_bytes()))["extra"]["peaks"]
            assert {m: str(peaks[m]) for m in METHODS} == {m: rows[name][m] for m in METHODS}
