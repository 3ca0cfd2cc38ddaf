"""All code that pages and docstrings show runs, and gives what they show."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import optsched
from optsched import cli
from tests.support.documents import (
    LANGUAGES,
    MODULES_THAT_NEED,
    ROOT,
    Block,
    blocks_of,
    find_blocks,
    indented_code,
    modules_with_examples,
    pages,
    spans_of,
)
from tests.support.run_documents import run_block, run_module_examples, run_page

PAGES = pages()
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
NOT_RUN = [block for block in BLOCKS if block.not_run]
REPORT = ("matplotlib",)
HERE = {"", "report"}
"""Extras that this test is to run with; `tests/frameworks` has the others."""


@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS}))
def test_the_code_of_a_page_runs(page: str, tmp_path: Path) -> None:
    have = HERE if all(map(importlib.util.find_spec, REPORT)) else {""}
    run_page(page, tmp_path, have)
    if any(block.needs in HERE - have for block in blocks_of(page)):
        pytest.skip(f"{page}: a block needs the extra `report`, the others ran")


@pytest.mark.parametrize("name", [x for x in modules_with_examples() if x not in MODULES_THAT_NEED])
def test_the_examples_of_docstrings_run(name: str, tmp_path: Path) -> None:
    run_module_examples(name)


@pytest.mark.parametrize("block", NOT_RUN, ids=lambda block: block.place)
def test_what_is_not_run_says_why(block: Block) -> None:
    pytest.skip(f"{block.place} is not run: {block.not_run}")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert not indented_code(text), f"{page}: write a fenced block, with its language"
    for block in blocks_of(page):
        assert block.language in LANGUAGES, f"{block.place}: which language is this?"


def test_no_example_is_skipped_without_a_reason() -> None:
    for name in modules_with_examples():
        path = importlib.util.find_spec(name)
        assert path is not None
        assert path.origin is not None
        assert "doctest: +" + "SKIP" not in Path(path.origin).read_text("utf-8"), name


def test_public_functions_on_files_show_an_example() -> None:
    public = [getattr(optsched, name) for name in optsched.__all__ if not name.startswith("_")]
    made = [x for x in public if inspect.isfunction(x)]
    on_files = [x for x in made if x.__module__.startswith("optsched.formats")]
    assert len(on_files) > 7
    assert [x.__name__ for x in on_files if ">>> " not in inspect.getdoc(x)] == []


def calls() -> list[tuple[str, str]]:
    """Return the calls of public functions that stand inside the lines of pages."""
    found = []
    for page in PAGES:
        for span in spans_of(page):
            name = span.removeprefix("optsched.").partition("(")[0]
            if name in optsched.__all__ and span.endswith(")"):
                found.append((page, span.removeprefix("optsched.")))
    return sorted(set(found))


@pytest.mark.parametrize(("page", "call"), calls())
def test_calls_inside_a_line_are_possible(page: str, call: str) -> None:
    parsed = ast.parse(call, mode="eval").body
    assert isinstance(parsed, ast.Call)
    assert isinstance(parsed.func, ast.Name)
    signature = inspect.signature(getattr(optsched, parsed.func.id))
    known = {"time_limit", "work", "workers", "seed", "budget"} | set(signature.parameters)
    named = {word.arg: None for word in parsed.keywords if word.arg}
    assert named.keys() <= known
    signature.bind_partial(*parsed.args, **named)


def mentioned_options() -> list[tuple[str, str, str]]:
    """Return the options that pages name beside a command, inside their lines."""
    found = []
    for page in PAGES:
        for span in spans_of(page):
            words = re.match(r"optsched ((?:store )?[a-z]+)", span)
            if words:
                found += [(page, words[1], x) for x in re.findall(r"--[a-z][a-z-]+", span)]
    return sorted(set(found))


@pytest.mark.parametrize(("page", "command", "option"), mentioned_options())
def test_options_inside_a_line_are_there(
    page: str, command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([*command.split(), "--help"])
    assert option in capsys.readouterr().out


PAGE = """
```python
x = 1
```

    indented

- a list

    of it

<!-- needs: torch -->
```python
>>> x
2
```
<!-- not run: it has no end -->

```console
$ optsched solve
```
"""


def test_blocks_are_found_with_what_is_said_of_them() -> None:
    first, second, third = find_blocks("page", PAGE)
    assert (first.line, first.language, first.text) == (3, "python", "x = 1\n")
    assert (second.needs, second.not_run, third.not_run) == ("torch", "", "it has no end")
    assert indented_code(PAGE) == [6]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "assert 1 == 2\n"),
        ("python", ">>> 1 + 1\n3\n"),
        ("console", "$ optsched info instances/small/diamond.json\nthe same\n"),
        ("console", "$ optsched solve nothing.json\n"),
        ("console", "$ optsched slove\n"),
        ("console", "$ make tea\n"),
        ("console", "$ pip install '.[tea]'\n"),
        ("console", "$ python -m experiments.gap_table --tea\n"),
        ("console", "$ rm -rf nothing\n"),
        ("json", '{"format": "optsched-graph/1", "tea": 1}'),
    ],
)
def test_what_is_wrong_in_a_page_is_found(
    language: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "instances").symlink_to(ROOT / "instances")
    with pytest.raises(BaseException):  # noqa: B017 - whatever it is, the test of the page fails
        run_block(Block("page", 1, language, text), {})
