"""Data classes of the table of formats: a format's row, and the content of a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.source import decode_text, parse_json
from optsched.model.graph import Graph
from optsched.model.module import Module
from optsched.model.origin import ArenaTail
from optsched.model.plan import Plan

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a]")
"""Bytes that no text has."""
CHOSEN = "chosen"
"""Name of the order that the framework chose."""


class Content(StrEnum):
    """Kind of content of a file."""

    GRAPH = "a graph"
    PLAN = "a plan"
    REPEATS = "a plan with repeats"
    TILED = "a plan in row bands"
    UNFUSED = "a plan of unfused kernels"
    PACKING = "a packing"
    MODULE_PLAN = "a plan of a module"
    MODULE_CERTIFICATE = "a certificate of a module"
    CERTIFICATE = "a certificate"
    REPEATS_CERTIFICATE = "a certificate of repeats"
    TILED_CERTIFICATE = "a certificate of tilings"
    UNFUSED_CERTIFICATE = "a certificate of unfused kernels"
    COSTS = "costs of ops"


class InputBytes(StrEnum):
    """Source of the size of a freed graph input."""

    RECORDED = "recorded"
    """Size recorded by Inductor at the last read; agrees with Inductor's estimate."""
    TRUE = "true"
    """Bytes of the tensor, which memory really holds."""


class Source:
    """The content of a file, decoded once when a format first asks for it.

    `data` are the decompressed bytes. `name` is the file's name without folder and suffixes; it
    names a graph that has no name. `folder` is the file's folder, for formats with separate data
    files, and `path` its path; both are empty for a pipe.
    """

    def __init__(self, data: bytes, name: str = "graph", folder: str = "", path: str = "") -> None:
        self.data, self.name, self.folder, self.path = data, name, folder, path
        # What the reader of the graph leaves for that of its orders.
        self.kept: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """Text of the file; empty if the bytes are not UTF-8, or start like those of no text."""
        return self._decoded[0]

    @property
    def document(self) -> Mapping[str, Any]:
        """JSON object of the file; empty if the text is not one."""
        return self._decoded[1]

    @property
    def trouble(self) -> FormatError | None:
        """Error in the text, or in JSON that is not an object; None for valid content."""
        return self._decoded[2]

    @cached_property
    def _decoded(self) -> tuple[str, Mapping[str, Any], FormatError | None]:
        text = ""
        try:
            # A large file of bytes would be searched for words by each format of text.
            if _CONTROL.search(self.data, 0, 1024):
                start = self.data[:8].hex(" ")
                raise FormatError(f"unknown format: binary data that starts with the bytes {start}")
            text = decode_text(self.data)
            # Other text is left to its reader; only text that starts like JSON must be valid JSON.
            if text.lstrip()[:1] in ("{", "["):
                value = parse_json(text)
                if isinstance(value, dict):
                    return text, value, None
                raise FormatError(f"expected a JSON object, got {show(value)}")
        except FormatError as error:
            return text, {}, error
        return text, {}, None

    def is_tagged(self, name: str) -> bool:
        """Return True for a JSON object whose key `format` is this name and some version."""
        # The version is checked by the reader, which can say what it reads.
        tag = self.document.get("format")
        return isinstance(tag, str) and tag.startswith(f"{name}/")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts about a model file that need no sizes."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """`inputs` and `outputs`: name and shape of each, such as `x [batch, 3]`."""
    ops: Mapping[str, int]
    """Number of ops by type."""
    open: tuple[str, ...] = ()
    """Names of the open dimensions."""
    suggestion: str = ""
    """Options that give all open dimensions a usual size; empty without open dimensions."""
    settable: Collection[str] | None = None
    """All names that `dims` may have, also of dimensions inside the model; None if unknown."""


@dataclass(frozen=True, slots=True)
class Stock:
    """The way in which a framework plans memory on its own, to compare a plan of ours with."""

    title: str
    """Name of the method in a sentence, such as "TFLite Micro's own planner"."""
    methods: tuple[str, ...]
    """Methods of :mod:`optsched.compare.methods`; the first that the file can answer is used. A
    method without a packer is packed greedily by size."""
    noun: str = "slab"
    """Word for the bytes that the framework holds: "arena", "slab" or "peak"."""
    peak_only: bool = False
    """True if the framework has no slab, so that only the peak can be compared."""
    counts: str = ""
    """Words for what the bytes include in the framework's own memory model, which writes in place;
    empty if results do not say it."""
    counts_apart: str = ""
    """Words for what the bytes include if nothing is in place."""
    order_title: str = "the file's order"
    """Name of the framework's order in a sentence, such as "XLA's own schedule"."""
    orders: tuple[str, ...] = ()
    """Names under which a file may record that order; the first one there is used, and without any
    the order of the file."""
    measured_title: str = ""
    """Name of the way in which the framework's bytes are measured where it is installed."""
    measured_counts: str = ""
    """Words to add to those for what the bytes include, if those before are measured."""
    block: int = 1
    """Bytes to which the framework's allocator rounds up each buffer."""


