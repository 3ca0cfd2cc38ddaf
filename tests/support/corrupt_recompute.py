"""Certificates of recompute with one field changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from optsched.check.recompute_rows import KINDS
from optsched.model.graph import Graph

Path = tuple[str | int, ...]


def corruptions(graph: Graph, document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of a field and the document with another value there, for all fields."""
    for path, value in _fields(document["tree"], ("tree",)):
        for other in _others(graph, path, value):
            changed = copy.deepcopy(document)
            place: Any = changed
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = other
            yield _name(document, path), changed
    for path in _branches(document["tree"], ("tree",)):
        changed = copy.deepcopy(document)
        place = changed
        for step in path:
            place = place[step]
        place["fewer"], place["more"] = place["more"], place["fewer"]
        yield "sides", changed


def _fields(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of each number and text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _fields(inner, (*path, i))
    else:
        yield path, value


def _branches(tree: dict[str, Any], path: Path) -> Iterator[Path]:
    if "ops" in tree:
        yield path
        for side in ("fewer", "more"):
            yield from _branches(tree[side], (*path, side))


def _others(graph: Graph, path: Path, value: Any) -> Iterator[Any]:
    if isinstance(value, int):
        yield from (value + 1, value - 1, 2 * value, 0, -1, None, "1", 0.5)
    elif value in KINDS and path[-1] == 0:
        yield from (kind for kind in (*KINDS, "other") if kind != value)
    else:
        yield from (name for name in (*graph.op_ids, *graph.buffer_ids, "other") if name != value)


def _name(document: dict[str, Any], path: Path) -> str:
    """Return the field's key, with the kind and the position for rows."""
    if "rows" not in path:
        return next(str(step) for step in reversed(path) if isinstance(step, str))
    row: Any = document
    for step in path[:-1]:
        row = row[step]
    return f"{row[0]} {path[-1]}"
