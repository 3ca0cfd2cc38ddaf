"""What commands share: how they read their arguments, print what they found, and end."""

from __future__ import annotations

import argparse
import json
import os
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from optsched.errors import OptschedError, UsageError
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.limits import Limits, StopReason
from optsched.runtime.text import decoded, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from optsched.formats.reading import GraphReading
    from optsched.model.graph import Graph
    from optsched.model.module import Module
    from optsched.model.pools import Pool

OK, CHECK_FAILED, BAD_INPUT, UNPROVED = 0, 1, 2, 3
DOES_NOT_FIT, NOTHING_FOUND, INTERRUPTED = 4, 5, 130
INPUTS = ("graph", "plan", "certificate", "packing", "warm_start", "baseline", "source")
"""Arguments that name files to read."""
GRAPH_ENDINGS = (".json", ".tflite", ".onnx", ".pt2", ".hlo", ".txt")
"""What names of files end in, but for `.gz`, that are taken for graphs where a folder is given."""
NON_TTY_WIDTH = 120
MODEL_PACKAGES = {".tflite": "tflite", ".onnx": "onnx"}
"""Packages, and extras of the same name, without which such models of a folder are left out."""


def exit_code(status: str, stop_reason: StopReason) -> int:
    """Return the exit code of a result."""
    if stop_reason == "interrupted":
        return INTERRUPTED
    if status == "infeasible":
        return DOES_NOT_FIT
    if status == "unknown":
        return NOTHING_FOUND
    return OK if status == "optimal" or stop_reason == "decided" else UNPROVED


def fail(message: str, code: int) -> int:
    """Say in one line on standard error what went wrong; return `code`."""
    print(f"optsched: error: {plain(' '.join(message.split()))}", file=sys.stderr)
    return code


def say(text: str, stream: TextIO | None = None) -> None:
    """Print words for people; whatever names are in them, the terminal gets none of it raw."""
    print(plain(text), file=stream or sys.stdout)


def console() -> Console:
    """Return the console that tables are printed on; a pipe has no width of its own."""
    from rich.console import Console

    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if has_width else NON_TTY_WIDTH, highlight=False)


def print_result(args: argparse.Namespace, record: dict[str, Any], text: str) -> None:
    """Print the record where --json asks for it, else the text."""
    if args.json:
        print_json(args, record)
    else:
        say(text)


def print_json(args: argparse.Namespace, record: dict[str, Any]) -> None:
    """Print one JSON object, with the settings that it came about with."""
    used = {**settings(args), **record.get("settings", {})}
    json.dump(_all_decoded({**record, "settings": used}), sys.stdout, indent=2)
    sys.stdout.write("\n")


def _all_decoded(value: Any) -> Any:
    """Return a record without halves of surrogate pairs, which not every reader of JSON takes."""
    if isinstance(value, str):
        # A name may well spell such a half, backslash and all.
        return value if value.isprintable() else decoded(value)
    if isinstance(value, dict):
        return {_all_decoded(key): _all_decoded(inner) for key, inner in value.items()}
    return [*map(_all_decoded, value)] if isinstance(value, list | tuple) else value


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return what one needs to know to run a command again: options, files, machine, version."""
    from optsched.runtime.facts import machine, versions

    given = vars(args).items()
    aside = (*INPUTS, "command", "parser", "json")
    options = {name: value for name, value in given if name not in aside}
    named = [value for name, value in given if name in INPUTS and value]
    paths = [path for value in named for path in ([value] if isinstance(value, str) else value)]
    if options.get("work") is not None or options.get("time_limit") == float("inf"):
        options["time_limit"] = None
    return {
        "version": versions()["optsched"],
        "options": options,
        "files": {path: _digest(path) for path in paths},
        "machine": machine(),
    }


def _digest(path: str) -> str | None:
    """Return the SHA-256 of a file; None of what can not be read twice."""
    import hashlib

    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_graph(args: argparse.Namespace, path: str | Path, *, ordered: bool = True) -> Graph:
    """Read a graph in the memory model that the options ask for, and under their order rules."""
    how = reading(args)
    graph = how.read(path) if ordered else how.read_unordered(path)
    if args.inplace and not graph.inplace_candidates:
        _say_no_candidates(path)
    return graph


def read_module(args: argparse.Namespace, path: str | Path) -> Module:
    """Read all computations of a file in the memory model that the options ask for."""
    module = reading(args).read_module(path)
    if args.inplace and not any(graph.inplace_candidates for graph in module.graphs.values()):
        _say_no_candidates(path)
    return module


def _say_no_candidates(path: str | Path) -> None:
    note = f"{path}: the file names no in-place candidates: --inplace changes nothing"
    print(note, file=sys.stderr)


def reading(args: argparse.Namespace) -> GraphReading:
    """Return how the options ask for graphs to be read."""
    from optsched.formats.reading import GraphReading

    dims: dict[str, int] = {}
    for text in args.dim:
        name, _, size = (part.strip() for part in text.rpartition("="))
        if not name or not size.isdecimal() or len(size) > 12 or int(size) < 1:
            raise UsageError(f"--dim wants NAME=N with N of at least 1, got {text!r}")
        if name in dims:
            raise UsageError(f"--dim gives {name!r} twice")
        dims[name] = int(size)
    named = (
        "input_bytes",
        "profile",
        "inplace",
        "align",
        "workspace_apart",
        "constants",
        "streams",
    )
    given = {name: value for name in named if (value := getattr(args, name, None))}
    first, last, keep_order = (
        tuple(tuple(text.split(",")) for text in getattr(args, name, ()))
        for name in ("first", "last", "keep_order")
    )
    return GraphReading(
        dims=tuple(dims.items()),
        first=tuple(chain(*first)),
        last=tuple(chain(*last)),
        keep_order=keep_order,
        **given,
    )


def graph_files(paths: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the graph files named, and those in the folders named, and whether each is named."""
    found: list[tuple[str, bool]] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(filter(_may_hold_graph, path.rglob("*")))
            if not inside:
                raise UsageError(f"{path}: no {', '.join(GRAPH_ENDINGS)} file in this folder")
            found += [(str(p), False) for p in _readable_here(path, inside)]
        else:
            found.append((str(path), True))
    return found


