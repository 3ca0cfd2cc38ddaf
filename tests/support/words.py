"""The rules of our language that a program can check: phrases, openings, proof codes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

PHRASES = (
    r"can not",
    r"so many",
    r"whatever",
    r"is no",
    r"are no",
    r"has not",
    r"have not",
    r"behind",
    r"go(?:es|ne)? on (?:with|from)",
    r"in vain",
    r"for good",
    r"what is no",
    r"is to be",
    r"of which",
    r"none (?:is|to|of)",
    r"by itself",
    r"nor",
    r"anew",
    r"thereby",
    r"up to now",
    r"what (?:comes|came|stands|lies|takes|holds|ends|is left|was)",
    r"begins? with",
    r"the like",
    r"its? own say",
    r"may be had",
    r"do(?:es)? not come by",
)
"""Phrases that a reader stumbles over; each has a plainer form."""
BANNED = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)

OPENER = re.compile(r"(?:What|Who|Whether|That|How|Where|Whose|Those|One that|The same)\b")
"""Openings of a docstring or message that leave the subject out."""

CODE = re.compile(r"\bL[1-6]\b")
LEGEND = re.compile(r"\b(?:order|packing|joint) (?:bound|search)")
"""Names of proofs; one must explain a short code in the same text."""

SHORT = 12
"""Strings of at most this length are names and keys, not sentences."""


class Text(NamedTuple):
    """A docstring, message or comment, or a line of a page, and the line where it starts."""

    line: int
    words: str
    is_ours: bool
    """True if it begins a text of ours: a docstring, or a message outside the tests.

    Strings of tests quote what the program prints, whose sentences are checked where they are.
    """


def texts_of(path: Path) -> Iterator[Text]:
    """Yield the texts of a Python file or a Markdown page."""
    source = path.read_text("utf-8")
    lines = enumerate(source.splitlines(), 1)
    if path.suffix == ".md":
        yield from (Text(number, line, False) for number, line in lines)
        return
    tree = ast.parse(source)
    quoted = _strings_of_code(tree) if "tests" in path.parts else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and _is_sentence(node.value):
            yield Text(node.lineno, str(node.value), id(node) not in quoted)
    yield from (Text(number, line, False) for number, line in lines if line.strip()[:1] == "#")


def _strings_of_code(tree: ast.AST) -> set[int]:
    """Return the ids of string nodes that are not docstrings, which are whole statements."""
    texts = {id(x.value) for x in ast.walk(tree) if isinstance(x, ast.Expr)}
    return {id(x) for x in ast.walk(tree) if isinstance(x, ast.Constant)} - texts


def _is_sentence(value: object) -> bool:
    return isinstance(value, str) and len(value) > SHORT and " " in value


PARAMETER = re.compile(rf"^ *\w[\w*, ]*\n +({OPENER.pattern})", re.MULTILINE)
"""Description of a parameter below its name that opens without a subject."""


def faults_of(path: Path) -> list[str]:
    """Return what is wrong in the language of a file, each with its line."""
    found = []
    for line, words, is_ours in texts_of(path):
        place = f"{path.relative_to(ROOT)}:{line}" if path.is_relative_to(ROOT) else f"{line}"
        found += [f"{place}: say {phrase!r} in plain words" for phrase in BANNED.findall(words)]
        if is_ours and (opener := OPENER.match(words.strip())):
            found.append(f"{place}: start with the subject, not with {opener[0]!r}")
        if is_ours and "----" in words and (hidden := PARAMETER.search(words)):
            found.append(f"{place}: start the description with the subject, not {hidden[1]!r}")
        if is_ours and CODE.search(words) and not LEGEND.search(words):
            found.append(f"{place}: name the proof beside its code {CODE.findall(words)[0]!r}")
    if path.suffix == ".md" and (fault := _page_fault(path)):
        found.append(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}: {fault}")
    return found


def _page_fault(path: Path) -> str:
    """Return the fault of a page that uses codes of proofs without a name or a link to names."""
    words = path.read_text("utf-8")
    codes = CODE.findall(words)
    if codes and not LEGEND.search(words) and "proofs.md" not in words:
        return f"name the proof beside its code {codes[0]!r}, or link docs/proofs.md"
    return ""
