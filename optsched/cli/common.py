"""Helpers shared by the commands: reading arguments, printing results, exit codes."""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import sys
from dataclasses import fields, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from optsched.errors import UsageError
from optsched.reports.tables import print_line
from optsched.reports.terminal import console
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.limits import Limits, StopReason
from optsched.runtime.text import decoded, ending_of, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from optsched.formats.reading import GraphReading
    from optsched.model.graph import Graph
    from optsched.model.module import Module
    from optsched.model.origin import ArenaTail
    from optsched.model.pools import Pool
    from optsched.runtime.clock import Clock

OK, CHECK_FAILED, BAD_INPUT, UNPROVED = 0, 1, 2, 3
DOES_NOT_FIT, NOTHING_FOUND, INTERRUPTED = 4, 5, 130
INPUTS = ("graph", "plan", "certificate", "packing", "warm_start", "baseline", "source")
"""Arguments that name files to read."""
AUTO = "auto"
"""Value of --dim that leaves all sizes to the reader."""
OUTPUTS = ("output", "certificate", "page", "csv", "markdown", "report", "png", "svg", "trace")
"""Arguments that name files to write."""


def exit_code(status: str, stop_reason: StopReason) -> int:
    """Return the exit code of a result."""
    if stop_reason == "interrupted":
        return INTERRUPTED
    if status == "infeasible":
        return DOES_NOT_FIT
    if status == "unknown":
        return NOTHING_FOUND
    # DECIDED: a capacity question was answered, so that the result is final although not optimal.
    return OK if status == "optimal" or stop_reason == "decided" else UNPROVED


def fail(message: str, code: int) -> int:
    """Print an error as one line on standard error; return `code`."""
    print(f"optsched: error: {plain(' '.join(message.split()))}", file=sys.stderr)
    return code


def show(text: str, stream: TextIO | None = None) -> None:
    """Print text for people, on a terminal in color; control characters in names are escaped."""
    if stream is None and sys.stdout.isatty():
        print_line(console(), text)
    else:
        print(plain(text), file=stream or sys.stdout)


def print_result(args: argparse.Namespace, record: dict[str, Any], text: str) -> None:
    """Print the record if --json is given, else the text."""
    if args.json:
        print_json(args, record)
    else:
        show_beside(args, text)


def show_beside(args: argparse.Namespace, text: str) -> None:
    """Print text for people; on standard error if a file is written to standard output."""
    show(text, sys.stderr if printed_files(args) else None)


def printed_files(args: argparse.Namespace) -> list[str]:
    """Return the options whose file is standard output."""
    return [f"--{name}" for name in OUTPUTS if getattr(args, name, None) == "-"]


def refuse_mixed(args: argparse.Namespace) -> None:
    """Refuse to print JSON and a file, which no program could tell apart."""
    printed = printed_files(args)
    if printed and args.json:
        raise UsageError(f"--json prints on standard output: give {printed[0]} a file's name")


def print_json(args: argparse.Namespace, record: dict[str, Any]) -> None:
    """Print one JSON object, with the settings of the command added."""
    used = {**settings(args), **record.get("settings", {})}
    json.dump(_all_decoded({**record, "settings": used}), sys.stdout, indent=2)
    sys.stdout.write("\n")


