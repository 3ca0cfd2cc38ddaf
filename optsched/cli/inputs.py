"""What several commands read from their arguments, and the files they protect."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from optsched.errors import UsageError

if TYPE_CHECKING:
    from optsched.model.graph import Graph
    from optsched.runtime.limits import Limits
    from optsched.solver.spill.pack import Pool


def read_graph(args: argparse.Namespace, path: str | Path) -> Graph:
    """Read a graph in the memory model that the options ask for."""
    from optsched.formats import read_graph
    from optsched.model.memory_model import MemoryModel

    graph = read_graph(path, input_bytes=args.input_bytes)
    if args.inplace and not graph.inplace_candidates:
        note = f"{path}: the file names no in-place candidates: --inplace changes nothing"
        print(note, file=sys.stderr)
    return MemoryModel(inplace=args.inplace).apply(graph)


def graph_files(paths: Sequence[str]) -> list[Path]:
    """Return the graph files named, and those in the folders named, in order."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*.json*") if p.suffix in (".json", ".gz"))
            if not inside:
                raise UsageError(f"{path}: no .json or .json.gz file in this folder")
            found += inside
        else:
            found.append(path)
    return found


def protect(outputs: Sequence[str | None], *inputs: str | None) -> None:
    """Refuse outputs that can not be, before anything is worked out.

    That is one without a folder, one that would overwrite an input, or two in one file, whatever
    names the file goes by.
    """
    given = [path for path in outputs if path]
    for number, output in enumerate(given):
        nowhere = os.path.isdir(output) or not Path(output).absolute().parent.is_dir()
        if nowhere and output != "-":
            raise UsageError(f"{output}: this is no file in a folder that exists")
        if output != "-" and any(path and _same_file(output, path) for path in inputs):
            raise UsageError(f"{output}: the output would overwrite an input")
        if any(_same_file(output, other) for other in given[:number]):
            raise UsageError(f"{output}: two outputs in one file")


def _same_file(one: str, other: str) -> bool:
    """Whether two names are of one file: spelled otherwise, or links. Devices bear to be shared."""
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other) and os.path.isfile(one)
    return os.path.realpath(one) == os.path.realpath(other)


def limits(args: argparse.Namespace) -> Limits:
    """Return the limits that the options ask for."""
    from optsched.runtime.limits import Limits

    seconds = args.time_limit if args.work is None else None
    return Limits(seconds=seconds, workers=args.workers, seed=args.seed, work=args.work)


def capacity(args: argparse.Namespace) -> int | None:
    """Return the capacity in bytes, if one was given."""
    from optsched.runtime.bytes import parse_bytes

    return None if args.capacity is None else parse_bytes(args.capacity)


def pools(args: argparse.Namespace) -> list[Pool]:
    """Return the slabs that --pool names, in order of preference."""
    from optsched.runtime.bytes import parse_bytes
    from optsched.solver.spill.pack import Pool

    found = []
    for text in args.pool:
        name, given, size = text.partition("=")
        if not name.strip():
            raise UsageError(f"--pool wants NAME or NAME=CAPACITY, got {text!r}")
        found.append(Pool(name.strip(), parse_bytes(size) if given else None))
    return found
