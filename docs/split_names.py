"""Extension of griffe: parameters that share a description get a row each, with their own type."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

GROUP = re.compile(r"^(\w+(?:, \w+)+)\n((?:[ \t]+\S.*\n?|\n)+)", re.MULTILINE)


def split_names(text: str) -> str:
    """Return a docstring in which each parameter has an entry of its own."""
    head, mark, rest = text.partition("Parameters\n----------\n")

    def split(found: re.Match[str]) -> str:
        body = found[2].rstrip() + "\n"
        return "".join(f"{name}\n{body}" for name in found[1].split(", ")) + "\n" * (
            len(found[2]) - len(found[2].rstrip()) - 1
        )

    return head + mark + GROUP.sub(split, rest)


class SplitNames(Extension):
    """Called for each object whose docstring is read."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = split_names(obj.docstring.value)
