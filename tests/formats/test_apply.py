"""`apply` and `export`: a plan back into a model file, and out in plain forms."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optsched import (
    GraphBuilder,
    apply_plan,
    export_plan,
    live_ranges,
    pack,
    read_graph,
    read_packing,
    register_format,
    solve,
    write_graph,
    write_plan,
)
from optsched.check.packing import check_packing
from optsched.cli import main
from optsched.cli.folders import graph_files
from optsched.compare import StudySettings, compare_files, parse_methods
from optsched.errors import FormatError, GraphError, MissingDependencyError, PlanError, UsageError
from optsched.formats import FORMATS, Source
from optsched.formats.export import EXPORTS
from optsched.formats.format import Content, Format
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan
from optsched.solver.result import Result
from tests.support.commands import Cli
from tests.support.generators import FEATURES, random_graph, with_sharing


def toy_graph(name: str, wide: int = 8) -> Graph:
    build = GraphBuilder(name, alignment=4)
    build.input("x", wide)
    build.op("left", reads=["x"], writes={"a": 4})
    build.op("right", reads=["x"], writes={"b": 8}, workspace=4)
    build.op("join", reads=["a", "b"], writes={"y": 4}, views={"tail/of y": "y"})
    build.output("y")
    return build.build()


@pytest.fixture
def toys() -> Iterator[None]:
    """A binary format of models, `TOY` and the size of its open dimension, that takes plans."""

    def apply(source: Source, graph: Graph, plan: Plan) -> bytes:
        order = " ".join(graph.ops[v].name for v in plan.order)
        return source.data + b" ordered " + order.encode()

    @register_format(
        "toy",
        lambda source: source.data.startswith(b"TOY"),
        options=("dims",),
        orders=lambda source: {"tflm": (0, 1, 2)},
        apply=apply,
        binary=True,
    )
    def read_toy(source: Source, dims: dict[str, int] | None = None) -> Graph:
        return toy_graph(source.name, (dims or {}).get("width", 8))

    yield
    del FORMATS["toy"]


@pytest.fixture
def model(toys: None, tmp_path: Path) -> Path:
    path = tmp_path / "net.toy"
    path.write_bytes(b"TOY\xff\x00")
    write_plan(solve(read_graph(path)), tmp_path / "net.plan.json")
    return path


def test_apply_writes_a_copy_and_leaves_the_model(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = model.with_name("planned.toy")
    plan = model.with_name("net.plan.json")
    assert main(["apply", str(model), str(plan), "-o", str(out)]) == 0
    assert out.read_bytes().startswith(b"TOY\xff\x00 ordered right left join")
    assert model.read_bytes() == b"TOY\xff\x00"
    assert "2 of 3 ops moved, slab 20 bytes" in capsys.readouterr().out
    done = apply_plan(model, solve(read_graph(model)), out)
    assert (done.format, done.moved, done.checked.slab) == ("toy", 2, 20)


def test_apply_refuses_to_overwrite_what_it_reads(model: Path) -> None:
    plan = model.with_name("net.plan.json")
    before = model.read_bytes(), plan.read_bytes()
    link = model.with_name("link")
    link.symlink_to(model)
    for output in (model, plan, link):
        with pytest.raises(UsageError, match="would overwrite"):
            apply_plan(model, plan, output)
        assert main(["apply", str(model), str(plan), "-o", str(output)]) == 2
    assert before == (model.read_bytes(), plan.read_bytes())


def test_apply_refuses_the_plan_of_another_graph(model: Path) -> None:
    other = model.with_name("other.toy")
    other.write_bytes(b"TOY")
    plan, out = model.with_name("net.plan.json"), model.with_name("out")
    with pytest.raises(PlanError, match=r"plan is of graph 'net\.toy', this is 'other\.toy'"):
        apply_plan(other, plan, out, dims={"width": 16})
    with pytest.raises(PlanError, match=r"plan claims|overlap"):
        apply_plan(model, plan, out, dims={"width": 16})
    assert not out.exists()


def test_a_plan_is_of_what_a_file_holds_whatever_its_name(model: Path) -> None:
    plan, out = model.with_name("net.plan.json"), model.with_name("out")
    renamed = model.rename(model.with_name("renamed.toy"))
    assert apply_plan(renamed, plan, out).checked.slab == 20
    assert main(["check", str(renamed), str(plan)]) == 0
    document = json.loads(plan.read_text())
    del document["contents"]
    plan.write_text(json.dumps(document))
    with pytest.raises(PlanError, match=r"plan is of graph 'net\.toy', this is 'renamed\.toy'"):
        apply_plan(renamed, plan, out)


def test_apply_refuses_formats_that_take_no_plan(model: Path) -> None:
    graph = model.with_name("net.json")
    write_graph(read_graph(model), graph)
    with pytest.raises(FormatError, match="optsched-graph files take no plan; formats that do: "):
        apply_plan(graph, model.with_name("net.plan.json"), model.with_name("out"))


def test_open_dimensions_are_given_by_name(model: Path, cli: Cli) -> None:
    assert read_graph(model, dims={"width": 16}).buffers[0].size == 16
    assert cli.json("info", model, "--dim", "width=16")["input_bytes"] == 16
    for wrong in ("width", "=3", "width=", "width=-1", "width=0", "width=1e3", "w=" + "9" * 20):
        assert "--dim wants NAME=N" in cli.error("info", model, "--dim", wrong)
    graph = model.with_name("net.json")
    write_graph(read_graph(model), graph)
    with pytest.raises(UsageError, match="optsched-graph files have no open dimensions"):
        read_graph(graph, dims={"width": 16})


def test_the_order_of_a_framework_is_a_method(model: Path) -> None:
    settings = StudySettings(parse_methods(["tflm", "tflm+greedy_by_size"]), jobs=0)
    (compared,) = compare_files([str(model)], settings).comparisons
    rows = {row.method: row for row in compared.rows}
    assert rows["tflm"].peak == 24
    assert rows["tflm+greedy_by_size"].slab == 24


def test_a_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(source: Source) -> Graph:
        import no_such_package_at_all  # type: ignore[import-not-found]  # noqa: F401

        raise AssertionError

    row = Format("needy", Content.GRAPH, lambda x: x.data == b"NEEDY", read, extra="tflite")
    monkeypatch.setitem(FORMATS, "needy", row)
    path = tmp_path / "x"
    path.write_bytes(b"NEEDY")
    said = r"no_such_package_at_all is not installed; run: pip install flatbuffers tflite"
    with pytest.raises(MissingDependencyError, match=said):
        read_graph(path)


def test_a_model_file_without_its_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tflite", None)
    path = tmp_path / "net.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(40))
    for command in (["solve", str(path)], ["apply", str(path), str(path), "-o", str(path) + "2"]):
        assert main(command) == 2
        said = "tflite is not installed; run: pip install flatbuffers tflite"
        assert said in capsys.readouterr().err


def test_text_of_binary_files_is_never_decoded(toys: None) -> None:
    from optsched.formats.table import find_format

    source = Source(b'TOY {"format": "optsched-graph/1"')
    assert find_format(source).name == "toy"
    assert "_decoded" not in vars(source)


@pytest.fixture
def result() -> Result:
    return solve(toy_graph("net"))


def exported(result: Result, to: str, tmp_path: Path, **options: Graph) -> str:
    export_plan(result, tmp_path / "out", to=to, **options)
    return (tmp_path / "out").read_text()


def test_json_has_order_offsets_sizes_and_live_ranges(result: Result, tmp_path: Path) -> None:
    found = json.loads(exported(result, "json", tmp_path))
    assert (found["slab"], found["order"]) == (20, ["right", "left", "join"])
    rows = {row["name"]: row for row in found["buffers"]}
    assert rows["b"] | {"offset": 0} == {
        "name": "b",
        "offset": 0,
        "size": 8,
        "start": 0,
        "end": 3,
        "alignment": 4,
    }
    assert rows["tail/of y"]["view_of"] == "y"


def test_csv_lists_buffers_by_name(result: Result, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(exported(result, "csv", tmp_path))))
    assert [row["name"] for row in rows] == ["a", "b", "right.workspace", "tail/of y", "x", "y"]
    assert result.offsets["a"] == int(rows[0]["offset"])


def test_without_the_graph_names_and_offsets_are_exported(
    result: Result, tmp_path: Path, cli: Cli
) -> None:
    plan = tmp_path / "net.plan.json"
    write_plan(result, plan)
    lines = cli("export", plan, "--to", "csv").splitlines()
    assert lines[0] == "name,offset"
    assert f"b,{result.offsets['b']}" in lines
    assert "needs sizes and live ranges" in cli.error("export", plan, "--to", "minimalloc")


@pytest.mark.parametrize("to", sorted(EXPORTS))
def test_an_export_needs_a_plan_of_its_graph(result: Result, to: str, tmp_path: Path) -> None:
    write_plan(result, tmp_path / "plan")
    write_graph(toy_graph("other", wide=16), tmp_path / "graph")
    with pytest.raises(PlanError, match="plan is of graph 'net', this is 'other'"):
        export_plan(tmp_path / "plan", tmp_path / "out", to=to, graph=tmp_path / "graph")
    with pytest.raises(UsageError, match="would overwrite"):
        export_plan(tmp_path / "plan", tmp_path / "plan", to=to)
    assert not (tmp_path / "out").exists()


def test_what_is_exported_for_minimalloc_is_a_packing_of_the_same_slab(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for _ in range(12):
        graph = random_graph(rng, int(rng.integers(2, 9)), features=FEATURES)
        for in_place in (False, True):
            try:
                result = solve(graph, inplace=in_place)
            except GraphError:
                # Pins of random graphs may clash in every order.
                continue
            export_plan(result, tmp_path / "x.csv", to="minimalloc")
            table = read_packing(tmp_path / "x.csv")
            if table.offsets is None or table.pools is not None:
                continue
            slab = check_packing(table.problem, table.offsets.tolist())
            assert slab <= (result.slab or 0)


def test_pairs_and_groups_of_a_plan_are_columns_of_the_minimalloc_export(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    seen = [0, 0]
    for _ in range(60):
        graph = with_sharing(rng, random_graph(rng, 6, features=FEATURES - {"pins", "pools"}))
        try:
            result = solve(graph)
        except GraphError:
            # Pairs and groups of random graphs may clash in every order.
            continue
        export_plan(result, tmp_path / "x.csv", to="minimalloc")
        table = read_packing(tmp_path / "x.csv")
        assert result.plan is not None
        wanted, _ = packing_problem(graph, result.plan.order)
        found = table.problem
        assert named_pairs(found) == named_pairs(wanted)
        assert named_groups(found) == named_groups(wanted)
        seen = [seen[0] + len(found.keep_apart), seen[1] + len(found.must_share)]
        if table.offsets is not None:
            check_packing(found, table.offsets.tolist())
        assert pack(found).slab == result.slab
    assert min(seen) > 5


def named_pairs(problem: PackingProblem) -> set[frozenset[str]]:
    return {frozenset(problem.names[i] for i in row) for row in problem.keep_apart.tolist()}


def named_groups(problem: PackingProblem) -> set[frozenset[str]]:
    return {frozenset(problem.names[i] for i in row) for row in problem.must_share}


HOSTILE = ["a*/b", "a/*b", "a-b", "a_b", "a b", "a_b_OFFSET", "1st", "ä", "\\", "x??/", "*", "slab"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here")
@pytest.mark.parametrize("sized", [False, True])
def test_the_c_header_compiles_and_its_asserts_hold(sized: bool, tmp_path: Path) -> None:
    build = GraphBuilder("7 nets */", alignment=16)
    for name in HOSTILE:
        build.op(f"make {name}", writes={name: 24})
        build.output(name)
    graph = build.build()
    result = solve(graph)
    write_plan(result, tmp_path / "plan")
    header = tmp_path / "plan.h"
    export_plan(tmp_path / "plan", header, to="c-header", graph=graph if sized else None)
    source = tmp_path / "main.c"
    source.write_text(
        '#include "plan.h"\n#include "plan.h"\n#include <stdio.h>\n'
        "int main(void) { for (int i = 0; i < N7_NETS_PLACES_COUNT; i++) {"
        " struct n7_nets_place x = N7_NETS_PLACES[i];"
        ' printf("%d %d %d %d\\n", (int)x.offset, (int)x.bytes, (int)x.first, (int)x.last); }'
        ' printf("%d %d", (int)N7_NETS_SLAB_BYTES, (int)N7_NETS_PLACES[N7_NETS_A_B].offset); }\n'
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(tmp_path / "main")], check=True)
    run = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
    *rows, last = run.stdout.splitlines()
    assert result.plan is not None
    spans = live_ranges(result).tolist()
    known = {(x, 24, a, b - 1) for x, (a, b) in zip(result.plan.offsets, spans, strict=True)}
    found = [tuple(map(int, row.split())) for row in rows]
    assert {row[0] for row in found} == set(result.plan.offsets)
    if sized:
        assert set(found) == known
        assert [row[2] for row in found] == sorted(row[2] for row in found)
        assert last == f"{result.slab} {result.offsets['a*/b']}"
    # A slab that is too small is refused by the compiler.
    text = header.read_text()
    header.write_text(text.replace(f"SLAB_BYTES UINT64_C({result.slab})", "SLAB_BYTES 8"))
    failed = subprocess.run(["gcc", *flags, "-c", str(source)], capture_output=True, text=True)
    assert "is_too_small" in failed.stderr


def test_names_in_a_c_header_are_short_and_ones_own(tmp_path: Path) -> None:
    build = GraphBuilder("serving")
    path = "model/block_1/depthwise/BatchNorm/FusedBatchNormV3;model/block_1/project/Conv2D"
    for name in (path, f"{path}/1"):
        build.op(f"make {name}", writes={name: 8})
    result = solve(build.build())
    export_plan(result, tmp_path / "plan.h", to="c-header", prefix="net")
    text = (tmp_path / "plan.h").read_text()
    assert 'NET_BATCHNORM_FUSEDBATCHNORMV3: "model/block_1/' in text
    assert 'NET_BATCHNORM_FUSEDBATCHNORMV3_2: "model/block_1/' in text
    assert "#define NET_SLAB_BYTES" in text
    for wrong in ("1a", "a b", "a-b"):
        with pytest.raises(UsageError, match="not a name in C"):
            export_plan(result, tmp_path / "plan.h", to="c-header", prefix=wrong)
    with pytest.raises(UsageError, match="prefix is for a C header"):
        export_plan(result, tmp_path / "plan.csv", to="csv", prefix="net")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here")
@pytest.mark.parametrize("standard", ["c99", "c11", "c++98", "c++17"])
@pytest.mark.parametrize("alignments", [(4, 6), (2**31, 3), (2**32, 2**40), (2**62, 3), (2**62, 9)])
def test_the_c_header_holds_any_alignment(
    standard: str, alignments: tuple[int, int], tmp_path: Path
) -> None:
    build = GraphBuilder("net")
    for i in range(len(alignments)):
        build.op(f"make{i}", writes={f"b{i}": 8})
        build.output(f"b{i}")
    graph = build.build()
    aligned = (replace(b, alignment=a) for b, a in zip(graph.buffers, alignments, strict=True))
    graph = replace(graph, buffers=tuple(aligned))
    export_plan(solve(graph), tmp_path / "plan.h", to="c-header")
    common = math.lcm(*alignments)
    uses = "NET_SLAB_ALIGNMENT" if common < 2**64 else "1"
    source = tmp_path / ("main.cpp" if "+" in standard else "main.c")
    source.write_text(
        '#include "plan.h"\n#include "plan.h"\n'
        f"int main(void) {{ return {uses} == UINT64_C({common % 2**64 if common < 2**64 else 1})"
        " ? 0 : 1; }\n"
    )
    flags = [f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    # C++ before 2011 has no 64-bit type of its own, but compilers do.
    flags += ["-Wno-long-long", "-D__STDC_LIMIT_MACROS", "-D__STDC_CONSTANT_MACROS"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(tmp_path / "main")], check=True)
    subprocess.run([tmp_path / "main"], check=True)


def test_exports_go_to_standard_output(result: Result, tmp_path: Path) -> None:
    write_plan(result, tmp_path / "plan")
    command = [sys.executable, "-m", "optsched", "export", str(tmp_path / "plan"), "--to", "json"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(found)["slab"] == 20


def test_models_of_a_folder_are_left_out_where_their_package_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    write_graph(toy_graph("net"), tmp_path / "net.json")
    for name in ("a.tflite", "b.tflite"):
        (tmp_path / name).write_bytes(b"\x1c\0\0\0TFL3" + bytes(40))
    assert [path for path, _ in graph_files([str(tmp_path)])] == [str(tmp_path / "net.json")]
    said = f"{tmp_path}: 2 .tflite files left out: pip install flatbuffers tflite"
    assert said in capsys.readouterr().err
    # A file that is named is not left out: to read it says what is missing.
    assert graph_files([str(tmp_path / "a.tflite")]) == [(str(tmp_path / "a.tflite"), True)]
