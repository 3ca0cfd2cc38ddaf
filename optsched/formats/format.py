"""What one row of the table of formats says, and what a row is shown of a file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.source import decode_text, parse_json


class Content(StrEnum):
    """What a file holds."""

    GRAPH = "a graph"
    PLAN = "a plan"
    PACKING = "a packing"
    CERTIFICATE = "a certificate"


class Source:
    """A file's content, decoded once for all rows that look at it.

    Parameters
    ----------
    data
        The bytes, decompressed.
    name
        Of the file, without its folder and suffixes: what a graph without a name is called.

    Attributes
    ----------
    text
        The text; empty if the bytes are no UTF-8.
    document
        The object, if the text is JSON; otherwise empty.
    trouble
        Why there is no text, or no object where the text looks like JSON; None if all is well.
    """

    def __init__(self, data: bytes, name: str = "graph") -> None:
        self.data, self.name = data, name
        self.text = ""
        self.document: Mapping[str, Any] = {}
        self.trouble: FormatError | None = None
        try:
            self.text = decode_text(data)
            if self.text.lstrip()[:1] in ("{", "["):
                self.document = _object(parse_json(self.text))
        except FormatError as error:
            self.trouble = error

    def is_tagged(self, name: str) -> bool:
        """Whether this is a JSON object whose key `format` is this name and some version."""
        tag = self.document.get("format")
        return isinstance(tag, str) and tag.startswith(f"{name}/")


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"expected a JSON object, got {show(value)}")
    return value


@dataclass(frozen=True)
class Format:
    """A row of the table: all that reading and writing ask of a format.

    Parameters
    ----------
    name
        Short, unique.
    holds
        What its files hold.
    sniff
        Whether a file is of this format, by its content alone; must not raise.
    read
        `read(source, **options)` returns the graph, `(plan, claims)`, packing or certificate;
        None for a format that is only recognised.
    options
        Names of the options that `read` takes.
    orders
        Returns the orders of ops that the file records beside its graph, by name.
    write
        `write(thing, ...)` returns the bytes of a file; None for one that is only read.
    title
        What messages call such a file, `holds` by default.
    advice
        What to do with a file that can only be recognised.
    """

    name: str
    holds: Content
    sniff: Callable[[Source], bool]
    read: Callable[..., Any] | None = None
    options: Collection[str] = ()
    orders: Callable[[Source], dict[str, tuple[int, ...]]] | None = None
    write: Callable[..., bytes] | None = None
    title: str = ""
    advice: str = ""
