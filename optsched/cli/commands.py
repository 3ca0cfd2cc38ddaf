"""The table of commands, their parser, and the conversion of errors to messages and exit codes."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from optsched.cli import common, files
from optsched.cli.check import CHECK
from optsched.cli.compare import COMPARE
from optsched.cli.examples import EXAMPLES
from optsched.cli.fits import FITS
from optsched.cli.hunt import HUNT
from optsched.cli.measure import MEASURE
from optsched.cli.options import Command, add_commands
from optsched.cli.pack import PACK
from optsched.cli.recompute import RECOMPUTE
from optsched.cli.report import REPORT
from optsched.cli.solve import SOLVE
from optsched.cli.store import STORE
from optsched.cli.tile import TILE
from optsched.cli.tune import TUNE
from optsched.errors import MissingDependencyError, OptschedError, UsageError
from optsched.runtime.interrupt import held_interrupts, on_interrupt
from optsched.runtime.kernel import report_compiling
from optsched.runtime.text import nearest, nearest_word, plain, prepare_streams
from optsched.runtime.version import VERSION

COLUMNS = 80
"""Columns of the help, also on wider screens."""

COMMANDS: dict[str, Command] = {
    "solve": SOLVE,
    "compare": COMPARE,
    "tune": TUNE,
    "check": CHECK,
    "explain": files.EXPLAIN,
    "hunt": HUNT,
    "report": REPORT,
    "info": files.INFO,
    "convert": files.CONVERT,
    "apply": files.APPLY,
    "export": files.EXPORT,
    "measure": MEASURE,
    "pack": PACK,
    "recompute": RECOMPUTE,
    "tile": TILE,
    "fits": FITS,
    "store": STORE,
    "warmup": files.WARMUP,
}

_ENDS = """\
bytes:      1048576, 64KiB, 1.5GiB or 2GB
exit codes: 0 proved, or plain success; 1 a check failed; 2 bad input or usage;
            3 feasible but unproved; 4 proved not to fit; 5 nothing found in
            time; 130 interrupted (the best plan is written)
