"""Code of pages and docstrings: Python blocks, commands with their output, doctests.

A page's blocks run in order, in one namespace and one empty folder in which `instances` is that of
the project. A block says by its language what it is:

| language | is run |
|---|---|
| `python` | as a program, or as a doctest where it has prompts |
| `console` | commands of ours (after `$`); what is shown below one is what it prints |
| `json` | read, as the format that it names |
| `text` | not: it is not code |

An HTML comment before a block says more: `<!-- needs: torch -->` an extra, with which
`tests/frameworks` runs it; `<!-- not run: REASON -->` that nothing here can run it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LANGUAGES = {"python", "console", "json", "text"}
FOLDERS = ("docs", "experiments", "heuristics", "instances", "optsched", "tests")

MODULES_THAT_NEED = {
    "optsched.formats.apply": "onnx",
    "optsched.formats.fx.live": "torch",
    "optsched.plugins.executorch": "executorch",
    "optsched.plugins.inductor": "torch",
    "optsched.plugins.inductor.capture.graphs": "torch",
    "optsched.plugins.inductor.capture.step": "torch",
    "optsched.plugins.xla": "jax",
}
"""Extras that the examples in docstrings of modules need."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    """Of its first line, from 1."""
    language: str
    text: str
    needs: str = ""
    """Extra, or empty."""
    not_run: str = ""
    """Reason, or empty."""

    @property
    def place(self) -> str:
        """Page and line."""
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Return the project's Markdown files, by their path in it."""
    found = [ROOT / "README.md"]
    for folder in FOLDERS:
        found += sorted((ROOT / folder).rglob("*.md"))
    return [str(path.relative_to(ROOT)) for path in found]


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    return list(find_blocks(page, (ROOT / page).read_text("utf-8")))


def find_blocks(page: str, text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a text, each with the comment before it."""
    comment, opened, held = "", None, []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = re.match(r"\s*```(.*)", line)
        if fence and opened is None:
            opened, held = (number + 1, fence[1].strip(), comment), []
        elif fence and opened is not None:
            start, language, said = opened
            yield Block(
                page,
                start,
                language,
                "".join(f"{x}\n" for x in held),
                needs=_said("needs", said),
                not_run=_said("not run", said),
            )
            opened = None
        elif opened is not None:
            held.append(line)
        if opened is None and line.strip():
            comment = line.strip()


def _said(key: str, comment: str) -> str:
    found = re.fullmatch(rf"<!-- {key}: (.+) -->", comment)
    return found[1] if found else ""


def indented_code(text: str) -> list[int]:
    """Return the lines at which code begins that is indented instead of fenced."""
    found, fenced, blank, listed, inside = [], False, True, False, False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line.strip():
            is_code = line.startswith("    ") and (blank or inside) and not listed
            if is_code and not inside:
                found.append(number)
            inside = is_code
            if not line.startswith(" "):
                listed = bool(re.match(r"([-*]|\d+\.) ", line))
        blank = not line.strip()
    return found


def spans_of(page: str) -> Iterator[str]:
    """Yield the code that stands inside a page's lines."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    for found in re.finditer(r"(`+)(.+?)\1", text):
        yield found[2].replace("\\|", "|")


def modules_with_examples() -> list[str]:
    """Return the modules whose docstrings have examples, by name."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text("utf-8")
            if ">>> " in text and any(">>> " in shown for shown in docstrings(text)):
                parts = path.relative_to(ROOT).with_suffix("").parts
                found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def docstrings(source: str) -> Iterator[str]:
    """Yield the docstrings of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""