def _all_decoded(value: Any) -> Any:
    """Return a record without lone surrogates, which some readers of JSON reject."""
    if isinstance(value, str):
        # A name may contain the text of such an escape, backslash included.
        return value if value.isprintable() else decoded(value)
    if isinstance(value, dict):
        return {_all_decoded(key): _all_decoded(inner) for key, inner in value.items()}
    return [*map(_all_decoded, value)] if isinstance(value, list | tuple) else value


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings needed to repeat a command: options, files, machine, version."""
    from optsched.runtime.facts import machine, versions

    given = vars(args).items()
    aside = (*INPUTS, "command", "parser", "json")
    options = {name: value for name, value in given if name not in aside}
    named = [value for name, value in given if name in INPUTS and value]
    paths = [path for value in named for path in ([value] if isinstance(value, str) else value)]
    # A work limit replaces the limit in seconds.
    if options.get("work") is not None or options.get("time_limit") == float("inf"):
        options["time_limit"] = None
    return {
        "version": versions()["optsched"],
        "options": options,
        "files": {path: _digest(path) for path in paths},
        "machine": machine(),
    }


def _digest(path: str) -> str | None:
    """Return the SHA-256 of a regular file; None for a pipe, which cannot be read twice."""
    import hashlib

    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_graph(args: argparse.Namespace, path: str | Path, *, ordered: bool = True) -> Graph:
    """Read a graph with the memory model and the order rules of the options."""
    how = reading(args)
    graph = how.read(path) if ordered else how.read_unordered(path)
    keep_from_collector()
    if args.inplace and not graph.inplace_candidates:
        _say_no_candidates(path)
    return graph


def read_module(args: argparse.Namespace, path: str | Path) -> Module:
    """Read all computations of a file with the memory model of the options."""
    module = reading(args).read_module(path)
    keep_from_collector()
    # A module may have candidates in any computation.
    if args.inplace and not any(graph.inplace_candidates for graph in module.graphs.values()):
        _say_no_candidates(path)
    return module


def keep_from_collector() -> None:
    """Leave all objects so far out of garbage collections: a command uses its graph to its end."""
    gc.freeze()


def _say_no_candidates(path: str | Path) -> None:
    note = f"{path}: the file names no in-place candidates: --inplace changes nothing"
    print(note, file=sys.stderr)


def dims(args: argparse.Namespace) -> dict[str, int]:
    """Return the sizes of open dimensions: those of the plans of a command, or of --dim."""
    # AUTO is not a size, but the wish that the reader choose one.
    found = parse_dims([text for text in args.dim if text != AUTO])
    if not isinstance(getattr(args, "graph", None), str):
        return found
    from optsched.formats.plan_options import planned_dims

    for path in _plans(args):
        found = planned_dims(args.graph, path, found)
    return found


def _plans(args: argparse.Namespace) -> list[str]:
    """Return the plan files of a command; a method may be named where a plan is expected."""
    given = [getattr(args, name, None) for name in ("plan", "warm_start", "baseline")]
    paths = [path for value in given for path in (value if isinstance(value, list) else [value])]
    # Other names are those of methods.
    return [path for path in paths if path and os.path.isfile(path)]


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """Return the sizes of texts such as 'batch=1' or 'batch=1,seq=8'."""
    found: dict[str, int] = {}
    for text in chain.from_iterable(re.split(r"(?<=\d),(?=[^=,()]+=)", x) for x in texts):
        name, _, size = (part.strip() for part in text.rpartition("="))
        if not name or not size.isdecimal() or len(size) > 12 or int(size) < 1:
            raise UsageError(f"--dim wants NAME=N with N of at least 1, got {text!r}")
        if name in found:
            raise UsageError(f"--dim gives {name!r} twice")
        found[name] = int(size)
    return found


def reading_of_files(args: argparse.Namespace, paths: Sequence[str]) -> GraphReading:
    """Return how to read several files; each uses the sizes of the dimensions that it has."""
    how = replace(reading(args), shared_dims=len(paths) > 1, dims_by_file=_dims_by_file(args.dims))
    how.require_used_dims(paths)
    if AUTO not in args.dim:
        return how
    found = [(path, *item) for path in paths for item in _suggested(how, path).items()]
    return replace(how, dims_by_file=(*how.dims_by_file, *found))


@cache
def _suggested(how: GraphReading, path: str) -> dict[str, int]:
    """Return the sizes that the reader of a file suggests, and print them."""
    found = how.suggested_dims(path)
    if found:
        sizes = " ".join(f"{name}={size}" for name, size in found.items())
        show(f"{path}: planned with {sizes} (--dim auto)", sys.stderr)
    return found


def _dims_by_file(path: str | None) -> tuple[tuple[str, str, int], ...]:
    """Return the sizes in a file of lines 'path NAME=N NAME=N ...'."""
    from optsched.formats.source import read_bytes

    if path is None:
        return ()
    found: list[tuple[str, str, int]] = []
    for line in read_bytes(path).decode("utf-8", "replace").splitlines():
        end, *texts = line.partition("#")[0].split() or [""]
        try:
            found += ((end, name, size) for name, size in parse_dims(texts).items())
        except UsageError as error:
            raise UsageError(f"{path}: expected 'path NAME=N', got {line[:60]!r}") from error
        if end and not texts:
            raise UsageError(f"{path}: expected 'path NAME=N', got {line[:60]!r}")
    return tuple(found)


def reading(args: argparse.Namespace) -> GraphReading:
    """Return how the options ask for graphs to be read."""
    from optsched.formats.reading import GraphReading

    # Those of the fields whose option has their very name and value.
    apart = ("inplace", "dims", "first", "last", "keep_order")
    named = [each.name for each in fields(GraphReading) if each.name not in apart]
    given = {name: value for name in named if (value := getattr(args, name, None))}
    first, last, keep_order = (
        tuple(tuple(text.split(",")) for text in getattr(args, name, ()))
        for name in ("first", "last", "keep_order")
    )
    how = GraphReading(
        inplace=_inplace(args),
        dims=tuple(dims(args).items()),
        first=tuple(chain(*first)),
        last=tuple(chain(*last)),
        keep_order=keep_order,
        **given,
    )
    # Of several files each one has its own sizes.
    path = getattr(args, "graph", None)
    if AUTO in getattr(args, "dim", ()) and isinstance(path, str):
        how = replace(how, dims=tuple((dict(how.dims) | _suggested(how, path)).items()))
    return how


def _inplace(args: argparse.Namespace) -> bool | None:
    """Return if ops may write in place; None leaves that to the framework of the graph's file.

    Without the option, a plan file in which no op does is about a graph in which no op may.
    """
    from optsched.formats.plan_options import is_plan_apart

    # Without a word of the user, the plan's own file decides.
    asked: bool | None = getattr(args, "inplace", None)
    return False if asked is None and any(map(is_plan_apart, _plans(args))) else asked


def regular_files(files: Sequence[tuple[str, bool]], folder: str) -> list[str]:
    """Return the paths of files, each with True if given itself; copy pipes into a folder.

    Other processes can read a copy, but not a pipe that this process has read. A pipe that lies in
    a folder stays as it is: reading one to which nobody writes would never end.
    """
    from optsched.formats.pipes import is_pipe
    from optsched.formats.source import read_bytes

    found = [path for path, _ in files]
    for number, (path, given) in enumerate(files):
        if given and is_pipe(path):
            copy = Path(folder, "stdin" if path == "-" else Path(path).name)
            copy.write_bytes(read_bytes(path))
            found[number] = str(copy)
    return found


def refuse_pipes(paths: Iterable[str]) -> None:
    """Raise UsageError for a path that results cannot be kept under: it has no file."""
    from optsched.formats.pipes import is_pipe
    from optsched.formats.source import label_of

    for path in filter(is_pipe, paths):
        raise UsageError(f"{label_of(path)}: expected a file, got a pipe; write it to a file first")


def protect(outputs: Sequence[str | None], *inputs: str | None) -> None:
    """Raise UsageError for impossible outputs, before any work is done.

    An output is impossible if its folder does not exist, if it would overwrite an input, or if two
    outputs are the same file, also by different names.
    """
    given = [path for path in outputs if path]
    for number, output in enumerate(given):
        # Tested before the work: an hour of search must not end in an error.
        nowhere = os.path.isdir(output) or not Path(output).absolute().parent.is_dir()
        if nowhere and output != "-":
            raise UsageError(f"{output}: cannot write here: not a file in an existing folder")
        # Links count, as does a second name of one file.
        if output != "-" and any(path and _same_file(output, path) for path in inputs):
            raise UsageError(f"{output}: the output would overwrite an input")
        if any(_same_file(output, other) for other in given[:number]):
            raise UsageError(f"{output}: two outputs name the same file")


_ENDINGS = {".json", ".csv", ".h", ".onnx", ".tflite", ".html", ".png", ".svg", ".pdf"}


def check_ending(path: str, kind: str, endings: Sequence[str]) -> None:
    """Raise UsageError if the ending of an output is that of another kind of file."""
    ending = ending_of(path)
    if ending in _ENDINGS and ending not in endings:
        raise UsageError(f"{path}: {kind} is written to a file that ends in {endings[0]}")


def _same_file(one: str, other: str) -> bool:
    """Return True if two names, also links, are of one file; devices may be shared."""
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other) and os.path.isfile(one)
    return os.path.realpath(one) == os.path.realpath(other)


def given(args: argparse.Namespace, *names: str) -> list[str]:
    """Return the options among `names` that were given, as `--name`; 0 counts as given."""
    return [
        f"--{name.replace('_', '-')}"
        for name in names
        # 0 counts as given, False and an empty list do not.
        if (x := getattr(args, name, None)) is not None and x is not False and x != []
    ]


def changed(args: argparse.Namespace) -> list[str]:
    """Return the options whose value is not the default, as `--name`."""
    return [
        f"--{name.replace('_', '-')}"
        for name, value in vars(args).items()
        if name not in ("command", "parser") and value != args.parser.get_default(name)
    ]


def question_options(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the options given that ask something of a plan file."""
    from optsched.formats.answers.answer import QUESTION

    found = {name for name in changed(args) if name in QUESTION}
    # That is so where ops run again, and nothing has to be refused.
    return tuple(sorted(found - {"--inplace"} if args.inplace is False else found))


