"""All imports of tests, fuzzers and studies exist: most of them run seldom."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = ("optsched", "heuristics")


def imported_names() -> Iterator[tuple[str, str, str]]:
    """Yield file, module and name of each `from MODULE import NAME` of the product."""
    for path in (*ROOT.glob("tests/**/*.py"), *ROOT.glob("experiments/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
                for alias in node.names:
                    yield str(path.relative_to(ROOT)), node.module or "", alias.name


def is_there(module: str, name: str) -> bool:
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        # A package of an extra that is not installed, not one of ours.
        return (error.name or "").split(".")[0] not in OURS
    if hasattr(found, "__path__") and find_spec(f"{module}.{name}") is not None:
        return True
    return hasattr(found, name)


def test_whatever_is_imported_from_the_product_is_there() -> None:
    asked = set(imported_names())
    known = {(module, name): is_there(module, name) for _, module, name in asked}
    assert len(known) > 500
    assert [found for found in sorted(asked) if not known[found[1:]]] == []


def imported_modules(room: str) -> Iterator[tuple[str, str]]:
    """Yield file and module of each `from MODULE import` of a room."""
    for path in ROOT.glob(f"{room}/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                yield str(path.relative_to(ROOT)), node.module or ""


def test_tests_import_no_study_and_studies_no_test() -> None:
    assert [x for x in imported_modules("tests") if x[1].startswith("experiments")] == []
    # Graphs, models, oracles and measuring devices that both use; no test is among them.
    shared = ("tests.support", "tests.support.")
    taken = [x for x in imported_modules("experiments") if x[1].split(".")[0] == "tests"]
    assert [x for x in taken if not (x[1] == shared[0] or x[1].startswith(shared[1]))] == []
