"""The command line: one module per command, and helpers that they share.

This module only has the entry point, which imports almost nothing before it handles Ctrl-C.
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
    """Run the installed command, and exit with its code."""
    # A handler that the caller has set stays.
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
            # All output is written. While the interpreter exits, an exception would not be caught.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    # An interrupted user does not want another process to go on.
    if code != INTERRUPTED:
        compiler.finish()
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; errors that a user can cause are one line each."""
    from optsched.cli import commands

    return commands.main(argv)


def _leave(number: int, frame: FrameType | None) -> None:
    """Exit at once if interrupted during the imports, when there is nothing to lose yet."""
    # Not print: the standard streams may not be ready yet.
    os.write(2, b"optsched: error: interrupted\n")
    os._exit(130)
