"""Commands and their options, and the options that several commands share."""

from __future__ import annotations

import argparse
from argparse import BooleanOptionalAction
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Option = tuple[tuple[str, ...], dict[str, Any]]
"""Arguments of `add_argument`: names, and keyword arguments."""
GROUPS = {
    "limits": "--time-limit --work --budget --max-tries --engine --workers --jobs --address "
    "--memory --seed",
    "memory model": "--inplace --align --workspace-apart --constants --streams --input-bytes "
    "--pool --pins --reserve --below",
    "order rules": "--first --last --keep-order --baseline --max-moved --fewest-moves",
    "output": "--output --to --certificate --keep-trace --csv --markdown --report --png --svg "
    "--trace --page --log --top --columns --json --help",
}
"""Options by the group of the help in which they are shown; all others make up the question."""
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names.split()}


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its help, its options, and the function that runs it and returns the exit code.

    A command with `actions` does nothing itself; the next argument is one of these commands.
    """

    help: str
    options: Sequence[Option] = ()
    run: Callable[[argparse.Namespace], int] = lambda _: 0
    actions: Mapping[str, Command] = field(default_factory=dict)


def add_commands(
    parser: argparse.ArgumentParser, what: str, commands: Mapping[str, Command], **json: Any
) -> None:
    """Add a parser per command; `json` are more arguments for the option --json of each."""
    group = parser.add_subparsers(
        title=f"{what}s", required=True, metavar=what.upper(), prog=parser.prog
    )
    for name, command in commands.items():
        sub = group.add_parser(
            name,
            help=command.help,
            description=f"{command.help[0].upper()}{command.help[1:]}.",
            # The help option is added last, with the others of its group.
            add_help=False,
            usage=_usage(f"{parser.prog} {name}", command),
        )
        _add_options(
            sub,
            [
                *command.options,
                flag("--json", "one JSON object on standard output", **json),
                option("-h", "--help", action="help", help="show this help message and exit"),
            ],
        )
        sub.set_defaults(command=command.run, parser=sub)
        if command.actions:
            # --json may have been given before the action already.
            add_commands(sub, "action", command.actions, default=argparse.SUPPRESS)


def _usage(prog: str, command: Command) -> str:
    """Return the usage line: what must be given; the groups below it list the options."""
    needed = []
    for names, how in command.options:
        metavar = how.get("metavar") or names[-1].lstrip("-")
        if not names[0].startswith("-"):
            metavar = f"{metavar} ..." if how.get("nargs") in ("+", "*") else metavar
            needed.append(f"[{metavar}]" if how.get("nargs") in ("?", "*") else metavar)
        elif how.get("required"):
            needed.append(f"{names[0]} {metavar.upper()}")
    return " ".join([prog, *needed, *(["ACTION"] if command.actions else []), "[options]"])


def _add_options(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """Add options in their groups; `--time-limit` and `--work` exclude each other."""
    # The last name is the long one: `-o`, `--output`.
    titles = [_GROUP_OF.get(names[-1], "question") for names, _ in options]
    # Groups without an option are not shown.
    groups = {
        title: parser.add_argument_group(title)
        for title in ("question", *GROUPS)
        if title in titles
    }
    limits = groups.get("limits", parser)
    # Mutually exclusive, since both are limits and the first one reached would win unseen.
    ends = limits.add_mutually_exclusive_group() if TIME_LIMIT in options else limits
    for title, (names, how) in zip(titles, options, strict=True):
        place = ends if names in (TIME_LIMIT[0], WORK[0]) else groups[title]
        place.add_argument(*names, **how)


def option(*names: str, **how: Any) -> Option:
    """Return an option, or a positional argument, as `add_argument` takes it."""
    return names, how


def flag(name: str, text: str, **how: Any) -> Option:
    """Return an option without a value."""
    return option(name, action="store_true", help=text, **how)


def repeated(name: str, metavar: str, text: str, **how: Any) -> Option:
    """Return an option that may be given several times; its values are collected in a list."""
    text = f"{text}; repeatable"
    return option(name, action="append", default=[], metavar=metavar, help=text, **how)


def choice(name: str, values: Sequence[str], text: str, **how: Any) -> Option:
    """Return an option with a fixed set of values, the first of them the default.

    With `default=None`, the command can tell whether the option was given.
    """
    text = f"{text} (default: {values[0]})"
    return option(name, choices=values, help=text, **{"default": values[0], **how})


def number(
    name: str,
    read: Callable[[str], float],
    text: str,
    default: float | None = None,
    metavar: str = "N",
) -> Option:
    """Return an option that is a number; its help ends with the default, if there is one."""
    if default is not None:
        text = f"{text} (default: {default:g})"
    return option(name, type=read, default=default, metavar=metavar, help=text)


def seconds(text: str) -> float:
    """Return a number of seconds that is not negative."""
    value = _number(float, text, wanted := "a number of seconds")
    # Written so that NaN is refused too.
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {text}")
    return value


def percentage(text: str) -> float:
    """Return a number from 0 to 100."""
    value = _number(float, text, wanted := "a number from 0 to 100")
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {text}")
    return value


def positive(text: str) -> int:
    """Return a number above 0."""
    value = _number(int, text, wanted := "a number of at least 1")
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {text}")
    return int(value)


def natural(text: str) -> int:
    """Return a number that all random generators accept as a seed."""
    value = _number(int, text, wanted := "a number from 0 to 2**31 - 1")
    # NumPy's and OR-Tools' generators accept 31 bits.
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {text}")
    return int(value)


def _number(kind: Callable[[str], float], text: str, wanted: str) -> float:
    """Return a text as a number; argparse would name the Python function in its message."""
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}") from None


GRAPH = option("graph", help="graph file; - for standard input")
ENGINE = choice(
    "--engine",
    ("auto", "cpsat", "milp", "heuristics"),
    "exact engine to run after heuristics and bounds",
)
OBJECTIVE = choice(
    "--objective",
    ("slab", "peak"),
    "quantity to minimize first; the other breaks ties",
    default=None,
)
TIME_LIMIT = number(
    "--time-limit", seconds, "time limit per instance, in seconds; inf for none", 60.0, "S"
)
WORK = number(
    "--work",
    natural,
    "limit on work (states, nodes): gives the same answer on every machine",
)
SEED = number("--seed", natural, "seed of all random choices", 0)
LIMITS = (TIME_LIMIT, WORK, number("--workers", positive, "number of threads", 1), SEED)
BELOW = repeated("--below", "NAME=BYTES", "let a buffer end at or below an address")
_ALIGN = "round sizes and offsets up to multiples of N bytes, a power of two"
ALIGN = option("--align", metavar="N", help=_ALIGN)
MEMORY_MODEL = (
    option(
        "--inplace",
        action=BooleanOptionalAction,
        default=None,
        help="let an op write an output into a candidate input that dies at it (default: as the "
        "framework of the file does)",
    ),
    option(
        "--align",
        metavar="N",
        help=f"{_ALIGN}; 'framework' for the rounding of the file's framework",
    ),
    flag(
        "--workspace-apart",
        "put the workspace of ops in one region beside the slab, shared by all ops",
    ),
    choice(
        "--constants",
        ("outside", "beside", "before"),
        "place of constants: not counted, beside the slab, or at its start",
    ),
    number(
        "--streams",
        positive,
        "run ops side by side on at most N streams: those of the graph, or else by levels",
    ),
    BELOW,
)
"""Options of the memory model."""
ORDER_RULES = (
    repeated("--first", "OPS", "ops to run first: names or patterns, separated by commas"),
    repeated("--last", "OPS", "ops to run last"),
    repeated(
        "--keep-order", "OPS", "ops to run in the sequence of the baseline (default: of the file)"
    ),
)
"""Options for rules that an order must obey."""
NEAR = (
    option(
        "--baseline",
        metavar="PLAN",
        help="plan whose order to stay close to (default: the file's order)",
    ),
    number(
        "--max-moved",
        natural,
        "move at most N ops relative to the baseline order",
    ),
)
"""Options for the baseline of an order."""
READING = (
    repeated(
        "--dim",
        "NAME=N",
        "size of a dimension that is symbolic in the model file, or auto: as the reader suggests",
    ),
    option(
        "--profile",
        metavar="FILE",
        help="profile of ONNX Runtime with the shapes and the order of a run",
    ),
    choice(
        "--input-bytes",
        ("recorded", "true"),
        "size of freed inputs in Inductor's files: its own estimate, or that of the tensor",
    ),
)
"""Options for readers of graphs."""
DIMS_FILE = option(
    "--dims", metavar="FILE", help="sizes of dimensions of single files: lines 'path NAME=N'"
)
ALLOW_FAILED = number(
    "--allow-failed",
    natural,
    "exit with 0 if at most N files cannot be read or planned, proved or not (default: none may)",
)
GRAPH_MODEL = (*READING, *MEMORY_MODEL)
SOLVER = (ENGINE, *LIMITS)
POOL = repeated(
    "--pool",
    "NAME[=CAPACITY]",
    "add a memory pool; buffers that do not fit spill to the next pool",
)
TAIL = choice(
    "--tail",
    ("32", "64", "none"),
    "bits of a pointer in the build of TFLite Micro whose tail counts in the capacity of a .tflite "
    "model, or none for the slab alone",
    default=None,
)
GRAPHS = option("graph", nargs="+", help="graph files, or folders of graph files")
JOBS = number("--jobs", positive, "number of processes on this machine", 1)
STUDY_FILES = (
    option("--csv", metavar="FILE", help="write all figures of all rows to FILE"),
    option(
        "--markdown",
        metavar="FILE",
        help="write tables of methods and graphs, and a performance profile, to FILE",
    ),
    option("--report", metavar="FILE", help="write an HTML report to FILE"),
)
"""Options for the files of a study of many graphs."""


def top(of: str) -> Option:
    """Return the option for the number of graphs to print, those of the largest `of`."""
    text = f"print the N graphs of largest {of}; 0 for all graphs, as given"
    return number("--top", natural, text, 10)
