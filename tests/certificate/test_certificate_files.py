"""Files of certificates: what solve writes check accepts, what is corrupt it refuses."""

from __future__ import annotations

import ast
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optsched.check.certificate import check_certificate
from optsched.cli import main
from optsched.errors import FormatError
from optsched.formats import write_graph
from optsched.formats.certificate import read_certificate_document
from tests.support.commands import Cli
from tests.support.families.small import diamond

Document = dict[str, Any]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, Path]:
    """A graph whose least peak needs more than the closure bound, its plan and certificate."""
    graph, plan, proof = tmp_path / "g.json", tmp_path / "plan.json", tmp_path / "proof.json"
    write_graph(diamond(), graph)
    assert main(["solve", str(graph), "-o", str(plan), "--certificate", str(proof)]) == 0
    return str(graph), str(plan), proof


def test_solve_writes_what_check_accepts(files: tuple[str, str, Path], cli: Cli) -> None:
    graph, plan, proof = files
    assert "no order below 18 bytes, the peak is minimal, the slab is minimal" in cli(
        "check", graph, plan, proof
    )
    record = cli.json("check", graph, plan, proof)
    assert (record["bound"], record["valid"]) == (18, True)


def set_bound_up(document: Document) -> None:
    document["bound"] += 1


def set_huge(document: Document) -> None:
    document["bound"] = 10**30


def set_other_graph(document: Document) -> None:
    document["graph"] = "other"


def set_unknown_op(document: Document) -> None:
    document["ops"] = ["nobody", *document["ops"][1:]]


def set_no_steps(document: Document) -> None:
    document["steps"] = []


def set_text(document: Document) -> None:
    document["bound"] = "18"


def set_fraction(document: Document) -> None:
    document["bound"] = 18.5


def set_true(document: Document) -> None:
    document["steps"] = [{"kind": "states", "backward": False, "states": [[True, 0]]}]


def set_unknown_kind(document: Document) -> None:
    document["steps"] = [{"kind": "trust me"}]


def set_unknown_key(document: Document) -> None:
    document["really"] = 1


def set_list(document: Document) -> None:
    document["steps"] = {"kind": "start"}


def set_format(document: Document) -> None:
    document["format"] = "optsched-certificate/2"


def set_far_parent(document: Document) -> None:
    document["steps"] = [{"kind": "states", "backward": True, "states": [[7, 0]]}]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (set_bound_up, 1),
        (set_huge, 1),
        (set_other_graph, 1),
        (set_unknown_op, 1),
        (set_no_steps, 1),
        (set_text, 2),
        (set_fraction, 2),
        (set_true, 2),
        (set_unknown_kind, 2),
        (set_unknown_key, 2),
        (set_list, 2),
        (set_format, 2),
        (set_far_parent, 2),
    ],
)
def test_corrupt_files_are_refused_in_one_line(
    files: tuple[str, str, Path],
    change: Callable[[Document], None],
    code: int,
    capsys: pytest.CaptureFixture[str],
    cli: Cli,
) -> None:
    graph, plan, proof = files
    document = json.loads(proof.read_text())
    document["ops"] = document["ops"] or ["join"]
    change(document)
    proof.write_text(json.dumps(document))
    capsys.readouterr()
    printed = cli.both("check", graph, plan, proof, code=code)
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert str(proof) in printed.err


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_truncated_files_are_refused(
    files: tuple[str, str, Path],
    pack: Callable[[bytes], bytes],
    capsys: pytest.CaptureFixture[str],
    cli: Cli,
) -> None:
    graph, plan, proof = files
    data = pack(proof.read_bytes())
    for size in range(0, len(data) - 2, 7):
        proof.write_bytes(data[:size])
        capsys.readouterr()
        assert cli.error("check", graph, plan, proof).count("\n") == 1


def test_the_checker_is_short_and_runs_without_a_solver(files: tuple[str, str, Path]) -> None:
    folder = Path(check_certificate.__code__.co_filename).parent
    lines = 0
    for name in ("certificate", "network", "states", "inplace", "blocks", "region"):
        source = (folder / f"{name}.py").read_text()
        assert "numpy" not in source
        # Explanations may have any length; the code is short.
        lines += sum(not line.strip().startswith("#") for line in source.splitlines())
        for node in ast.walk(ast.parse(source)):
            # Texts beside fields as well as docstrings.
            match node:
                case ast.Expr(value=ast.Constant(value=str())):
                    lines -= (node.end_lineno or node.lineno) - node.lineno + 1
    assert lines < 783
    code = (
        "import sys; from optsched.cli import main; code = main(sys.argv[1:]); "
        "print(code, [m for m in sys.modules if m.split('.')[0] in ('numba', 'ortools', 'pulp', "
        "'highspy', 'heuristics') or m.startswith(('optsched.ordering', 'optsched.certificate', "
        "'optsched.joint', 'optsched.solver'))])"
    )
    graph, plan, proof = files
    command = [sys.executable, "-c", code, "check", graph, plan, str(proof)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "0 []", done.stdout + done.stderr


def test_malformed_documents_are_no_certificates() -> None:
    for bad in (None, [], 3, {"format": 1}, {}):
        with pytest.raises(FormatError):
            read_certificate_document(diamond(), bad)
