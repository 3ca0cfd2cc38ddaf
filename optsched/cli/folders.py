"""Graph files among the arguments of a command: files, and files in folders.

Example: `compare net.onnx graphs` measures the model, and each graph that it finds in `graphs` and
in the folders in it. A file given by name that is not a graph is an error; in a folder it is passed
over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from optsched.errors import OptschedError, UsageError, packages_of
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.text import counted

MOST_ENTRIES = 100_000
"""Files and folders in a folder that are looked at, so that `/` by mistake is noticed early."""


def graph_files(paths: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the graph files given, and those in folders given, each with True if given itself.

    Raise `UsageError` if a folder holds no graph file, or more than :data:`MOST_ENTRIES` files and
    folders.
    """
    found: list[tuple[str, bool]] = []
    endings = _graph_endings()
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(x for x in _entries(path) if _may_hold_graph(x, tuple(endings)))
            if not inside:
                raise UsageError(f"{path}: no {', '.join(endings)} file in this folder")
            found += [(str(p), False) for p in _readable_here(path, inside, endings)]
        else:
            found.append((str(path), True))
    return found


def _graph_endings() -> dict[str, str]:
    """Return the extra that reads the files of a folder with each ending; empty if none does."""
    from optsched.formats.table import FORMATS

    return {ending: row.extra for row in FORMATS.values() for ending in row.endings}


def _entries(folder: Path) -> Iterator[Path]:
    """Yield the files and folders in a folder, and in those; Ctrl-C ends that."""
    count = 0
    # Folders that may not be read, or are gone by then, are left out.
    for place, folders, files in os.walk(folder):
        take_interrupt()
        count += len(folders) + len(files)
        if count > MOST_ENTRIES:
            raise UsageError(
                f"{folder}: more than {MOST_ENTRIES:,} files and folders in this folder; give the "
                "folders of the graphs, or the graphs"
            )
        yield from (Path(place, name) for name in (*folders, *files))


def _may_hold_graph(path: Path, endings: tuple[str, ...]) -> bool:
    """Return True if a file of a folder may be a graph; text files are looked into first."""
    name = path.name.removesuffix(".gz")
    return name.endswith(endings) and (not name.endswith(".txt") or _holds_graph(path))


def _holds_graph(path: Path) -> bool:
    from optsched.formats import sniff_file
    from optsched.formats.format import Content

    try:
        # A pipe to which nobody writes would never end.
        return path.is_file() and sniff_file(path).holds is Content.GRAPH
    except (OSError, OptschedError):
        return False


def _readable_here(
    folder: Path, files: Sequence[Path], endings: Mapping[str, str]
) -> Sequence[Path]:
    """Skip the models of a folder whose package is not installed, with a note for each kind."""
    from importlib.util import find_spec

    # The extra of a format is named after the package that reads it.
    extras = {end: extra for end, extra in endings.items() if extra}
    missing = [end for end, extra in extras.items() if find_spec(extra) is None]
    kept = [path for path in files if path.suffix not in missing]
    for end in missing:
        count = sum(path.suffix == end for path in files)
        if count:
            install = f"pip install {packages_of(extras[end])}"
            left_out = f"{folder}: {counted(count, f'{end} file')} left out: {install}"
            print(left_out, file=sys.stderr)
    if not kept:
        raise UsageError(f"{folder}: the packages to read its files are not installed")
    return kept
