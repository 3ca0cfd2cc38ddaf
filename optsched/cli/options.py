"""A command and its options; those that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Option = tuple[tuple[str, ...], dict[str, Any]]
"""What `add_argument` takes: names, and how they are read."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what it does in words, its options, and what does it and returns the exit code."""

    help: str
    options: Sequence[Option]
    run: Callable[[argparse.Namespace], int]

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options to a parser; of `--time-limit` and `--work` only one may be given."""
        ends = parser.add_mutually_exclusive_group() if TIME_LIMIT in self.options else parser
        for names, how in self.options:
            (ends if names in (TIME_LIMIT[0], WORK[0]) else parser).add_argument(*names, **how)


def option(*names: str, **how: Any) -> Option:
    """Return an option, or a positional argument, as `add_argument` takes it."""
    return names, how


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


def count(text: str) -> int:
    """Return a number that is not negative."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return value


def natural(text: str) -> int:
    """Return a number that every random generator takes as its seed."""
    value = int(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not in 0 .. 2**31 - 1")
    return value


GRAPH = option("graph", help="graph file (found out by content; - for standard input)")
ENGINE = option(
    "--engine",
    choices=("auto", "cpsat", "milp", "heuristics"),
    default="auto",
    help="who closes what heuristics and simple bounds leave open",
)
TIME_LIMIT = option(
    "--time-limit",
    type=seconds,
    default=60.0,
    metavar="S",
    help="seconds per instance, 60 by default; inf for as long as it takes",
)
WORK = option(
    "--work",
    type=natural,
    metavar="N",
    help="units of work (states, nodes) instead of seconds: the same answer on every machine",
)
WORKERS = option("--workers", type=positive, default=1, metavar="N", help="threads; 1 by default")
SEED = option(
    "--seed", type=natural, default=0, metavar="N", help="of all random choices; 0 by default"
)
LIMITS = (TIME_LIMIT, WORK, WORKERS, SEED)
_ALIGN = "round sizes up to multiples of N bytes, a power of two, and place offsets so"
ALIGN = option("--align", metavar="N", help=_ALIGN)
MEMORY_MODEL = (
    option(
        "--inplace",
        action="store_true",
        help="memory model: an op may write an output into a candidate input that dies at it",
    ),
    option(
        "--align",
        metavar="N",
        help=f"{_ALIGN}; 'framework' for what the file's framework rounds to",
    ),
    option(
        "--workspace-apart",
        action="store_true",
        help="workspace in a region beside the slab: each op's own, then one that all share",
    ),
    option(
        "--constants",
        choices=("outside", "beside", "before"),
        default="outside",
        help="where constants lie: not counted (the default), beside the slab, or at its start",
    ),
    option(
        "--streams",
        type=positive,
        metavar="N",
        help="ops run side by side, in levels of at most N; of a graph with streams: N at most",
    ),
)
"""What a graph is planned by beyond what its file says."""
ORDER_RULES = (
    option(
        "--first",
        action="append",
        default=[],
        metavar="OPS",
        help="ops, or patterns of their names, separated by commas, that run first; repeatable",
    ),
    option(
        "--last",
        action="append",
        default=[],
        metavar="OPS",
        help="the same of ops that run last",
    ),
    option(
        "--keep-order",
        action="append",
        default=[],
        metavar="OPS",
        help="ops that keep the sequence of the baseline, or of the file; repeatable",
    ),
)
"""What an order must keep."""
BASELINE = option(
    "--baseline",
    metavar="PLAN",
    help="plan whose order is to be stayed near; the order of the file by default",
)
MAX_MOVED = option(
    "--max-moved",
    type=count,
    metavar="K",
    help="at most K ops run elsewhere than in the baseline: all but a longest common subsequence",
)
READING = (
    option(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help="size of a dimension that a model file leaves open; repeatable",
    ),
    option(
        "--profile",
        metavar="FILE",
        help="profile of ONNX Runtime: shapes that a model leaves open, and the order that ran",
    ),
    option(
        "--input-bytes",
        choices=("recorded", "true"),
        default="recorded",
        help="size of freed inputs in Inductor's files: as its estimate has it, or the tensor's",
    ),
)
"""What readers of graphs can be told."""
POOL = option(
    "--pool",
    action="append",
    default=[],
    metavar="NAME[=CAPACITY]",
    help="a slab; what one can not hold goes to the one given next; repeatable",
)