"""
_FOOTER = "file formats, units of bytes and exit codes: optsched help\n"
SHELLS = ("bash", "zsh", "tcsh")
"""Shells for which a completion script can be printed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; errors that a user can cause are one line each."""
    prepare_streams()
    try:
        code = _run(argv)
        # Flushed inside the try block, so that a full disk is one line too.
        sys.stdout.flush()
    except OptschedError as error:
        return common.fail(str(error), common.BAD_INPUT)
    except BrokenPipeError:
        # The reader of our output has closed it, so nothing can be printed any more.
        # Python flushes standard output again at its end, where an error would print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return common.OK
    except OSError as error:
        # An error without a file name is about standard output, for example a full disk.
        message = f"{error.filename or 'standard output'}: {error.strerror or error}"
        return common.fail(message, common.BAD_INPUT)
    except MemoryError:
        return common.fail("out of memory", common.BAD_INPUT)
    except KeyboardInterrupt:
        return common.fail("interrupted", common.INTERRUPTED)
    return code


def _run(argv: Sequence[str] | None) -> int:
    given = sys.argv[1:] if argv is None else list(argv)
    parser = make_parser()
    if not given:
        parser.print_help()
        return common.OK
    # `optsched help solve` is `optsched solve --help`.
    if given[0] == "help":
        given = [*given[1:], "--help"]
    args = _parse(parser, given)
    common.refuse_mixed(args)
    if hasattr(signal, "SIGTERM"):
        # SIGTERM ends a search as Ctrl-C does: the best plan is written.
        signal.signal(signal.SIGTERM, on_interrupt)
    if args.command is not files.WARMUP.run:
        report_compiling(_report_compiling)
    command: Callable[[argparse.Namespace], int] = args.command
    # Interrupts are held: a search returns what it has found.
    with held_interrupts():
        return command(args)


def _parse(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace:
    """Parse arguments; an error for an unknown command or option suggests the nearest one."""
    # argparse would print all commands; the nearest one helps more.
    if not given[0].startswith("-") and given[0] not in COMMANDS:
        raise UsageError(f"unknown command {given[0]!r}{nearest(given[0], [*COMMANDS, 'help'])}")
    actions = COMMANDS[given[0]].actions if given[0] in COMMANDS else {}
    if actions and given[1:] and not given[1].startswith("-") and given[1] not in actions:
        raise UsageError(f"{given[0]} has no action {given[1]!r}{nearest(given[1], [*actions])}")
    # Unknown options are taken here, since argparse suggests nothing.
    args, unknown = parser.parse_known_args(given)
    for text in unknown:
        if text.startswith("--"):
            known = re.findall(r"--[a-z][a-z-]*", args.parser.format_help())
            name = text.partition("=")[0]
            near = nearest_word(name, known)
            hint = f": did you mean {near!r}?" if near else f" (see optsched {given[0]} --help)"
            raise UsageError(f"{given[0]} has no option {name!r}{hint}")
    if left := _filled(args, unknown):
        raise UsageError(
            f"{given[0]}: unexpected argument {left[0]!r} (see optsched {given[0]} --help)"
        )
    return args


def _filled(args: argparse.Namespace, texts: list[str]) -> list[str]:
    """Use files that follow options for the ones that are missing; return all others."""
    left = list(texts)
    # argparse takes files that may be missing from before the first option only.
    for action in args.parser._actions:
        known = getattr(args, action.dest, None)
        if action.option_strings or any(text.startswith("-") for text in left):
            continue
        if action.nargs == "?" and known is None and left:
            setattr(args, action.dest, left.pop(0))
        elif action.nargs == "*":
            setattr(args, action.dest, [*(known or []), *left])
            left = []
    return left


def _report_compiling() -> None:
    text = "compiling kernels, once per machine ('optsched warmup' compiles all of them)"
    print(f"optsched: {text}", file=sys.stderr, flush=True)


class _Parser(argparse.ArgumentParser):
    """A parser that raises UsageError, so that its errors look like all others."""

    def __init__(self, **how: Any) -> None:
        super().__init__(formatter_class=_Formatter, **how)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{plain(message)} (see {self.prog} --help)")

    def format_help(self) -> str:
        """Return the help; that of a command ends with examples and one line on the rest."""
        name = self.prog.removeprefix("optsched").strip()
        if not name:
            return f"{super().format_help()}\n{_formats()}{_ENDS}"
        shown = "\n".join(f"  $ {self.prog} {line}".rstrip() for line in EXAMPLES[name])
        return f"{super().format_help()}\nexamples:\n{shown}\n\n{_FOOTER}"


def _formats() -> str:
    """Return the lines of the help about file formats; computed only if help is requested."""
    from optsched.formats import FORMATS

    held: dict[str, list[str]] = {}
    for row in FORMATS.values():
        if row.read is not None:
            plural = " of ".join(f"{noun.removeprefix('a ')}s" for noun in row.holds.split(" of "))
            held.setdefault(plural, []).append(row.name)
    named = [f"{what} ({', '.join(names)})" for what, names in held.items()]
    lines = [*named, "detected by content, plain or gzipped; - is standard input or output"]
    indent = " " * 12
    wrapped = (textwrap.fill(line, COLUMNS - len(indent), break_on_hyphens=False) for line in lines)
    return "files:" + textwrap.indent("\n".join(wrapped), indent)[6:] + "\n"


class _Formatter(argparse.HelpFormatter):
    """Help of at most 80 columns, with a wider column of options, which saves lines."""

    def __init__(self, prog: str) -> None:
        # As argparse itself, leave two columns free; longer lines are hard to read on any screen.
        width = min(COLUMNS, shutil.get_terminal_size().columns) - 2
        super().__init__(prog, max_help_position=30, width=width)


class _ShowVersion(argparse.Action):
    """Print the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"optsched {VERSION}")
        parser.exit()


class _PrintCompletion(argparse.Action):
    """Print a script that makes a shell complete commands, options and files."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: object, shell: object, *more: object
    ) -> None:
        try:
            import shtab
        except ImportError:
            raise MissingDependencyError("shtab", "completion") from None
        print(shtab.complete(parser, shell=str(shell)))
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; the documentation lists its options."""
    parser = _Parser(
        prog="optsched",
        description="Find an order of ops and offsets of buffers with minimum memory, with proof.",
    )
    parser.add_argument(
        "--version",
        action=_ShowVersion,
        nargs=0,
        dest=argparse.SUPPRESS,
        help="show the version and exit",
    )
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        dest=argparse.SUPPRESS,
        choices=SHELLS,
        metavar="SHELL",
        help=f"print a completion script for {', '.join(SHELLS)} and exit",
    )
    add_commands(parser, "command", COMMANDS)
    return parser
