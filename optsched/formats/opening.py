"""From a path to the row of its format, and to what the row reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optsched.errors import FormatError, MissingDependencyError, UsageError
from optsched.formats.format import Content, Format, Source
from optsched.formats.source import STANDARD_STREAM, errors_named, label_of, read_bytes
from optsched.formats.table import FORMATS, find_format
from optsched.model.module import Module, module_of
from optsched.runtime.text import decoded, nearest

_SUFFIXES = (".json", ".csv", ".tflite", ".onnx", ".pte", ".pt2", ".hlo", ".txt", ".pickle", ".pkl")
"""What a file's name says of its format, which the name of a graph need not say again."""

_GENERAL = {"input_bytes", "pins", "graph", "dims", "profile"}
"""Options that are known whatever the file; those that its row does not take change nothing."""


def open_source(path: str | Path) -> Source:
    """Return a file's content, named after the file."""
    folder = "" if str(path) == STANDARD_STREAM else str(Path(path).parent)
    return Source(read_bytes(path), stem_of(path), folder)


def stem_of(path: str | Path) -> str:
    """Return the name of a file without its folder and what its suffixes say about it."""
    name = "stdin" if str(path) == STANDARD_STREAM else decoded(Path(path).name)
    stem = name.removesuffix(".gz")
    for suffix in _SUFFIXES:
        stem = stem.removesuffix(suffix)
    return stem or name


def expect(source: Source, wanted: Content) -> Format:
    """Return the row of a file that can be read and is what is wanted.

    It raises `FormatError` if no row knows the file, its row has no reader, or it holds something
    else.
    """
    row = find_format(source)
    if row.read is None:
        raise FormatError(f"this is {row.title} ({row.name}), which has no reader: {row.advice}")
    if row.holds is not wanted:
        raise FormatError(f"this is {row.holds} ({row.name}), {wanted} is wanted")
    return row


@contextmanager
def opened(path: str | Path, wanted: Content) -> Iterator[tuple[Format, Source]]:
    """Give the row and the content of a file that is what is wanted; errors here name the file."""
    source = open_source(path)
    with errors_named(label_of(path)):
        yield expect(source, wanted), source


def read_as(row: Format, source: Source, options: Mapping[str, Any]) -> Any:
    """Read a file with those of the options that its row knows.

    It raises as :func:`refuse_options`, and `MissingDependencyError` if a package of the row's
    extra is not installed.
    """
    assert row.read is not None
    refuse_options(row, options)
    with extra_named(row):
        return row.read(source, **{key: x for key, x in options.items() if key in row.options})


def refuse_options(row: Format, options: Mapping[str, Any]) -> None:
    """Refuse sizes of dimensions, or a profile, that are given for a format that takes none."""
    if options.get("dims") and "dims" not in row.options:
        raise UsageError(f"a file of format {row.name} has no dimensions that could be given")
    if options.get("profile") is not None and "profile" not in row.options:
        raise UsageError(f"a file of format {row.name} takes no profile")


def read_module_file(path: str | Path, options: Mapping[str, Any]) -> Module:
    """Read all computations of a file; of one that holds a single graph, that graph."""
    check_options(Content.GRAPH, options)
    with opened(path, Content.GRAPH) as (row, source):
        if row.modules is None:
            return module_of(read_as(row, source, options))
        refuse_options(row, options)
        return row.modules(source)


def read_file(path: str | Path, wanted: Content, **options: Any) -> Any:
    """Read a file of whatever format holds what is wanted."""
    check_options(wanted, options)
    with opened(path, wanted) as (row, source):
        return read_as(row, source, options)


def check_options(wanted: Content, options: Mapping[str, Any]) -> None:
    """Refuse an option that no format takes whose files hold what is wanted."""
    known = _GENERAL.union(*(row.options for row in FORMATS.values() if row.holds is wanted))
    for key in options:
        if key not in known:
            near = nearest(key, sorted(known))
            raise UsageError(f"no format that holds {wanted} has the option {key!r}{near}")


@contextmanager
def extra_named(row: Format) -> Iterator[None]:
    """Turn an import that fails in this block into an error that names the row's extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not row.extra:
            raise
        raise MissingDependencyError(error.name or row.extra, row.extra) from None
