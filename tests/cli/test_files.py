"""Files and streams as shells hand them over: no traceback, nothing overwritten, nothing lost."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from optsched.cli import main
from optsched.formats import write_graph
from optsched.formats.source import parse_json
from optsched.model.builder import GraphBuilder
from tests.support.commands import Cli
from tests.support.families.small import chain

posix = pytest.mark.skipif(os.name != "posix", reason="uses links, pipes or shells of POSIX")


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a POSIX shell in which $O is the program."""
    return subprocess.run(
        ["sh", "-c", command],
        env={**os.environ, "O": f"{sys.executable} -m optsched", **environment},
        capture_output=True,
        text=True,
        timeout=400,
    )


@posix
def test_two_outputs_in_one_file_by_whatever_names(
    graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.json").write_text("{}")
    os.link("old.json", "hard.json")
    os.symlink("old.json", "soft.json")
    os.symlink("new.json", "dangling.json")
    pairs = [
        ("p.json", "./p.json"),
        ("p.json", str(tmp_path / "p.json")),
        ("old.json", "hard.json"),
        ("soft.json", "old.json"),
        ("dangling.json", "new.json"),
        ("-", "-"),
    ]
    for plan, certificate in pairs:
        assert "two outputs name the same file" in cli.error(
            "solve", graph, "-o", plan, "--certificate", certificate
        )
        assert "two outputs name the same file" in cli.error(
            "compare", graph, "--csv", plan, "--markdown", certificate
        )
    assert Path("old.json").read_text() == "{}"
    assert main(["solve", graph, "-o", "/dev/null", "--certificate", "/dev/null"]) == 0


@posix
def test_a_pipe_in_a_compared_folder_is_passed_over(graph: str, tmp_path: Path, cli: Cli) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for methods in ([], ["--methods", "lpmf"]):
        out, err = cli.both("compare", tmp_path, *methods)
        assert f"passed over: {tmp_path}/pipe.json: not a regular file" in err
        assert "diamond" in out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="writes to /dev/full")
def test_a_comparison_that_can_not_be_written_is_printed(graph: str, cli: Cli) -> None:
    out, err = cli.both("compare", graph, "--methods", "lpmf", "--csv", "/dev/full", code=2)
    assert "minimum slab proved on 1" in out
    assert "/dev/full: cannot be written: no space left on device" in err


@posix
def test_closed_streams(graph: str, tmp_path: Path) -> None:
    plan = tmp_path / "p.json"
    cases = {
        "$O info - <&-": (2, "standard input is closed"),
        "$O compare - --methods lpmf <&-": (2, "standard input is closed"),
        f"$O info {graph} >&-": (0, ""),
        f"$O info {graph} --json >&-": (0, ""),
        f"$O solve {graph} -o {plan} >&-": (0, ""),
        f"$O solve {graph} -o - >&-": (2, "standard output is closed"),
        f"$O compare {graph} --methods lpmf >&-": (0, ""),
        f"$O info {graph} 2>&-": (0, ""),
        "$O info missing.json 2>&-": (2, ""),
    }
    for command, (code, message) in cases.items():
        done = shell(command)
        assert "Traceback" not in done.stderr, command
        assert (done.returncode, message in done.stderr) == (code, True), command
    assert plan.exists()


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_names_that_the_terminal_can_not_show(encoding: str, tmp_path: Path) -> None:
    build = GraphBuilder("日本")
    build.op("変換", writes={"出力": 4})
    build.output("出力")
    path = tmp_path / "名.json"
    write_graph(build.build(), path)
    commands = ("info", "solve", "explain", "compare --methods lpmf", "info --json")
    code = (
        "import sys; from optsched.cli import main\n"
        f"for command in {commands!r}:\n"
        f"    print('ended', main([*command.split(), {str(path)!r}]), end='\\0')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=400,
    )
    *texts, rest = done.stdout.decode(encoding).split("\0")
    assert (len(texts), rest) == (len(commands), ""), done.stderr
    for text in texts:
        assert "\\u65e5\\u672c" in text
        assert text.endswith("ended 0")


@pytest.mark.skipif(sys.platform != "linux", reason="file names are any bytes on Linux only")
@pytest.mark.parametrize("more", [{}, {"PYTHONUTF8": "0"}])
@pytest.mark.parametrize("name", [b"gr\xc3\xa4ph.json", b"bad\xff.json"])
def test_an_ascii_locale_gets_readable_ascii(
    name: bytes, more: dict[str, str], tmp_path: Path
) -> None:
    """File names are UTF-8, or shown byte by byte; never as halves of surrogate pairs."""
    row = {"name": "\u00f6p", "writes": ["b\u00fcf"]}
    document = {"format": "optsched-graph/1", "ops": [row]}
    text = json.dumps({**document, "buffers": [{"name": "b\u00fcf", "size": 4}]})
    path = os.fsencode(tmp_path) + b"/" + name
    Path(os.fsdecode(path)).write_text(text)
    keep = {"PATH", "HOME", "PYTHONPATH"} & os.environ.keys()
    env = {**{key: os.environ[key] for key in keep}, "LC_ALL": "C", **more}
    shown = b"gr\\xe4ph" if name.startswith(b"gr") else b"bad\\xff"

    def run(code: int, *argv: bytes) -> bytes:
        done = subprocess.run(
            [sys.executable, "-m", "optsched", *argv], env=env, capture_output=True, timeout=400
        )
        printed = done.stdout + done.stderr
        assert done.returncode == code, printed
        assert printed.isascii()
        assert b"\\udc" not in printed
        return printed

    plan = os.fsencode(tmp_path) + b"/\xc3\xb6.json"
    assert shown in run(0, b"solve", path, b"-o", plan)
    assert b"valid" in run(0, b"check", path, plan)
    assert shown in run(0, b"explain", path)
    assert shown in run(0, b"compare", path, b"--methods", b"lpmf")
    json.loads(run(0, b"info", path, b"--json"))
    assert shown in run(2, b"solve", path + b"x")
    assert shown in run(2, b"solve", path, b"--capacity", name)
    assert shown in run(2, name)


