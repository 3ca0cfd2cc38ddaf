"""Table of formats; a file's format is found by its content, never by its name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any, TypeVar

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.format import Content, Format, Source
from optsched.formats.minimalloc import describe_table
from optsched.formats.rows import ROWS
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.runtime.keywords import keywords
from optsched.runtime.registry import check_owner

FORMATS: dict[str, Format] = {row.name: row for row in ROWS}
"""All known formats by name; :func:`register_format` adds to them."""

_Reader = TypeVar("_Reader", bound=Callable[..., Any])
_LOG = logging.getLogger(__name__)


@keywords
def register_format(
    name: str,
    sniff: Callable[[Source], bool],
    *,
    holds: Content = Content.GRAPH,
    options: Collection[str] = (),
    write: Callable[..., bytes] | None = None,
    orders: Callable[[Source], dict[str, tuple[int, ...]]] | None = None,
    apply: Callable[[Source, Graph, Plan], bytes] | None = None,
    binary: bool = False,
) -> Callable[[_Reader], _Reader]:
    """Register the decorated function as the reader of a format, also for the command line.

    Parameters
    ----------
    name, sniff, holds, options, write, orders, apply, binary
        As in :class:`optsched.formats.format.Format`. An installed package with an entry point in
        the group `optsched.formats` is loaded when a file is not of a built-in format.

    Raises
    ------
    UsageError
        If a format of this name already has another reader.

    Examples
    --------
    >>> from optsched import GraphBuilder
    >>> @register_format("chain", lambda source: source.text.startswith("chain "))
    ... def read_chain(source):
    ...     build = GraphBuilder(source.name)
    ...     for i, size in enumerate(source.text.split()[1:]):
    ...         reads = [f"t{i - 1}"] if i else []
    ...         build.op(f"op{i}", reads=reads, writes={f"t{i}": int(size)})
    ...     return build.build()
    >>> _ = FORMATS.pop("chain")
    """

    def register(read: _Reader) -> _Reader:
        known = FORMATS.get(name)
        # A format without a reader may get one.
        if known is not None and known.read is not None:
            check_owner("a format", name, known.read, read, "optsched.formats.FORMATS")
        FORMATS[name] = Format(
            *(name, holds, sniff, read, options, orders),
            write=write,
            apply=apply,
            binary=binary,
        )
        return read

    return register


def find_format(source: Source) -> Format:
    """Return the format of a file; raise `FormatError` for unknown content."""
    found = _first(source, readable=True)
    # Plug-ins are loaded for unknown files only: importing them takes time.
    if found is None:
        _load_plugins()
        found = _first(source, readable=True) or _first(source, readable=False)
    if found is None:
        # A defect of the text explains more than its first characters.
        raise source.trouble or FormatError(_describe(source))
    return found


@cache
def _load_plugins() -> None:
    """Load the formats of installed packages; one that fails to load is logged and skipped."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="optsched.formats"):
        try:
            entry.load()
        except Exception as error:
            _LOG.warning("plug-in %s of optsched.formats was skipped: %s", entry.name, error)


def _first(source: Source, *, readable: bool) -> Format | None:
    # Binary formats come first, so that files recognized by their bytes are never decoded.
    rows: Iterable[Format] = sorted(FORMATS.values(), key=lambda row: not row.binary)
    return next((r for r in rows if (r.read is not None) is readable and r.sniff(source)), None)


def _describe(source: Source) -> str:
    """Return an error text for a file of an unknown format."""
    if source.document or source.text.lstrip().startswith("{"):
        keys = ", ".join(show(key) for key in list(source.document)[:5])
        return f"unknown JSON format; its keys are {keys or 'none'}"
    if not source.text.strip():
        return "file is empty"
    if advice := describe_table(source.text):
        return advice
    start = show(source.text.strip()[:40])
    return f"unknown format (not JSON and not a MiniMalloc CSV), starts with {start}"
