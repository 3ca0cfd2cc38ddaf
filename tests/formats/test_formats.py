"""Reading by content, rejecting the wrong kind, and surviving any bytes in a file."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optsched import pack, solve
from optsched.check.certificate import Certificate
from optsched.check.plan import check_plan
from optsched.check.steps import End, EndStep
from optsched.errors import FormatError, GraphError, MissingDependencyError, PlanError, UsageError
from optsched.formats import (
    FORMATS,
    Content,
    InputBytes,
    Source,
    read_certificate,
    read_graph,
    read_module_certificate,
    read_module_plan,
    read_packing,
    read_plan,
    read_plan_claims,
    register_format,
    rows,
    sniff_file,
    table,
    write_certificate,
    write_graph,
    write_module,
    write_module_certificate,
    write_module_plan,
    write_packing,
    write_plan,
)
from optsched.formats.inductor import read_inductor
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.module import module_of
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, make_plan
from tests.support.generators import FEATURES, random_graph
from tests.support.pt2_builder import ProgramBuilder

SIMULATOR: dict[str, Any] = {
    "nodes": [
        {"name": "op0", "buffer_names": ["a", "b"]},
        {"name": "op1", "buffer_names": ["c"]},
    ],
    "buffers": [
        {
            "name": name,
            "size_alloc": size,
            "size_free": size,
            "is_input": name == "x",
            "is_output": name == "c",
            "deps": deps,
        }
        for name, size, deps in (("x", 8, []), ("a", 4, ["x"]), ("b", 2, ["x"]), ("c", 4, ["a"]))
    ],
    "extra": {
        "ops": ["Extern", "Pointwise"],
        "pred_nodes": [[], [0]],
        "unmet_dep_names": [["x"], ["a"]],
        "inplace_candidates": {"op1": [["c", "a"]]},
        "freeable_true_nbytes": {"x": 16},
    },
}
PACKING = "id,lower,upper,size,offset\na,0,3,8,0\nb,2,5,4,8\n"


@pytest.fixture
def graph() -> Graph:
    return random_graph(np.random.default_rng(4), 6, name="six")


@pytest.fixture
def plan(graph: Graph) -> Plan:
    problem, _ = packing_problem(graph, range(6))
    return make_plan(graph, range(6), np.arange(len(problem)) * 64)


@pytest.fixture
def files(graph: Graph, plan: Plan, tmp_path: Path) -> dict[str, Path]:
    """One file of each text format; models of frameworks have tests of their own."""
    rows = [row for row in FORMATS.values() if row.read and not row.extra]
    files = {row.name: tmp_path / f"{row.name}.any" for row in rows}
    write_graph(graph, files["optsched-graph"])
    write_plan(plan, files["optsched-plan"], graph, {"objective": "slab"})
    certificate = Certificate(graph.name, 1, (EndStep(End.START),))
    write_certificate(certificate, files["optsched-certificate"], graph)
    module = module_of(graph)
    write_module(module, files["optsched-module"])
    write_module_plan({graph.name: plan}, files["optsched-module-plan"], module)
    shown = {graph.name: certificate}
    write_module_certificate(shown, files["optsched-module-certificate"], module)
    files["inductor"].write_text(json.dumps(SIMULATOR))
    files["minimalloc"].write_text(PACKING)
    document = {"format": "optsched-packing/1", "buffers": []}
    files["optsched-packing"].write_text(json.dumps(document))
    event = {"name": "[memory]", "ts": 1, "args": {"Addr": 1, "Bytes": 4}}
    event["args"] |= {"Device Type": 0, "Device Id": -1}
    files["torch-snapshot"].write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    files["torchscript"].write_text("graph(%x : Tensor):\n  return (%x)\n")
    files["torch-profile"].write_text(json.dumps({"traceEvents": [event]}))
    files["pt2"].write_bytes(ProgramBuilder().archive())
    slices = "slices({\n  [0, 1] = %c8\n}) : index"
    files["iree"].write_text(f"%0:2 = stream.resource.pack {slices}\n")
    files["memref"].write_text("module {\n  %a = memref.alloc() : memref<8xf32>\n}\n")
    files["hlo"].write_text("HloModule m\n\nENTRY e {\n  ROOT a = f32[2] parameter(0)\n}\n")
    places = [
        (b.name, x) for b, x in zip(graph.buffers, plan.offsets, strict=True) if x is not None
    ]
    rows = "".join(f" value: <1 {name} @0> (size=1,offset={x})\n" for name, x in places)
    files["xla-buffers"].write_text(f"BufferAssignment:\nallocation 0: size 9999:\n{rows}")
    return files


def test_formats_are_known_by_content(files: dict[str, Path]) -> None:
    for name, path in files.items():
        assert sniff_file(path).name == name
        path.write_bytes(gzip.compress(path.read_bytes()))
        assert sniff_file(path).name == name


def test_what_was_written_is_read(files: dict[str, Path], graph: Graph, plan: Plan) -> None:
    assert read_graph(files["optsched-graph"]) == graph
    found, claims = read_plan_claims(files["optsched-plan"], graph)
    assert found == plan == read_plan(files["optsched-plan"], graph)
    assert claims["objective"] == "slab"
    check_plan(graph, plan, peak=claims["peak"], slab=claims["slab"])
    packing = read_packing(files["minimalloc"])
    write_packing(packing, files["minimalloc"], packing.offsets)
    assert files["minimalloc"].read_text() == PACKING


def test_compressed_files_are_the_same_each_time(graph: Graph, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.json.gz", "two.json.gz", "plain.json")]
    for path in paths:
        write_graph(graph, path)
    one, two, plain = (path.read_bytes() for path in paths)
    assert one == two
    assert gzip.decompress(one) == plain
    assert read_graph(paths[0]) == graph


@pytest.mark.parametrize("name", ["net.fwd.json.gz", "net.fwd.json", "net.fwd"])
def test_simulator_graphs_are_named_after_their_file(name: str, tmp_path: Path) -> None:
    text = json.dumps(SIMULATOR).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert read_graph(tmp_path / name).name == "net.fwd"


def test_input_bytes(files: dict[str, Path]) -> None:
    path = files["inductor"]
    assert read_graph(path).buffers[0].size == 8
    assert read_graph(path, input_bytes="true").buffers[0].size == 16
    assert read_graph(path, input_bytes=InputBytes.TRUE).buffers[0].size == 16
    with pytest.raises(UsageError, match="input_bytes must be one of recorded, true, got 'all'"):
        read_graph(path, input_bytes="all")


def test_writers_refuse_arguments_in_another_order(
    graph: Graph, plan: Plan, tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    swapped: list[tuple[str, Callable[[], Any]]] = [
        ("write_plan(plan, path, graph)", lambda: write_plan(graph, plan, path)),  # type: ignore[arg-type]
        ("write_plan(plan, path, graph)", lambda: write_plan(path, graph, plan)),  # type: ignore[arg-type]
        ("write_graph(graph, path)", lambda: write_graph(path, graph)),  # type: ignore[arg-type]
        ("write_packing(packing, path)", lambda: write_packing(path, graph)),  # type: ignore[arg-type]
        ("read_plan(path, graph)", lambda: read_plan(graph, path)),  # type: ignore[arg-type]
    ]
    for call, run in swapped:
        with pytest.raises(UsageError, match=re.escape(f"expected {call}")):
            run()
    with pytest.raises(UsageError, match="needs the graph"):
        write_plan(plan, path)
    assert not path.exists()


def test_the_result_of_a_solver_is_written_with_its_claims(graph: Graph, tmp_path: Path) -> None:
    path = str(tmp_path / "x.json")
    result = solve(graph)
    write_plan(result, path)
    found, claims = read_plan_claims(path, graph)
    assert (found, claims["slab_bound"]) == (result.plan, result.slab_bound)
    assert (claims["objective"], claims["slab_proof"]) == ("slab", result.slab_proof)
    assert claims["memory_model"] == graph.memory_model
    with pytest.raises(UsageError, match="it has no plan"):
        write_plan(replace(result, plan=None), path)


def test_what_a_packing_file_holds_can_be_packed(files: dict[str, Path]) -> None:
    assert pack(read_packing(files["minimalloc"])).slab == 12


def readers(graph: Graph) -> dict[Content, Callable[[Path], Any]]:
    return {
        Content.GRAPH: read_graph,
        Content.PLAN: lambda path: read_plan(path, graph),
        Content.PACKING: read_packing,
        Content.CERTIFICATE: lambda path: read_certificate(path, graph),
        Content.MODULE_PLAN: lambda path: read_module_plan(path, module_of(graph)),
        Content.MODULE_CERTIFICATE: lambda path: read_module_certificate(path, module_of(graph)),
    }


def test_the_wrong_kind_is_said(files: dict[str, Path], graph: Graph) -> None:
    for name, path in files.items():
        for wanted, read in readers(graph).items():
            if wanted is FORMATS[name].holds:
                read(path)
                continue
            with pytest.raises(FormatError) as caught:
                read(path)
            message = f"{path}: expected {wanted}, got {FORMATS[name].holds} ({name})"
            assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "file is empty"),
        (b" \n", "file is empty"),
        (b"{}", "unknown JSON format; its keys are none"),
        (b'{"nodes": 1}', "unknown JSON format; its keys are 'nodes'"),
        (b'{"format": ["optsched-graph/1"]}', "unknown JSON format; its keys are 'format'"),
        (b"[1]", "expected a JSON object, got [1]"),
        (b'"text"', "unknown format (not JSON and not a MiniMalloc CSV), starts with"),
        (b"some words", "unknown format (not JSON and not a MiniMalloc CSV)"),
        (b"\x89PNG", "not UTF-8 text: byte 0 is invalid"),
        (b"\x8f\x00TF\xff", "unknown format: binary data that starts with the bytes 8f 00 54 46"),
        (b"id,start,end,bytes\n", "a table with the header 'id,start,end,bytes', expected id,low"),
        (b"id;lower;upper;size\n", "expected id,lower,upper,size and optionally alignment, gaps"),
        (b"Name\tBegin\tEnd\tSize\n", "separated by commas"),
        (b'{"format": "optsched-graph/9"}', "may need a newer optsched"),
        (b"id,lower,upper,size\n", "expected a graph, got a packing"),
    ],
)
def test_no_graph(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        read_graph(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def archive(name: str) -> bytes:
    """A zip file that holds a file of this name, as torch.save makes them."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr(name, "x")
    return made.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "advice"),
    [
        (b"\x1c\0\0\0ET12\x14\0", "an ExecuTorch program (executorch)", "TorchInductor"),
        (b"// note\n#loc = loc(unknown)\nmodule @m {}", "MLIR text (mlir)", "GraphBuilder"),
        (b"module {\n  func.func @f() {}\n}", "MLIR text (mlir)", "GraphBuilder"),
        (b"ML\xefR\x01", "MLIR bytecode", "GraphBuilder"),
        (archive("archive/data.pkl"), "a PyTorch archive (.pt, .pt2)", "torch.compile"),
        (archive("m/archive_format"), "a PyTorch archive (.pt, .pt2)", "torch.compile"),
        (archive("readme"), "a zip archive (zip)", "unpack it"),
        (b"\x80\x04K\x01.", "a Python pickle", "never opened"),
        (b"\x02\0\0\0\0\0\0\0{}", "a safetensors file", "no graph of ops"),
        (b"GGUF\x03\0\0\0", "a GGUF file", "no graph of ops"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "no graph of ops"),
        (b'{"traceEvents": []}', "a profiler's trace", "records execution"),
    ],
)
def test_known_files_without_a_reader_are_named(
    data: bytes, name: str, advice: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    for packed in (data, gzip.compress(data)):
        path.write_bytes(packed)
        with pytest.raises(FormatError) as caught:
            read_graph(path)
        assert str(caught.value).startswith(f"{path}: cannot read {name}")
        assert advice in str(caught.value)


def test_a_reader_that_is_registered_reads_with_its_own_options(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMATS, "mlir", FORMATS["mlir"])

    @register_format("mlir", lambda s: s.data.startswith(b"//"), options=("scale",))
    def read_mine(source: Source, scale: int = 1) -> Graph:
        build = GraphBuilder(source.name)
        build.input("x", scale * len(source.data))
        return build.build()

    path = tmp_path / "mine.bin"
    path.write_bytes(b"// ")
    assert [read_graph(path).buffers[0].size, read_graph(path, scale=4).buffers[0].size] == [3, 12]
    with pytest.raises(UsageError, match="no format for a graph has an option 'size'"):
        read_graph(path, size=4)
    with pytest.raises(UsageError, match="'mlir' is already registered"):
        register_format("mlir", lambda source: True)(read_graph)
    assert register_format("mlir", lambda source: True)(read_mine) is FORMATS["mlir"].read
    with pytest.raises(UsageError, match="as 'mlir'; possible formats: optsched-graph"):
        write_graph(graph, path, format="mlir")


def test_a_format_is_imported_when_a_file_of_it_is_read(tmp_path: Path) -> None:
    write_graph(GraphBuilder("empty").build(), tmp_path / "graph.json")
    script = (
        "import sys\n"
        "from optsched.formats import read_graph\n"
        "def loaded():\n"
        "    return {x for x in sys.modules if x.startswith('optsched.formats.')}\n"
        "before = loaded()\n"
        "read_graph(sys.argv[1])\n"
        "print(*sorted(loaded() - before))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "graph.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["optsched.formats.native"]


def test_what_rows_name_is_there() -> None:
    text = Path(str(rows.__file__)).read_text()
    named = re.findall(r'(?:later|_document|_json)\("([\w.]+)", "(\w+)"\)', text)
    assert len(named) >= sum(row.read is not None for row in rows.ROWS)
    for module, function in named:
        assert callable(getattr(import_module(f"optsched.formats.{module}"), function))


def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x07\x12\x07pytorch")
    with pytest.raises(
        MissingDependencyError, match=r"onnx is not installed; run: pip install onnx"
    ):
        read_graph(path)


def test_formats_of_installed_packages_are_loaded_and_broken_ones_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "their_format.py").write_text(
        "from optsched import GraphBuilder\n"
        "from optsched.formats import register_format\n"
        "@register_format('theirs', lambda source: source.text.startswith('THEIRS'))\n"
        "def read(source):\n"
        "    return GraphBuilder('theirs').build()\n"
    )
    found = tmp_path / "theirs-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (found / "entry_points.txt").write_text(
        "[optsched.formats]\nbroken = no_such_module\ntheirs = their_format\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    table._load_plugins.cache_clear()
    path = tmp_path / "file.theirs"
    path.write_text("THEIRS")
    try:
        assert read_graph(path).name == "theirs"
    finally:
        FORMATS.pop("theirs", None)
        table._load_plugins.cache_clear()
    assert "plug-in broken of optsched.formats was skipped" in caplog.text


def survives(data: bytes, path: Path, graph: Graph) -> None:
    """Read anything as what it is and what it is not: it works, or one line has the file's name."""
    path.write_bytes(data)
    known = readers(graph)
    try:
        holds = sniff_file(path).holds
    except FormatError:
        holds = Content.PLAN
    for wanted in {holds, Content.GRAPH, Content.PLAN}:
        try:
            known[wanted](path)
        except MissingDependencyError:
            continue  # by chance it begins as a model of a framework does
        except (FormatError, GraphError, PlanError) as error:
            line = str(error)
            if not line.startswith(f"{path}: ") or not line.isprintable() or len(line) > 5000:
                raise AssertionError(f"bad message {line!r} for {data!r}") from None


def test_every_truncation(files: dict[str, Path], graph: Graph, tmp_path: Path) -> None:
    for path in files.values():
        data = path.read_bytes()[:1500]
        for length in range(0, len(data), 1 if len(data) < 300 else 7):
            survives(data[:length], tmp_path / "cut", graph)
    data = gzip.compress(files["minimalloc"].read_bytes())
    for length in range(len(data)):
        survives(data[:length], tmp_path / "cut", graph)


def test_random_bytes_flipped(files: dict[str, Path], graph: Graph, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for path in files.values():
        for packed in (False, True):
            data = path.read_bytes()
            data = gzip.compress(data) if packed else data
            for _ in range(40):
                changed = bytearray(data)
                for _ in range(int(rng.integers(1, 4))):
                    changed[int(rng.integers(len(data)))] = int(rng.integers(256))
                survives(bytes(changed), tmp_path / "flipped", graph)


def test_random_values_in_a_simulator_file() -> None:
    rng = np.random.default_rng(6)
    values: list[Any] = [None, True, -1, 0, 7, 1.5, "", "x", "c", [], [["a"]], {}, {"op0": 1}]
    for _ in range(3000):
        document = json.loads(json.dumps(SIMULATOR))
        at: Any = document
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            key = keys[int(rng.integers(len(keys)))]
            if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.8:
                at = at[key]
                continue
            at[key] = values[int(rng.integers(len(values)))]
            break
        for input_bytes in InputBytes:
            with suppress(FormatError, GraphError):
                read_inductor(document, input_bytes=input_bytes)


def test_large_graphs_are_read_in_useful_time(tmp_path: Path) -> None:
    graph = random_graph(np.random.default_rng(7), 3000, features=FEATURES)
    write_graph(graph, tmp_path / "large.json.gz")
    assert read_graph(tmp_path / "large.json.gz") == graph
