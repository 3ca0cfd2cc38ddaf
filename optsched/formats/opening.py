"""Opening of files: from a path to the file's format, and to the data that is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from optsched.errors import FormatError, MissingDependencyError, UnknownDimensionError, UsageError
from optsched.formats.format import Content, Format, Source
from optsched.formats.pipes import STANDARD_STREAM, is_pipe
from optsched.formats.source import errors_named, label_of, read_bytes
from optsched.formats.table import FORMATS, find_format
from optsched.model.graph import Graph
from optsched.model.module import Module, module_of
from optsched.model.origin import Origin
from optsched.runtime.collector import paused_collector
from optsched.runtime.text import decoded, nearest

_SUFFIXES = (".json", ".csv", ".tflite", ".onnx", ".pte", ".pt2", ".hlo", ".txt", ".pickle", ".pkl")
"""Suffixes that describe the format and are left out of a graph's name."""

_GENERAL = {"input_bytes", "pins", "graph", "dims", "profile"}
"""Options accepted for every file; formats that do not have them ignore them."""


def open_source(path: str | Path) -> Source:
    """Return a file's content, named after the file."""
    folder, full = ("", "") if is_pipe(path) else (str(Path(path).parent), os.path.abspath(path))
    return Source(read_bytes(path), stem_of(path), folder, full)


def stem_of(path: str | Path) -> str:
    """Return the name of a file without its folder and known suffixes."""
    name = "stdin" if str(path) == STANDARD_STREAM else decoded(Path(path).name)
    # .gz first, as in model.onnx.gz.
    stem = name.removesuffix(".gz")
    for suffix in _SUFFIXES:
        stem = stem.removesuffix(suffix)
    return stem or name


def expect(source: Source, wanted: Content) -> Format:
    """Return the format of a file that can be read and has the wanted content.

    `FormatError` is raised if the format is unknown, has no reader, or holds something else.
    """
    # A foreign format is known, so that the message can say what to do instead.
    row = find_format(source)
    if row.read is None:
        raise FormatError(f"cannot read {row.title} ({row.name}): {row.advice}")
    if row.holds is not wanted:
        raise FormatError(f"expected {wanted}, got {row.holds} ({row.name})")
    return row


@contextmanager
def opened(path: str | Path, wanted: Content) -> Iterator[tuple[Format, Source]]:
    """Yield the format and the content of a file with the wanted content; errors name the file."""
    source = open_source(path)
    with errors_named(label_of(path)):
        yield expect(source, wanted), source


def read_as(row: Format, source: Source, options: Mapping[str, Any]) -> Any:
    """Read a file with those options that its format has.

    Errors are those of :func:`refuse_options`, and `MissingDependencyError` if a package of the
    format's extra is not installed.
    """
    assert row.read is not None
    refuse_options(row, options)
    with extra_named(row):
        found = row.read(source, **{key: x for key, x in options.items() if key in row.options})
        if not isinstance(found, Graph):
            return found
        origin = _origin_of(row, source, options, found)
        if row.tails is not None:
            origin = replace(origin, tails=row.tails(source, **_order_options(row, options)))
    # A graph whose recorded orders cannot be read is still a graph; the error is kept for those
    # who ask for the orders.
    return found.read_from(origin, options.get("dims") or {})


def _origin_of(row: Format, source: Source, options: Mapping[str, Any], graph: Graph) -> Origin:
    try:
        origin = Origin(row.name, read_orders(row, source, options))
    except FormatError as error:
        origin = Origin(row.name, trouble=str(error))
    return replace(origin, held=_held(row, source, options, graph), file=source.path)


def _held(row: Format, source: Source, options: Mapping[str, Any], graph: Graph) -> dict[str, int]:
    """Return what the framework holds, by the memory model that counts bytes as it does."""
    if row.held is None:
        return {}
    # The graph can be planned also where its framework would refuse the file.
    with suppress(FormatError):
        found = row.held(source, **_order_options(row, options))
        counted = graph.with_inplace() if row.writes_in_place else graph
        return {} if found is None else {counted.model_name: found}
    return {}


def read_orders(
    row: Format, source: Source, options: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """Return the orders that a graph's file records, with those options that they depend on."""
    if row.orders is None:
        return {}
    return row.orders(source, **_order_options(row, options))


def _order_options(row: Format, options: Mapping[str, Any]) -> dict[str, Any]:
    # Options with a value only: a reader's own default stays.
    return {key: options[key] for key in row.order_options if options.get(key)}


def refuse_options(row: Format, options: Mapping[str, Any]) -> None:
    """Raise `UsageError` for dimensions or a profile if the format does not use them."""
    if options.get("dims") and "dims" not in row.options:
        error = UnknownDimensionError(f"{row.name} files have no open dimensions to give")
        error.dimension = next(iter(options["dims"]))
        raise error
    if options.get("profile") is not None and "profile" not in row.options:
        raise UsageError(f"{row.name} files do not use a profile")


# The collector would go through all values of a large file again and again.
@paused_collector()
def read_module_file(path: str | Path, options: Mapping[str, Any]) -> Module:
    """Read all computations of a file; a file with a single graph becomes a module of it."""
    check_options(Content.GRAPH, options)
    with opened(path, Content.GRAPH) as (row, source):
        if row.modules is None:
            # A single graph is a module with one computation.
            return module_of(read_as(row, source, options))
        refuse_options(row, options)
        found = row.modules(source)
        entry = found.graphs[found.entry]
        entry = entry.read_from(_origin_of(row, source, options, entry))
        return replace(found, graphs={**found.graphs, found.entry: entry})


@paused_collector()
def read_file(path: str | Path, wanted: Content, **options: Any) -> Any:
    """Read a file of any format with the wanted content."""
    check_options(wanted, options)
    with opened(path, wanted) as (row, source):
        return read_as(row, source, options)


def check_options(wanted: Content, options: Mapping[str, Any]) -> None:
    """Raise `UsageError` for an option that no format with the wanted content has."""
    known = _GENERAL.union(*(row.options for row in FORMATS.values() if row.holds is wanted))
    # Options of other formats pass: one command reads files of several kinds.
    for key in options:
        if key not in known:
            near = nearest(key, sorted(known))
            raise UsageError(f"no format for {wanted} has an option {key!r}{near}")


@contextmanager
def extra_named(row: Format) -> Iterator[None]:
    """Turn a failed import in this block into an error that names the format's extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not row.extra:
            raise
        raise MissingDependencyError(error.name or row.extra, row.extra) from None
