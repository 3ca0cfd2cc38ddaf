"""Options that several commands share."""

from __future__ import annotations

import argparse


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


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add --engine."""
    parser.add_argument(
        "--engine",
        choices=("auto", "cpsat", "milp", "heuristics"),
        default="auto",
        help="who closes what heuristics and simple bounds leave open",
    )


def add_graph(parser: argparse.ArgumentParser) -> None:
    """Add the graph file that a command is about."""
    parser.add_argument("graph", help="graph file (found out by content; - for standard input)")


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add --time-limit, --work, --workers and --seed."""
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument(
        "--time-limit",
        type=seconds,
        default=60.0,
        metavar="S",
        help="seconds per instance, 60 by default; inf for as long as it takes",
    )
    ends.add_argument(
        "--work",
        type=natural,
        metavar="N",
        help="units of work (states, nodes) instead of seconds: the same answer on every machine",
    )
    parser.add_argument(
        "--workers", type=positive, default=1, metavar="N", help="threads; 1 by default"
    )
    add_seed(parser)


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add --seed."""
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="of all random choices; 0 by default"
    )


def add_inplace(parser: argparse.ArgumentParser) -> None:
    """Add --inplace, the memory model that lets an output take a dying input's place."""
    parser.add_argument(
        "--inplace",
        action="store_true",
        help="memory model: an op may write an output into a candidate input that dies at it",
    )


def add_input_bytes(parser: argparse.ArgumentParser) -> None:
    """Add --input-bytes, the sizes that Inductor's files give twice."""
    parser.add_argument(
        "--input-bytes",
        choices=("recorded", "true"),
        default="recorded",
        help="size of freed inputs in Inductor's files: as its estimate has it, or the tensor's",
    )


def add_pool(parser: argparse.ArgumentParser) -> None:
    """Add --pool, slabs in order of preference."""
    parser.add_argument(
        "--pool",
        action="append",
        default=[],
        metavar="NAME[=CAPACITY]",
        help="a slab; what one can not hold goes to the one given next; repeatable",
    )
