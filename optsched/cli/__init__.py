"""The command line: one module a command, and what they share.

Here is only the way in, which imports next to nothing before it has seen to Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType


def run() -> None:
    """Entry point of the installed command."""
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if plain:
        signal.signal(signal.SIGINT, _leave)
    from optsched.cli import commands
    from optsched.cli.common import INTERRUPTED
    from optsched.runtime.background import compiler

    if plain:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    compiler.is_on = True
    try:
        code = commands.main()
    finally:
        if plain:
            # All is said and written: while the interpreter ends nobody would catch an exception.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    if code != INTERRUPTED:
        compiler.finish()
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error a user can cause is one line."""
    from optsched.cli import commands

    return commands.main(argv)


def _leave(number: int, frame: FrameType | None) -> None:
    """End at once while modules are imported: there is nothing to lose yet."""
    os.write(2, b"optsched: error: interrupted\n")
    os._exit(130)