def test_a_graph_from_standard_input_is_compared(graph: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "optsched", "compare", "-", "--methods", "lpmf"],
        input=Path(graph).read_bytes(),
        capture_output=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert b"minimum slab proved on 1" in done.stdout


def test_results_are_written_over_a_graph_by_no_name(graph: str, tmp_path: Path) -> None:
    before = Path(graph).read_bytes()
    write_graph(chain(), tmp_path / "chain.json")
    assert main(["convert", str(tmp_path / "chain.json"), "-o", f"{tmp_path}/./chain.json"]) == 2
    assert main(["solve", graph, "-o", str(tmp_path / "x" / ".." / "diamond.json")]) == 2
    assert Path(graph).read_bytes() == before


def test_a_folder_gives_graphs_of_any_format_and_passes_notes_over(
    tmp_path: Path, cli: Cli
) -> None:
    text = """HloModule jit_step, is_scheduled=true
ENTRY main {
  x = f32[8]{0} parameter(0)
  y = f32[8]{0} exponential(x)
  ROOT z = f32[8]{0} negate(y)
}
"""
    (tmp_path / "first.txt").write_text(text)
    (tmp_path / "second.txt").write_text(text)
    (tmp_path / "notes.txt").write_text("models of last week\n")
    found = cli.both("compare", tmp_path, "--methods", "program", "--json")
    instances = json.loads(found.out)["graphs"]
    # Both modules go by the name `jit_step`: their files tell them apart.
    assert [row["graph"] for row in instances] == ["first", "second"]
    assert "notes" not in found.err


def test_what_is_printed_may_go_to_a_stream_of_text(graph: str, tmp_path: Path) -> None:
    """A notebook's standard output takes no bytes."""
    plan = str(tmp_path / "plan.json")
    assert main(["solve", graph, "-o", plan]) == 0
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["export", plan, "--to", "csv"]) == 0
    assert printed.getvalue().startswith("name,offset")


def test_info_describes_a_packing(tmp_path: Path, cli: Cli) -> None:
    packing = tmp_path / "trace.csv"
    packing.write_text("id,lower,upper,size\na,0,3,4\nb,1,4,4\nc,3,6,8\nd,0,2,2\n")
    text = cli("info", packing)
    assert text.startswith("slab 12 bytes with greedy packing by size; smallest possible, proved\n")
    assert "buffers        4, allocated or freed at 6 steps" in text
    found = cli.json("info", packing)
    assert (found["bound"], found["bytes_in_all"], found["saving"]["before"]) == (12, 18, 12)


def test_info_parses_a_graph_once(
    graph: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parsed: list[str] = []

    def parse(text: str) -> object:
        parsed.append(text)
        return parse_json(text)

    monkeypatch.setattr("optsched.formats.format.parse_json", parse)
    assert main(["info", graph]) == 0
    assert len(parsed) == 1
    assert "diamond" in capsys.readouterr().out


def test_options_of_graphs_are_refused_for_live_ranges(tmp_path: Path, cli: Cli) -> None:
    """They were passed over without a word."""
    path = str(tmp_path / "live.csv")
    Path(path).write_text("id,lower,upper,size,offset\na,0,2,4,0\n")
    trace = ["--trace", str(tmp_path / "trace")]
    for command in (["check", path], ["info", path], ["report", path, *trace]):
        for option in (["--streams", "2"], ["--constants", "before"], ["--no-inplace"]):
            error = cli.error(*command, *option)
            name = option[0].replace("--no-", "--")
            assert f"{path}: {name} is for graphs, this file has live ranges" in error
        cli(*command)
    assert "--peak is for graphs" in cli.error("check", path, "--peak", "5")


def test_a_missing_reader_is_named_by_tile(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    # An entry of None makes the import fail, installed or not.
    monkeypatch.setitem(sys.modules, "tflite", None)
    assert "tflite is not installed; run: pip install" in cli.error(
        "tile", "instances/tflite/decoder.tflite"
    )


def test_a_crowded_packing_is_compared_with_nothing(tmp_path: Path, cli: Cli) -> None:
    """Greedy packing by size took four times the limit for 100,000 buffers, all live together."""
    packing = tmp_path / "crowd.csv"
    rows = (f"b{i},0,2,{1 + i % 3}" for i in range(6_400))
    packing.write_text("\n".join(["id,lower,upper,size", *rows]))
    assert cli("info", packing).startswith("slab at least 12,799 bytes\n")
    assert cli("pack", packing).startswith("slab 12,799 bytes; smallest possible, proved\n")
