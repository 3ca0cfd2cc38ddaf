"""Upper limits in the commands: files keep them, answers name them, and what has none says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optsched import Graph, GraphBuilder, PackingProblem, pack, write_graph
from optsched.errors import FormatError
from optsched.formats import write_packing
from tests.support.commands import Cli


def fork() -> Graph:
    build = GraphBuilder("fork")
    build.op("other", writes={"c": 5})
    build.op("big", writes={"a": 9})
    build.op("sum", reads=["a"], writes={"b": 1})
    build.op("join", reads=["b", "c"], writes={"y": 1})
    build.output("y")
    return build.build()


def test_the_commands_keep_and_check_limits(tmp_path: Path, cli: Cli) -> None:
    graph, plan, packed = (tmp_path / name for name in ("g.json", "p.json", "t.json"))
    write_graph(fork(), graph)
    limits = ["--below", "c=5", "--below", "y=6"]
    cli("solve", graph, *limits, "-o", plan)
    cli("check", graph, plan, *limits)
    wanted = "plan has the memory model \"default; 'c' below 5, 'y' below 6\", the graph 'default'"
    assert wanted in cli.error("check", graph, plan, code=1)
    table = tmp_path / "t.csv"
    table.write_text("id,lower,upper,size\na,0,4,8\nb,2,6,4\nc,4,8,4\n")
    pack_low = ["pack", table, "--below", "b=4"]
    assert "among packings that keep b=4 as upper limits" in cli(*pack_low, "-o", packed)
    # The limit is in the file, and checked with it.
    cli("check", packed)
    document = json.loads(packed.read_text())
    document["buffers"][1]["offset"] = 8
    document["buffers"][0]["offset"] = 0
    packed.write_text(json.dumps(document))
    assert "'b' ends at 12, above its upper limit of 4" in cli.error("check", packed, code=1)
    for more, message in (
        (["-o", tmp_path / "t2.csv"], "CSV has no column for upper limits"),
        (["--pool", "fast=99"], "pools and upper limits exclude each other"),
        (["--capacity", "4"], "--below b=4 has no effect"),
        (["--align", "8"], "'b' of 8 bytes does not fit below 4"),
        (["--reserve", "0:4"], "8 bytes of one step must end at or below 4"),
        (["--below", "z=9"], "buffer 'z' is not in 't'"),
    ):
        assert message in cli.error(*pack_low, *more)
    with pytest.raises(FormatError, match="CSV has no column for upper limits"):
        write_packing(PackingProblem(size=[4], start=[0], end=[1], below=[4]), tmp_path / "u.csv")


NARROW = "id,lower,upper,size\na,0,4,6\nb,0,4,4\nc,2,6,5\nd,4,6,9\n"


@pytest.mark.parametrize(
    ("below", "lines"),
    [
        (
            ["a=6", "c=12"],
            ["does not fit in 16 bytes: at least 20 required, 4 too few, proved",
             "with upper limits (a below 6, c below 12): a 6, c 5"],
        ),
        (
            ["a=7", "c=5"],
            ["impossible", "does not fit in 16 bytes or in any other number, proved",
             "with upper limits (c below 5, a below 7): a 6, c 5"],
        ),
        # Too many bytes are live with any limits.
        (["a=9", "c=13", "--capacity=14"], ["live at step 2: a 6, c 5, b 4"]),
    ],
)  # fmt: skip
def test_limits_are_the_reason_where_live_bytes_are_not(
    below: list[str], lines: list[str], tmp_path: Path, cli: Cli
) -> None:
    table = tmp_path / "t.csv"
    table.write_text(NARROW)
    words = [f"--below={x}" if x[0] != "-" else x for x in below]
    text = cli("pack", table, "--capacity", "16", *words, code=4)
    assert [line for line in lines if line not in text] == []


def test_buffers_kept_apart_are_a_reason_before_limits() -> None:
    apart = PackingProblem(
        names=["a", "b"],
        size=[6, 5],
        start=[0, 2],
        end=[2, 4],
        keep_apart=[("a", "b")],
        below=[9, 99],
        capacity=10,
    )
    assert "pairwise kept apart: a 6, b 5" in pack(apart).summary()


def test_a_file_without_limits_is_refused_before_the_search(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("optsched.solver.pack.pack")
    (tmp_path / "t.csv").write_text(NARROW)
    words = ["pack", tmp_path / "t.csv", "--below", "d=9", "-o", tmp_path / "u.csv"]
    assert "u.csv: CSV has no column for upper limits: write a .json file" in cli.error(*words)