def refuse_graph_options(args: argparse.Namespace, path: str) -> None:
    """Raise UsageError for options that live ranges have no use for; they would be passed over."""
    from optsched.formats.answers.answer import QUESTION

    of_graphs = QUESTION - {"--replay"} | {"--methods", "--engine"}
    if unused := [name for name in changed(args) if name in of_graphs]:
        raise UsageError(f"{path}: {unused[0]} is for graphs, this file has live ranges")


def limits(args: argparse.Namespace) -> Limits:
    """Return the limits of the options."""
    seconds = args.time_limit if args.work is None else None
    return Limits(seconds=seconds, workers=args.workers, seed=args.seed, work=args.work)


def clock(args: argparse.Namespace) -> Clock:
    """Return a clock with the limits of the options, which starts now."""
    from optsched.runtime.clock import Clock

    return Clock.watched(limits(args))


def certificate_clock(args: argparse.Namespace, stop_reason: StopReason) -> Clock:
    """Return a clock for a certificate: with a limit of its own, and no time after Ctrl-C.

    A search that used up its limit would leave no time to certify the bound that it has found.
    """
    from optsched.runtime.clock import Clock

    return Clock.of(Limits(seconds=0.0)) if stop_reason == "interrupted" else clock(args)


def capacity(args: argparse.Namespace) -> int | None:
    """Return the capacity in bytes, if one was given."""
    from optsched.model.limits import parse_limits

    found = None if args.capacity is None else parse_bytes(args.capacity)
    # An upper limit that is not below the capacity is an error.
    parse_limits(args.below, found)
    return found


def tail(args: argparse.Namespace, graph: Graph) -> ArenaTail | None:
    """Return what the graph's runtime keeps after the slab, for the pointers of --tail."""
    from optsched.capacity import chosen_tail

    found = chosen_tail(graph, args.tail)
    if args.tail in ("32", "64") and found is None:
        raise UsageError("--tail is for models of TFLite Micro: give a .tflite file without --dim")
    return found


def pools(args: argparse.Namespace) -> list[Pool]:
    """Return the memory pools of --pool, preferred first."""
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
