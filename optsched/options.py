"""The options of the command line, apart from what the commands do with them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

Command = Callable[[argparse.Namespace], int]
"""Does what was asked and returns the exit code."""

_EPILOG = """\
exit codes: 0 proved or plain success, 1 a check failed, 2 bad input or usage, 3 feasible but
unproved, 4 proved not to fit, 5 nothing found in time, 130 interrupted (best plan written)"""


def _seconds(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


def _natural(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not in 0 .. 2**31 - 1")
    return value


def make_parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """Return the parser of the command line; `commands` are called by their names in it."""
    from importlib.metadata import version

    parser = argparse.ArgumentParser(
        prog="optsched",
        description="Order of ops and offsets of buffers with least peak memory and slab, proved.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"optsched {version('optsched')}")
    group = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return _add_command(group, name, commands[name], text)

    solve = add("solve", "choose order and offsets of a graph")
    solve.add_argument("graph", help="graph file (found out by content; - for standard input)")
    solve.add_argument("-o", "--output", help="write the plan here (.gz to compress)")
    solve.add_argument("--objective", choices=("slab", "peak"), default="slab")
    solve.add_argument("--capacity", metavar="BYTES", help="ask only whether it fits in BYTES")
    solve.add_argument("--warm-start", metavar="PLAN", help="start from this plan")
    solve.add_argument("--certificate", metavar="FILE", help="write why no order has less peak")
    _add_engine(solve)
    _add_limits(solve)
    _add_input_bytes(solve)
    _add_inplace(solve)

    compare = add("compare", "gap of each method to the proven bound")
    compare.add_argument("graph", nargs="+", help="graph files, or folders of them")
    compare.add_argument("--methods", help="comma-separated; all by default")
    compare.add_argument("--report", metavar="FILE", help="write an HTML report here")
    _add_engine(compare)
    _add_limits(compare)
    _add_input_bytes(compare)
    _add_inplace(compare)

    check = add("check", "replay a plan with the independent checker")
    check.add_argument("graph", help="graph file, or a packing with offsets")
    check.add_argument("plan", nargs="?", help="plan file")
    check.add_argument("certificate", nargs="?", help="certificate of the bound on its peak")
    _add_input_bytes(check)
    _add_inplace(check)

    explain = add("explain", "why no order has a smaller peak")
    explain.add_argument("graph")
    _add_input_bytes(explain)

    info = add("info", "what a graph is made of")
    info.add_argument("graph")
    _add_input_bytes(info)
    _add_inplace(info)

    convert = add("convert", "rewrite a graph in the native format")
    convert.add_argument("graph")
    convert.add_argument("-o", "--output", required=True, help="file to write (.gz to compress)")
    _add_input_bytes(convert)

    pack = add("pack", "offsets for given live ranges (MiniMalloc CSV)")
    pack.add_argument("packing", nargs="+", help="CSV files")
    pack.add_argument("-o", "--output", help="write the CSV with offsets here")
    pack.add_argument("--capacity", metavar="BYTES", help="stop at the first packing that fits")
    pack.add_argument(
        "--pool",
        action="append",
        default=[],
        metavar="NAME[=CAPACITY]",
        help="a slab; what one can not hold goes to the one given next; repeatable",
    )
    pack.add_argument(
        "--reserve",
        action="append",
        default=[],
        metavar="LOW:HIGH[@START-END]",
        help="bytes that no buffer may use, at the steps before END from START on; repeatable",
    )
    _add_limits(pack)

    add("warmup", "compile all kernels now, so that no graph waits for it")
    return parser


def _add_command(group: Any, name: str, function: Command, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = group.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.set_defaults(command=function)
    return parser


def _add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("auto", "cpsat", "milp", "heuristics"),
        default="auto",
        help="who closes what heuristics and simple bounds leave open",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--time-limit",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="seconds per instance, 60 by default; inf for as long as it takes",
    )
    parser.add_argument("--workers", type=_positive, default=1, metavar="N", help="threads")
    parser.add_argument("--seed", type=_natural, default=0, metavar="N")


def _add_inplace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--inplace",
        action="store_true",
        help="memory model: an op may write an output into a candidate input that dies at it",
    )


def _add_input_bytes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input-bytes",
        choices=("recorded", "true"),
        default="recorded",
        help="size of freed inputs in Inductor's files: as its estimate has it, or the tensor's",
    )
