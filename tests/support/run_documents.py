"""Run blocks of pages and examples of docstrings; what differs is an AssertionError with its place.

Commands of ours run in this process. Studies (`python -m experiments...`) take minutes to hours: of
these the arguments are parsed, by their own parser, and nothing more. `make` says what it would do.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import importlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from optsched import cli
from optsched.check.claims import check_claims
from optsched.formats import Content, read_graph, read_packing, read_plan_claims, sniff_file
from optsched.formats.costs import COSTS_FORMAT, read_costs
from optsched.model.question import Question
from tests.support.documents import ROOT, Block, blocks_of
from tests.support.registries import registries_kept

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_page(page: str, folder: Path, extras: Collection[str]) -> None:
    """Run the blocks of a page that need nothing or one of these extras, in an empty folder."""
    (folder / "instances").symlink_to(ROOT / "instances")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with registries_kept(), contextlib.chdir(folder):
        for block in blocks_of(page):
            if not block.not_run and block.needs in extras:
                run_block(block, namespace)


def run_block(block: Block, namespace: dict[str, Any]) -> None:
    """Run a block in the current folder."""
    if block.language == "console":
        for line, command, shown in commands_of(block):
            run_command(f"{block.page}:{line}", command, shown)
    elif block.language == "json":
        _read_document(block, namespace)
    elif block.language == "python" and ">>> " in block.text:
        _run_prompts(block, namespace)
    elif block.language == "python":
        # Blank lines before it, so that a traceback names the page's own line.
        source = "\n" * (block.line - 1) + block.text
        exec(compile(source, str(ROOT / block.page), "exec"), namespace)


def _read_document(block: Block, graphs: dict[str, Any]) -> None:
    """Read a file that is shown; plans and costs are of a graph that its page shows before them."""
    path = Path("block.json")
    path.write_text(block.text)
    document = json.loads(block.text)
    if document["format"] == COSTS_FORMAT:
        read_costs(path, graphs[f"graph {document['graph']}"])
        return
    holds = sniff_file(path).holds
    if holds is Content.GRAPH:
        graphs[f"graph {document['name']}"] = read_graph(path)
    elif holds is Content.PACKING:
        read_packing(path)
    else:
        graph = graphs[f"graph {document['graph']}"]
        plan, claims = read_plan_claims(path, graph)
        check_claims(Question(graph), plan, claims)


def _run_prompts(block: Block, namespace: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(
        block.text, namespace, block.place, block.page, block.line - 1
    )
    said = io.StringIO()
    outcome = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.write, clear_globs=False)
    namespace.update(test.globs)
    assert outcome.failed == 0, said.getvalue()


def run_module_examples(name: str) -> None:
    """Run the examples in a module's docstrings."""
    said = io.StringIO()
    with registries_kept(), contextlib.redirect_stdout(said):
        outcome = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert outcome.failed == 0, said.getvalue()
    assert outcome.attempted > 0, f"{name}: no docstring has an example that runs"


def commands_of(block: Block) -> Iterator[tuple[int, str, str]]:
    """Yield the commands of a block, each with its line and with what is shown below it."""
    found: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        if line.startswith("$ "):
            found.append((number, line[2:], []))
        elif found and found[-1][1].endswith("\\"):
            start, command, _ = found.pop()
            found.append((start, f"{command[:-1]} {line.strip()}", []))
        else:
            assert found, f"{block.page}:{number}: a command starts with '$ '"
            found[-1][2].append(line)
    for number, command, shown in found:
        yield number, command, "".join(f"{line}\n" for line in shown)


def run_command(place: str, command: str, shown: str) -> None:
    """Run a command; `# exit code N` at its end says how it ends, if not with 0."""
    code = re.search(r"# exit code (\d+)", command)
    words = shlex.split(command, comments=True)
    if words[0] == "optsched":
        printed = _run_ours(place, words[1:], int(code[1]) if code else 0)
        want, got = (re.sub(r"\d+\.\d+ s\b", "0.0 s", text) for text in (shown, printed))
        same = not shown or doctest.OutputChecker().check_output(want, got, FLAGS)
        assert same, f"{place}: {command}\nshown:\n{shown}\nprinted:\n{printed}"
    elif words[0] == "make":
        subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, capture_output=True)
    elif words[:2] == ["pip", "install"]:
        _check_extras(place, words[2:])
    elif words[:3] == ["python", "-m", "optsched"]:
        run_command(place, command.removeprefix("python -m "), shown)
    elif words[0].endswith("python") and words[1] == "-m":
        _parse_study(place, words[2], words[3 : _redirection(words)])
    else:
        raise AssertionError(
            f"{place}: {words[0]!r} is not a command of ours: write why it is not run"
        )


def _run_ours(place: str, words: list[str], code: int) -> str:
    said, trouble = io.StringIO(), io.StringIO()
    with (
        # Pages show what a terminal of 80 columns does.
        mock.patch.dict(os.environ, {"COLUMNS": "80"}),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(trouble),
    ):
        try:
            ended = cli.main(words)
        except SystemExit as end:
            ended = int(end.code or 0)
    assert ended == code, f"{place}: exit code {ended}, not {code}:\n{trouble.getvalue()}"
    # A refused command prints its reason instead.
    return said.getvalue() or trouble.getvalue()


def _check_extras(place: str, words: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for word in words:
        extras = re.fullmatch(r"(?:\.|optsched)(?:\[(.+)\])?", word)
        assert extras, f"{place}: {word!r} is not this package"
        unknown = set((extras[1] or "").split(",")) - {"", *project["optional-dependencies"]}
        assert not unknown, f"{place}: unknown extra {unknown}"


def _redirection(words: list[str]) -> int:
    return words.index(">") if ">" in words else len(words)


class _ParsedError(Exception):
    """Raised where a study would begin."""


def _parse_study(place: str, module: str, words: list[str]) -> None:
    """Let the parser of a study read its arguments, and stop it there; some take none."""
    parse = argparse.ArgumentParser.parse_args
    path = ROOT.joinpath(*module.split("."))
    source = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    assert source.exists(), f"{place}: unknown module {module}"
    if not words and "argparse" not in source.read_text("utf-8"):
        return

    def parse_only(parser: argparse.ArgumentParser, *given: Any, **named: Any) -> Any:
        parse(parser, *given, **named)
        raise _ParsedError

    argv = [module, *(word.strip("[]").replace("...", "") for word in words)]
    said = io.StringIO()
    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", parse_only),
        mock.patch.object(sys, "argv", argv),
        contextlib.redirect_stderr(said),
    ):
        try:
            runpy.run_module(module, run_name="__main__")
        except _ParsedError:
            return
        except SystemExit as end:
            raise AssertionError(f"{place}: exit code {end.code}: {said.getvalue()}") from None
    raise AssertionError(f"{place}: {module} parses no arguments")
