"""Commands on captured graphs with the parts of fused nodes."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optsched.cli import main
from optsched.formats.fused import fused_document, read_fused, read_fused_document
from optsched.model.fusion import whole_split
from tests.support.brute_fusion import least_peak, random_stages
from tests.support.commands import Cli

CAPTURED = Path(__file__).parents[1] / "data" / "fused" / "shared.bwd.json.gz"
LIMIT = ("--time-limit", "300")


def test_a_split_is_found_proved_and_checked(tmp_path: Path, cli: Cli) -> None:
    split, proof = tmp_path / "split.json", tmp_path / "proof.json"
    page = tmp_path / "front.html"
    given = [str(CAPTURED), "--unfuse", "-o", str(split), "--certificate", str(proof), *LIMIT]
    given += ["--page", str(page)]
    said = cli("solve", *given)
    assert "all fused:  peak 4,371,456 bytes, 69 kernels" in said
    assert "best split: peak 3,107,072 bytes (-29 %), no split needs less" in said
    out = cli("check", CAPTURED, split, proof)
    assert "no split below 3,107,072 bytes" in out
    # The first line of both commands: the saving, and the plans that the proof is about.
    first = "peak 4,371,456 -> 3,107,072 bytes (-29 %) against all nodes fused; smallest possible"
    assert out.startswith(f"{first} among splits of the fused nodes, proved\n")
    assert said.startswith(out.splitlines()[0])
    drawn = page.read_text()
    assert drawn.count("<circle") == len(json.loads(split.read_text())["front"])
    assert "3,107,072" in drawn
    assert "all fused</text>" in drawn
    assert 'stroke-dasharray="4 4"' in drawn
    assert f"<b>{out.splitlines()[0].replace('>', '&gt;')}</b>" in drawn
    # Text in the color of the page, so that it can be read on a dark one.
    assert 'fill="currentColor"' in drawn
    written = json.loads(split.read_text())
    for what in ("peak", "kernels", "traffic"):
        stated = written["best_split"] | {what: written["best_split"][what] - 1}
        split.write_text(json.dumps(written | {"best_split": stated}))
        assert f"states {what} " in cli.error("check", CAPTURED, split, code=1)
    apart = written | {"all_fused": written["best_split"]}
    split.write_text(json.dumps(apart))
    assert "states all nodes fused, but the node of part" in cli.error(
        "check", CAPTURED, split, code=1
    )
    written["best_split"]["groups"][0].append(written["best_split"]["groups"].pop()[0])
    split.write_text(json.dumps(written))
    assert main(["check", str(CAPTURED), str(split)]) == 1
    claimed = json.loads(proof.read_text())
    claimed["bound"] += 1
    proof.write_text(json.dumps(claimed))
    assert main(["check", str(CAPTURED), str(split), str(proof)]) == 1


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("nodes", [["buf0", "nothing"]], "unknown part"),
        ("local", ["nothing"], "unknown buffer"),
        ("reads", [3], "must be lists"),
        ("absorbed", [["buf0"]], "expected two buffers"),
        ("surplus", 1, "surplus"),
        ("nodes", [["op0"]], "needs at least two parts"),
        ("nodes", 3, "nodes"),
        ("local", ["buf0", 7], "local"),
        ("blockers", [["buf0"]], "expected op, output, input and parts"),
        ("reads", [[["buf0", True]]], "expected bytes"),
        ("whole", {"op": 3}, "op"),
        ("graph", [], "graph"),
    ],
)
def test_bad_parts_are_one_line(
    field: str,
    value: Any,
    message: str,
    tmp_path: Path,
    cli: Cli,
) -> None:
    document = json.loads(gzip.decompress(CAPTURED.read_bytes()))
    document["extra"]["fusion"][field] = value
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    error = cli.error("solve", path, "--unfuse")
    assert message in error
    assert error.count("\n") == 1


def test_files_without_parts_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    document = json.loads(gzip.decompress(CAPTURED.read_bytes()))
    del document["extra"]["fusion"]
    path = tmp_path / "plain.json"
    path.write_text(json.dumps(document))
    assert "does not list the parts of fused nodes" in cli.error("solve", path, "--unfuse")
    assert "no option '--split': did you mean '--unfuse'?" in cli.error(
        "solve", CAPTURED, "--split"
    )
    assert "--unfuse excludes --capacity" in cli.error(
        "solve", CAPTURED, "--unfuse", "--capacity", "9"
    )
    assert main(["solve", str(CAPTURED), "--unfuse", "--objective", "slab"]) == 2
    error = "optsched: error: --unfuse lowers the peak: it excludes --objective slab\n"
    assert capsys.readouterr().err == error
    assert "--page draws the front of --unfuse" in cli.error(
        "solve", CAPTURED, "--page", tmp_path / "page.html"
    )


def test_parts_are_read_as_written() -> None:
    fused = read_fused(CAPTURED)
    assert read_fused_document(fused_document(fused)) == fused


def test_groups_of_a_damaged_split_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "split.json"
    for groups in ([[]], [["op0"], []], [[3]], [None], "op0", [["nothing"]]):
        path.write_text(
            json.dumps({"format": "optsched-split/1", "best_split": {"groups": groups}})
        )
        assert main(["check", str(CAPTURED), str(path)]) in (1, 2)
        error = capsys.readouterr().err
        assert error.count("\n") == 1, (groups, error)


def test_a_table_of_splits_keeps_its_rows_and_refuses_what_it_ignores(
    tmp_path: Path, cli: Cli
) -> None:
    folder, rows, page = tmp_path / "graphs", tmp_path / "rows.csv", tmp_path / "rows.md"
    folder.mkdir()
    plain = folder / "a.json"
    plain.write_text('{"format": "optsched-graph/1", "ops": [], "buffers": []}')
    copy = folder / CAPTURED.name
    copy.write_bytes(CAPTURED.read_bytes())
    table = ["compare", "--unfuse", *LIMIT]
    printed = cli.both(*table, folder, "--csv", rows, "--markdown", page)
    assert "passed over" in printed.err
    assert printed.out.startswith("peak 4,371,456 -> 3,107,072 bytes (-29 %) against all nodes")
    assert "all fused" in printed.out
    written = list(csv.DictReader(rows.open()))
    assert [(row["all_fused"], row["best_split"], row["proved"]) for row in written] == [
        ("4371456", "3107072", "yes")
    ]
    assert "best split" in page.read_text()
    assert cli.error(*table, plain).count("\n") == 1
    for option in (["--methods", "lpmf"], ["--report", "page.html"], ["--align", "8"]):
        assert f"--unfuse excludes {option[0]}" in cli.error("compare", "--unfuse", copy, *option)


def test_whole_nodes_have_the_best_order_known_also_without_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    # Without a saving the first order was kept: 35 bytes in solve, and 32 in check.
    path, plan = str(tmp_path / "graph.json"), str(tmp_path / "plan.json")
    for number in range(12):
        fused = random_stages(np.random.default_rng([21, number]))
        document = {"extra": {"fusion": fused_document(fused)}, "nodes": [], "buffers": []}
        Path(path).write_text(json.dumps(document))
        solved = ["solve", path, "--unfuse", "--time-limit", "0", "-o", plan, "--json"]
        assert main(solved) in (0, 3)
        said = json.loads(capsys.readouterr().out)["saving"]
        assert said["before"] == least_peak(fused, whole_split(fused))
        checked = cli.json("check", path, plan)["saving"]
        assert (checked["before"], checked["after"]) == (said["before"], said["after"])
