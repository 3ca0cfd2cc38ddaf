"""A command and its options; those that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Option = tuple[tuple[str, ...], dict[str, Any]]
"""What `add_argument` takes: names, and how they are read."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what it does in words, its options, and what does it and returns the exit code.

    One that has `actions` is a word before these commands, and does nothing itself.
    """

    help: str
    options: Sequence[Option] = ()
    run: Callable[[argparse.Namespace], int] = lambda _: 0
    actions: Mapping[str, Command] = field(default_factory=dict)


def add_commands(
    parser: argparse.ArgumentParser, what: str, commands: Mapping[str, Command], **json: Any
) -> None:
    """Add a parser a command; `json` says more of the option that each of them has."""
    group = parser.add_subparsers(title=f"{what}s", required=True, metavar=what.upper())
    for name, command in commands.items():
        description = f"{command.help[0].upper()}{command.help[1:]}."
        sub = group.add_parser(name, help=command.help, description=description)
        _add_options(sub, [flag("--json", "one JSON object on standard output", **json)])
        _add_options(sub, command.options)
        sub.set_defaults(command=command.run, parser=sub)
        if command.actions:
            # It may have been said before the action.
            add_commands(sub, "action", command.actions, default=argparse.SUPPRESS)


def _add_options(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """Add options to a parser; of `--time-limit` and `--work` only one may be given."""
    ends = parser.add_mutually_exclusive_group() if TIME_LIMIT in options else parser
    for names, how in options:
        (ends if names in (TIME_LIMIT[0], WORK[0]) else parser).add_argument(*names, **how)


def option(*names: str, **how: Any) -> Option:
    """Return an option, or a positional argument, as `add_argument` takes it."""
    return names, how


def flag(name: str, says: str, **how: Any) -> Option:
    """Return an option that is there or not."""
    return option(name, action="store_true", help=says, **how)


def repeated(name: str, metavar: str, says: str, **how: Any) -> Option:
    """Return an option that may be given several times; all are kept in a list."""
    says = f"{says}; repeatable"
    return option(name, action="append", default=[], metavar=metavar, help=says, **how)


def choice(name: str, values: Sequence[str], says: str) -> Option:
    """Return an option that is one of some words, the first by default."""
    return option(name, choices=values, default=values[0], help=f"{says}; {values[0]} by default")


def number(
    name: str,
    read: Callable[[str], float],
    says: str,
    default: float | None = None,
    metavar: str = "N",
) -> Option:
    """Return an option that is a number, whose default is told if it has one."""
    if default is not None:
        says = f"{says}; {default:g} by default"
    return option(name, type=read, default=default, metavar=metavar, help=says)


def seconds(text: str) -> float:
    """Return a number of seconds that is not negative."""
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return value


def positive(text: str) -> int:
    """Return a number above 0."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


def natural(text: str) -> int:
    """Return a number that every random generator takes as its seed."""
    value = int(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not in 0 .. 2**31 - 1")
    return value


GRAPH = option("graph", help="graph file (found out by content; - for standard input)")
ENGINE = choice(
    "--engine",
    ("auto", "cpsat", "milp", "heuristics"),
    "who closes what heuristics and simple bounds leave open",
)
OBJECTIVE = choice("--objective", ("slab", "peak"), "what is to be minimal, and then the other")
TIME_LIMIT = number(
    "--time-limit", seconds, "seconds per instance, inf for as long as it takes", 60.0, "S"
)
WORK = number(
    "--work",
    natural,
    "units of work (states, nodes) instead of seconds: the same answer on every machine",
)
SEED = number("--seed", natural, "of all random choices", 0)
LIMITS = (TIME_LIMIT, WORK, number("--workers", positive, "threads", 1), SEED)
_ALIGN = "round sizes up to multiples of N bytes, a power of two, and place offsets so"
ALIGN = option("--align", metavar="N", help=_ALIGN)
MEMORY_MODEL = (
    flag(
        "--inplace",
        "memory model: an op may write an output into a candidate input that dies at it",
    ),
    option(
        "--align",
        metavar="N",
        help=f"{_ALIGN}; 'framework' for what the file's framework rounds to",
    ),
    flag(
        "--workspace-apart",
        "workspace in a region beside the slab: each op's own, then one that all share",
    ),
    choice(
        "--constants",
        ("outside", "beside", "before"),
        "where constants lie: not counted, beside the slab, or at its start",
    ),
    number(
        "--streams",
        positive,
        "ops run side by side, in levels of at most N; of a graph with streams: N at most",
    ),
)
"""What a graph is planned by beyond what its file says."""
ORDER_RULES = (
    repeated(
        "--first", "OPS", "ops, or patterns of their names, separated by commas, that run first"
    ),
    repeated("--last", "OPS", "the same of ops that run last"),
    repeated("--keep-order", "OPS", "ops that keep the sequence of the baseline, or of the file"),
)
"""What an order must keep."""
NEAR = (
    option(
        "--baseline",
        metavar="PLAN",
        help="plan whose order is to be stayed near; the order of the file by default",
    ),
    number(
        "--max-moved",
        natural,
        "at most N ops run elsewhere than in the baseline: all but a longest common subsequence",
    ),
)
"""What an order is held against."""
READING = (
    repeated("--dim", "NAME=N", "size of a dimension that a model file leaves open"),
    option(
        "--profile",
        metavar="FILE",
        help="profile of ONNX Runtime: shapes that a model leaves open, and the order that ran",
    ),
    choice(
        "--input-bytes",
        ("recorded", "true"),
        "size of freed inputs in Inductor's files: as its estimate has it, or the tensor's",
    ),
)
"""What readers of graphs can be told."""
GRAPH_MODEL = (*READING, *MEMORY_MODEL)
SOLVER = (ENGINE, *LIMITS)
POOL = repeated(
    "--pool", "NAME[=CAPACITY]", "a slab; what one can not hold goes to the one given next"
)
GRAPHS = option("graph", nargs="+", help="graph files, or folders of them")
JOBS = number("--jobs", positive, "processes started here", 1)
STUDY_FILES = (
    option("--csv", metavar="FILE", help="write every figure of every row here"),
    option("--markdown", metavar="FILE", help="write methods, performance profile, graphs here"),
    option("--report", metavar="FILE", help="write an HTML report here"),
)
"""Files of figures over many graphs."""


def top(of: str) -> Option:
    """Return the option that says how many graphs are printed, those of largest what."""
    says = f"print the N graphs of largest {of}, 0 all in their order"
    return number("--top", natural, says, 10)