def _may_hold_graph(path: Path) -> bool:
    """Whether a file of a folder goes by a graph's name; a text must be one, most are notes."""
    name = path.name.removesuffix(".gz")
    return name.endswith(GRAPH_ENDINGS) and (not name.endswith(".txt") or _holds_graph(path))


def _holds_graph(path: Path) -> bool:
    from optsched.formats import sniff_file
    from optsched.formats.format import Content

    try:
        return sniff_file(path).holds is Content.GRAPH
    except OptschedError:
        return False


def _readable_here(folder: Path, files: Sequence[Path]) -> Sequence[Path]:
    """Leave out the models of a folder whose package is not installed, and say so."""
    from importlib.util import find_spec

    missing = [end for end, package in MODEL_PACKAGES.items() if find_spec(package) is None]
    kept = [path for path in files if path.suffix not in missing]
    for end in missing:
        count = sum(path.suffix == end for path in files)
        if count:
            install = f"pip install 'optsched[{MODEL_PACKAGES[end]}]'"
            print(f"{folder}: {count} {end} files are left out: {install}", file=sys.stderr)
    if not kept:
        raise UsageError(f"{folder}: none of its files can be read here")
    return kept


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


def given(args: argparse.Namespace, *names: str) -> list[str]:
    """Return those of some options that were given, as they are written; 0 is given, too."""
    return [
        f"--{name.replace('_', '-')}"
        for name in names
        if (x := getattr(args, name, None)) is not None and x is not False and x != []
    ]


def add_saving(
    args: argparse.Namespace, what: Graph | Module, record: dict[str, Any], text: str, **of: Any
) -> str:
    """Put the saving against the framework's own plan into a record; return it before the text.

    `of` has the figures of the plan, as for :func:`optsched.compare.saving.saving`. `what` is
    planned by the framework without order rules.
    """
    from optsched.compare.saving import saving, stock_plan

    known = stock_plan(what, args.graph, profile=args.profile or "")
    found = saving(known, **of)
    record["saving"] = found.to_dict()
    return f"{found}\n{text}"


def limits(args: argparse.Namespace) -> Limits:
    """Return the limits that the options ask for."""
    seconds = args.time_limit if args.work is None else None
    return Limits(seconds=seconds, workers=args.workers, seed=args.seed, work=args.work)


def capacity(args: argparse.Namespace) -> int | None:
    """Return the capacity in bytes, if one was given."""
    return None if args.capacity is None else parse_bytes(args.capacity)


def pools(args: argparse.Namespace) -> list[Pool]:
    """Return the slabs that --pool names, in order of preference."""
    if not args.pool:
        return []
    from optsched.model.pools import Pool

    found = []
    for text in args.pool:
        name, given, size = text.partition("=")
        if not name.strip():
            raise UsageError(f"--pool wants NAME or NAME=CAPACITY, got {text!r}")
        found.append(Pool(name.strip(), parse_bytes(size) if given else None))
    return found
