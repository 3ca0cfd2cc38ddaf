"""Cycles among the ops of an ONNX model, which is refused because of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from optsched.formats.fields import show

_SHOWN: Final = 6
"""Ops of a cycle that a message names."""


def not_made_yet(reader: str, maker: str, read: Mapping[str, Iterable[str]]) -> str:
    """Return the end of a message about an op that reads what a later one, `maker`, makes.

    `read` are the ops from which each op reads, by name.
    """
    cycle = _path(reader, maker, read)
    later = f"which op {show(maker)} makes later"
    if not cycle:
        return f"{later}; sort the model's ops first"
    more = ["..."] if len(cycle) > _SHOWN else []
    names = " -> ".join([*map(show, cycle[:_SHOWN]), *more, show(reader)])
    return f"{later}, in a cycle: {names}"


def _path(first: str, last: str, read: Mapping[str, Iterable[str]]) -> list[str]:
    """Return ops from `first` to `last` where each reads from the one before; empty if none."""
    # Backwards from the maker: all that it reads from, until the reader is among it.
    next_op = {last: ""}
    stack = [last]
    while stack and first not in next_op:
        name = stack.pop()
        for source in read.get(name, ()):
            if source not in next_op:
                next_op[source] = name
                stack.append(source)
    if first not in next_op:
        return []
    found = [first]
    while next_op[found[-1]]:
        found.append(next_op[found[-1]])
    return found
