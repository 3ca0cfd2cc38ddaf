"""The table of formats: a row for each, found by what a file holds, never by its name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any, TypeVar

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.format import Content, Format, Source
from optsched.formats.rows import ROWS
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.runtime.keywords import keywords
from optsched.runtime.registry import check_owner

FORMATS: dict[str, Format] = {row.name: row for row in ROWS}
"""Every format that is known, by name; :func:`register_format` adds to them."""

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
    """Make the decorated function the reader of a format, for the command line as well.

    Parameters
    ----------
    name, sniff, holds, options, write, orders, apply, binary
        As in :class:`optsched.formats.format.Format`. A package that is installed with an entry
        point in the group `optsched.formats` has it loaded when a file is of no built-in format.

    Raises
    ------
    UsageError
        If a format of this name has another function as reader already.

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
    """Return the row of a file's format; refuse what no row knows, malformed JSON, and no text."""
    found = _first(source, readable=True)
    if found is None:
        _load_plugins()
        found = _first(source, readable=True) or _first(source, readable=False)
    if found is None:
        raise source.trouble or FormatError(_describe(source))
    return found


@cache
def _load_plugins() -> None:
    """Load what installed packages offer; one that can not be loaded is logged and left out."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="optsched.formats"):
        try:
            entry.load()
        except Exception as error:
            _LOG.warning("plug-in %s of optsched.formats is left out: %s", entry.name, error)


def _first(source: Source, *, readable: bool) -> Format | None:
    # Binary formats first: what one of them knows by its bytes need not be decoded for the others.
    rows: Iterable[Format] = sorted(FORMATS.values(), key=lambda row: not row.binary)
    return next((r for r in rows if (r.read is not None) is readable and r.sniff(source)), None)


def _describe(source: Source) -> str:
    """Say what a file of no known format looks like."""
    if source.document or source.text.lstrip().startswith("{"):
        keys = ", ".join(show(key) for key in list(source.document)[:5])
        return f"JSON of no known format; its keys are {keys or 'none'}"
    if not source.text.strip():
        return "the file is empty"
    start = show(source.text.strip()[:40])
    return f"no known format: neither JSON nor a MiniMalloc CSV, it starts with {start}"