class Session(Protocol):
    """A model that runs in its runtime with default settings, in a process of its own."""

    def held(self, seconds: float = ...) -> int | str:
        """Return the bytes held, or the reason why they are not known after some seconds."""
        ...

    def planned(self, order: Sequence[str], seconds: float = ...) -> int | str:
        """Return the bytes held with all ops in an order of names, or why they are not known."""
        ...


FILE_ORDER = Stock("the file's order, packed greedily by size", ("program",))
"""Plan of a file whose framework is unknown."""


@dataclass(frozen=True)
class Format:
    """A format: a row of the table with all that reading and writing need."""

    name: str
    """Short, unique name."""
    holds: Content
    """Kind of content of its files."""
    sniff: Callable[[Source], bool]
    """Predicate: returns True if a file has this format, from its content alone; must not raise."""
    read: Callable[..., Any] | None = None
    """`read(source, **options)` returns the graph, `(plan, claims)`, packing or certificate; None
    for a format that is only recognized."""
    options: Collection[str] = ()
    """Names of the options of `read`."""
    orders: Callable[..., dict[str, tuple[int, ...]]] | None = None
    """`orders(source)` returns the orders of ops that the file records besides its graph, by name;
    it also takes those of the options that `order_options` names."""
    modules: Callable[[Source], Module] | None = None
    """`modules(source)` returns the module whose entry is the graph, for files with computations
    that call each other; its graphs take no options."""
    write: Callable[..., bytes] | None = None
    """`write(thing, ...)` returns the bytes of a file; None for a format that is only read."""
    apply: Callable[[Source, Graph, Plan], bytes] | None = None
    """`apply(source, graph, plan)` returns the bytes of the file `source`, changed so that its
    runtime follows the plan; None if the format cannot store plans. `graph` was read from `source`,
    and the plan has passed the checker. Options of the reader affect only the graph."""
    companions: Callable[[Source], Sequence[str]] | None = None
    """`companions(source)` returns the paths of files in the same folder that the file `source`
    refers to; None for self-contained files."""
    binary: bool = False
    """True if the files are not text. They are recognized by their bytes, before all others."""
    extra: str = ""
    """Extra of this project that installs the packages that `read` and `apply` import. They import
    inside the function; callers turn a missing package into an error that names the extra."""
    alignment: int | None = None
    """Bytes to which the allocator of the format's framework rounds sizes and offsets, if known;
    used only on request."""
    title: str = ""
    """Description of such a file in messages; `holds` by default."""
    advice: str = ""
    """Advice for users of a format that is only recognized."""
    stock: Stock = FILE_ORDER
    """Plan of the format's framework (default: the order of the file, packed greedily)."""
    order_options: Collection[str] = ()
    """Names of the options of `orders`: of `dims` and `profile`."""
    held: Callable[..., int | None] | None = None
    """`held(source)` returns the bytes that the framework holds for a file as it is, by its own
    rules, or None; it takes the same options as `orders`."""
    tails: Callable[..., tuple[ArenaTail, ...]] | None = None
    """`tails(source)` returns what the framework keeps after the slab, as
    :attr:`~optsched.model.origin.Origin.tails`; it takes the same options as `orders`."""
    session: Callable[[Graph], Session] | None = None
    """`session(graph)` returns a run of the graph's file in its runtime with default settings,
    which :attr:`Session.held` measures; None if the runtime is not run to know what it holds."""
    writes_in_place: bool = False
    """True if `held` counts bytes that ops overwrite once, as the graph does with in-place
    pairs."""
    describe: Callable[[Source], FileFacts] | None = None
    """`describe(source)` returns what a file says without the sizes that a plan needs."""
    endings: Collection[str] = ()
    """Endings of the files of a folder that are read as graphs of this format, each also with `.gz`
    added; text files (`.txt`) are looked into first."""
    load: str = ""
    """Instruction for a file into which a plan was written, at `{output}`; `{slab}` is its slab in
    bytes."""
