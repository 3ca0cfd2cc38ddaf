"""Sizes of rooms, and imports of files: what is added to a room is paid for in the table.

A commit that needs more lines in a room raises its number here and says why in its message.
"""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("optsched", "heuristics")
ALL = (*PRODUCT, "tests", "experiments")

# Measured, and 1 % for work that is under way.
MOST_LINES = {
    "heuristics": 3_960,
    "optsched": 1_109,
    "optsched/certificate": 1_426,
    "optsched/check": 5_515,
    "optsched/cli": 4_260,
    "optsched/compare": 2_452,
    "optsched/counterexamples": 2_056,
    "optsched/explanation": 841,
    "optsched/fleet": 1_816,
    "optsched/formats": 19_220,
    "optsched/joint": 5_436,
    "optsched/measure": 1_667,
    "optsched/model": 9_368,
    "optsched/ordering": 9_668,
    "optsched/packing": 4_005,
    "optsched/plugins": 12_738,
    "optsched/reports": 5_961,
    "optsched/runtime": 3_598,
    "optsched/solver": 13_773,
    "optsched/store": 2_661,
}
"""Maximum of lines by room, without the lines of rooms inside it; `heuristics` is one room."""


def files(tops: tuple[str, ...] = PRODUCT) -> dict[str, Path]:
    """Return all files of some folders by module name."""
    paths = [path for top in tops for path in (ROOT / top).rglob("*.py")]
    dotted = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths}
    return {name.removesuffix(".__init__"): path for path, name in dotted.items()}


def room_of(path: Path) -> str:
    top, *rest = path.relative_to(ROOT).parts
    return f"{top}/{rest[0]}" if top == "optsched" and len(rest) > 1 else top


@cache
def names_of(path: Path) -> tuple[set[str], set[str]]:
    """Return what a file imports at any place, also for type checkers only, and what it names.

    Its names are all that occur in it, also as a string, as those of lazy imports do.
    """
    wanted: set[str] = set()
    own: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            own.add(node.id)
        elif isinstance(node, ast.Constant):
            own.add(str(node.value))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            own.update(alias.asname or alias.name for alias in node.names)
            if isinstance(node, ast.Import):
                wanted.update(alias.name for alias in node.names)
            elif node.module:
                # The import of a file from its package is one of that file, not of the package.
                wanted.update(f"{node.module}.{alias.name}" for alias in node.names)
    return wanted, own


def imports_between_files() -> dict[str, set[str]]:
    known = files()
    found = {}
    for name, path in known.items():
        targets = {x if x in known else x.rpartition(".")[0] for x in names_of(path)[0]}
        found[name] = {x for x in targets if x in known and x != name}
    return found


def lines_by_room() -> dict[str, int]:
    sizes = dict.fromkeys(MOST_LINES, 0)
    for path in files().values():
        room = room_of(path)
        sizes[room] = sizes.get(room, 0) + len(path.read_text(encoding="utf-8").splitlines())
    return sizes


def test_no_room_has_more_lines_than_its_budget() -> None:
    sizes = lines_by_room()
    assert set(sizes) == set(MOST_LINES)
    too_large = {room: size for room, size in sizes.items() if size > MOST_LINES[room]}
    assert too_large == {}, "delete as much, or raise MOST_LINES in this commit and say why"


def test_no_circle_of_files() -> None:
    graph = imports_between_files()
    assert len(graph) > 500
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_imports_name_what_is_there() -> None:
    """Tests that few runs collect and imports inside functions would fail later."""
    known = files(ALL)
    missing = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in known.values()
        for target in names_of(path)[0]
        if target.partition(".")[0] in ALL and target not in known
        for module, _, name in [target.rpartition(".")]
        if module not in known or name not in names_of(known[module])[1]
    ]
    assert missing == []
