"""What one row of the table of formats says, and what a row is shown of a file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.source import decode_text, parse_json
from optsched.model.graph import Graph
from optsched.model.module import Module
from optsched.model.plan import Plan

CHOSEN = "chosen"
"""The order that the framework took, whatever it calls it."""


class Content(StrEnum):
    """What a file holds."""

    GRAPH = "a graph"
    PLAN = "a plan"
    PACKING = "a packing"
    MODULE_PLAN = "a plan of a module"
    MODULE_CERTIFICATE = "a certificate of a module"
    CERTIFICATE = "a certificate"


class InputBytes(StrEnum):
    """Which size a freed graph input has."""

    RECORDED = "recorded"
    """As Inductor recorded it, from the last read seen: agrees with Inductor's estimate."""
    TRUE = "true"
    """The bytes of the tensor: what memory really holds."""


class Source:
    """A file's content, decoded when a row first asks for its text, and once for all rows.

    `data` are the bytes, decompressed; `name` is that of the file without its folder and suffixes,
    what a graph without a name is called; `folder` is for formats that keep data beside the file.
    """

    def __init__(self, data: bytes, name: str = "graph", folder: str = "") -> None:
        self.data, self.name, self.folder = data, name, folder

    @property
    def text(self) -> str:
        """The text; empty if the bytes are no UTF-8."""
        return self._decoded[0]

    @property
    def document(self) -> Mapping[str, Any]:
        """The object, if the text is JSON; otherwise empty."""
        return self._decoded[1]

    @property
    def trouble(self) -> FormatError | None:
        """Why there is no text, or no object where the text looks like JSON; else None."""
        return self._decoded[2]

    @cached_property
    def _decoded(self) -> tuple[str, Mapping[str, Any], FormatError | None]:
        text = ""
        try:
            text = decode_text(self.data)
            if text.lstrip()[:1] in ("{", "["):
                value = parse_json(text)
                if isinstance(value, dict):
                    return text, value, None
                raise FormatError(f"expected a JSON object, got {show(value)}")
        except FormatError as error:
            return text, {}, error
        return text, {}, None

    def is_tagged(self, name: str) -> bool:
        """Whether this is a JSON object whose key `format` is this name and some version."""
        tag = self.document.get("format")
        return isinstance(tag, str) and tag.startswith(f"{name}/")


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
        `orders(source)` returns the orders of ops that the file records beside its graph, by name;
        given as well a `profile` if that is among the options.
    modules
        `modules(source)` returns the module that the graph is the entry of, where files of the
        format hold computations that call each other; its graphs take no options.
    write
        `write(thing, ...)` returns the bytes of a file; None for one that is only read.
    apply
        `apply(source, graph, plan)` returns the bytes of the file `source`, of which `graph` was
        read, changed so that its runtime follows the plan; None where no plan can be put in. The
        plan has passed the checker, and a reader's options are known to the graph alone.
    companions
        `companions(source)` returns the paths, in the folder of the file `source`, of files that
        it refers to; None where a file is complete by itself.
    binary
        Whether its files are no text. They are sniffed by their bytes alone, before all others.
    extra
        The extra of this project that installs what `read` and `apply` import; they import it
        inside, and whoever calls them turns a missing package into one line that names the extra.
    alignment
        Bytes that the allocator of the format's framework rounds sizes and offsets to, where that
        is known; nothing does so unless it is asked for.
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
    orders: Callable[..., dict[str, tuple[int, ...]]] | None = None
    modules: Callable[[Source], Module] | None = None
    write: Callable[..., bytes] | None = None
    apply: Callable[[Source, Graph, Plan], bytes] | None = None
    companions: Callable[[Source], Sequence[str]] | None = None
    binary: bool = False
    extra: str = ""
    alignment: int | None = None
    title: str = ""
    advice: str = ""
