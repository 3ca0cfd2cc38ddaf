"""Exit codes of the command, and how an error is said."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from optsched.runtime.text import plain

if TYPE_CHECKING:
    from optsched.runtime.limits import StopReason

OK, CHECK_FAILED, BAD_INPUT, UNPROVED = 0, 1, 2, 3
DOES_NOT_FIT, NOTHING_FOUND, INTERRUPTED = 4, 5, 130


def fail(message: str, code: int) -> int:
    """Say in one line on standard error what went wrong; return `code`."""
    print(f"optsched: error: {plain(' '.join(message.split()))}", file=sys.stderr)
    return code


def exit_code(status: str, stop_reason: StopReason) -> int:
    """Return the exit code of a result."""
    if stop_reason == "interrupted":
        return INTERRUPTED
    if status == "infeasible":
        return DOES_NOT_FIT
    if status == "unknown":
        return NOTHING_FOUND
    return OK if status == "optimal" or stop_reason == "decided" else UNPROVED
