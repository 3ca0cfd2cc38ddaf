"""Our language: no banned phrase or opening, codes with a legend, help that fits 80 columns."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import optsched
from optsched.cli.commands import COMMANDS, make_parser
from tests.support.words import ROOT, faults_of

ROOMS = ("README.md", "docs", "experiments", "heuristics", "instances", "optsched", "tests")
"""Everything that people read, without exception."""
COLUMNS = 80
WORDS = 50
"""Words that the help of an option has at most; a guide has room for more."""


def files_of(room: str) -> list[Path]:
    """Return the Python files and pages of a room."""
    path = ROOT / room
    if path.is_file():
        return [path] if path.suffix in (".py", ".md") else []
    return sorted((*path.rglob("*.py"), *path.rglob("*.md")))


def rooms() -> list[str]:
    """Return the folders and files of the rooms; those of the package and the tests one by one."""
    found: list[str] = []
    for room in ROOMS:
        inner = sorted((ROOT / room).iterdir()) if room in ("optsched", "tests") else [ROOT / room]
        found += [str(path.relative_to(ROOT)) for path in inner if files_of(str(path))]
    return found


@pytest.mark.parametrize("room", rooms())
def test_a_room_is_in_plain_words(room: str) -> None:
    files = files_of(room)
    assert files
    faults = [fault for path in files for fault in faults_of(path)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('"""Sum the bytes that can_not be sent."""', "say 'can_not'"),
        ('"""What_the sum is."""', "start with the subject"),
        ('"""Return a bound, proved as L_3."""', "name the proof"),
        ("# It is_no bound.", "say 'is_no'"),
        ('"""Return it.\n\nParameters\n------\nlast\n    Whether_it is."""', "not 'Whether'"),
    ],
)
def test_a_fault_is_found(text: str, fault: str, tmp_path: Path) -> None:
    # With an underscore in place of the space this file itself is without fault.
    text, fault = (words.replace("L_", "L").replace("_", " ") for words in (text, fault))
    path = tmp_path / "module.py"
    path.write_text(text)
    assert any(fault in found for found in faults_of(path))


def test_plain_words_pass(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""Return the bound, by order search (L3)."""\n\nKEY = "What"\n# Why not.\n')
    assert faults_of(path) == []


@pytest.mark.parametrize("name", sorted(optsched.__all__))
def test_a_public_name_has_an_example(name: str) -> None:
    thing = getattr(optsched, name)
    assert ">>>" in (thing.__doc__ or ""), f"{name}: add an example that runs"


def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return a parser and those of all its commands."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [inner for sub in action.choices.values() for inner in parsers(sub)]
    return found


@pytest.mark.parametrize("screen", [COLUMNS, 3 * COLUMNS])
def test_help_fits_the_screen(screen: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(screen))
    found = parsers(make_parser())
    assert len(found) > len(COMMANDS)
    for parser in found:
        for line in parser.format_help().splitlines():
            assert len(line) <= COLUMNS, f"{parser.prog}: {line!r}"


def test_an_option_is_explained_in_a_few_lines() -> None:
    for parser in parsers(make_parser()):
        for action in parser._actions:
            words = len((action.help or "").split())
            assert words <= WORDS, f"{parser.prog} {action.option_strings}: {words} words of help"
