"""All commands: which there are, their parser, and what becomes of their errors."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn

from optsched.cli import (
    check,
    compare,
    convert,
    exits,
    explain,
    hunt,
    info,
    pack,
    report,
    solve,
    warmup,
)
from optsched.errors import OptschedError
from optsched.runtime.interrupt import held_interrupts, on_interrupt
from optsched.runtime.kernel import tell_of_compiling
from optsched.runtime.text import plain, prepare_streams

COMMANDS: dict[str, ModuleType] = {
    "solve": solve,
    "compare": compare,
    "check": check,
    "explain": explain,
    "hunt": hunt,
    "report": report,
    "info": info,
    "convert": convert,
    "pack": pack,
    "warmup": warmup,
}
"""Modules with HELP, `add_options(parser)` and `run(args)`, by the names of their commands."""

_EPILOG = """\
exit codes: 0 proved or plain success, 1 a check failed, 2 bad input or usage, 3 feasible but
unproved, 4 proved not to fit, 5 nothing found in time, 130 interrupted (best plan written)"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error a user can cause is one line."""
    prepare_streams()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except OptschedError as error:
        return exits.fail(str(error), exits.BAD_INPUT)
    except BrokenPipeError:
        # The reader of our output went away; nothing is left to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK
    except OSError as error:
        # Without a name it is our own output: a full disk, say.
        message = f"{error.filename or 'standard output'}: {error.strerror or error}"
        return exits.fail(message, exits.BAD_INPUT)
    except MemoryError:
        return exits.fail("out of memory", exits.BAD_INPUT)
    except KeyboardInterrupt:
        return exits.fail("interrupted", exits.INTERRUPTED)
    return code


def _run(argv: Sequence[str] | None) -> int:
    args = _make_parser().parse_args(argv)
    if hasattr(signal, "SIGTERM"):
        # A polite kill ends a search as Ctrl-C does: with the best plan written.
        signal.signal(signal.SIGTERM, on_interrupt)
    if args.command is not warmup.run:
        tell_of_compiling(_say_compiling)
    command: Callable[[argparse.Namespace], int] = args.command
    with held_interrupts():
        return command(args)


def _say_compiling() -> None:
    text = "compiling kernels; kept for the next time ('optsched warmup' compiles all of them)"
    print(f"optsched: {text}", file=sys.stderr, flush=True)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with arguments as any other error is said, one line."""

    def error(self, message: str) -> NoReturn:
        super().error(plain(message).replace("\n", "\\n"))


class _ShowVersion(argparse.Action):
    """Look the version up only when asked: that takes longer than a small graph."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"optsched {version('optsched')}")
        parser.exit()


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="optsched",
        description="Order of ops and offsets of buffers with least peak memory and slab, proved.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    group = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        text: str = command.HELP
        sub = group.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_argument("--json", action="store_true", help="one JSON object on standard output")
        command.add_options(sub)
        sub.set_defaults(command=command.run)
    return parser
