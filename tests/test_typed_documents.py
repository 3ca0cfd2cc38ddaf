"""Python of README and docs passes `mypy --strict` as users run it on code that they paste."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import ROOT, blocks_of, pages

PAGES = [page for page in pages() if page == "README.md" or page.startswith("docs/")]
# Packages that are not installed here have no types: classes and functions made of theirs neither.
UNTYPED = ("--allow-subclassing-any", "--allow-untyped-decorators")
OPTIONS = ("--strict", "--allow-redefinition", *UNTYPED)


def program_of(page: str) -> str:
    """Return all Python of a page as one program, each line where the page has it."""
    lines: dict[int, str] = {}
    for block in blocks_of(page):
        if block.language == "python":
            lines |= dict(code_of(block.text, block.line))
    return "\n".join(lines.get(i, "") for i in range(1, max(lines, default=0) + 1)) + "\n"


def code_of(text: str, first: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of code by number: without prompts, and without what they print."""
    prompts = ">>> " in text
    for number, line in enumerate(text.splitlines(), start=first):
        if not prompts:
            yield number, line
        elif line.startswith((">>>", "...")):
            yield number, line[4:]


def write_programs(folder: Path) -> list[Path]:
    """Write the programs of all pages; return their paths."""
    made = []
    for page in PAGES:
        program = program_of(page)
        if program.strip():
            path = folder / f"{page.replace('/', '_').replace('.', '_').replace('-', '_')}.py"
            path.write_text(program, "utf-8")
            made.append(path)
    assert len(made) > 10
    return made


def test_documented_python_is_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="needs the extra `lint`")
    names = map(str, write_programs(tmp_path))
    command = [sys.executable, "-m", "mypy", *OPTIONS, "--config-file", ROOT / "pyproject.toml"]
    found = subprocess.run(
        [*command, *names], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert found.returncode == 0, found.stdout


def pyright_errors(folder: Path) -> list[str]:
    """Return the errors of pyright on the programs of a folder."""
    config = {
        "typeCheckingMode": "standard",
        "extraPaths": [str(ROOT)],
        # Packages that are not installed here, and results that a prompt shows.
        "reportMissingImports": False,
        "reportMissingModuleSource": False,
        "reportUnusedExpression": False,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(folder)]
    command += ["--pythonpath", sys.executable]
    found = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    rows = json.loads(found.stdout)["generalDiagnostics"]
    return [f"{Path(x['file']).name}: {x['message']}" for x in rows if x["severity"] == "error"]


def test_documented_python_passes_pyright(tmp_path: Path) -> None:
    """The fork `basedpyright` comes with its own node, where `pyright` downloads one."""
    pytest.importorskip("basedpyright", reason="needs the extra `lint`")
    write_programs(tmp_path)
    assert pyright_errors(tmp_path) == []
    (tmp_path / "wrong.py").write_text(
        "from optsched import Graph, solve\n\ndef f(g: Graph) -> int:\n    return solve(g).slab\n"
    )
    (error,) = pyright_errors(tmp_path)
    assert error.startswith('wrong.py: Type "int | None" is not assignable to return type "int"')


def test_an_untyped_line_is_found(tmp_path: Path) -> None:
    """The test above can fail: an optional value is used as a number."""
    pytest.importorskip("mypy", reason="needs the extra `lint`")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from optsched import Graph, solve\n\ndef f(g: Graph) -> int:\n    return solve(g).slab\n"
    )
    command = [sys.executable, "-m", "mypy", *OPTIONS, "--config-file", ROOT / "pyproject.toml"]
    found = subprocess.run(
        [*command, str(wrong)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert "Incompatible return value type" in found.stdout
