"""Records, texts and progress as the commands print them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, TextIO

from optsched.runtime.text import plain


def print_result(args: argparse.Namespace, record: dict[str, Any], text: str) -> None:
    """Print the record where --json asks for it, else the text."""
    if args.json:
        print_json(record)
    else:
        say(text)


def say(text: str, stream: TextIO | None = None) -> None:
    """Print words for people; whatever names are in them, the terminal gets none of it raw."""
    print(plain(text), file=stream or sys.stdout)


def print_json(record: dict[str, Any]) -> None:
    """Print one JSON object."""
    json.dump(record, sys.stdout, indent=2)
    sys.stdout.write("\n")


class progress:  # noqa: N801 - a context manager used like a function
    """Progress on standard error while the block runs; the line is wiped at its end."""

    def __init__(self, prefix: str = "") -> None:
        from optsched.reports.progress import ProgressLine

        self.line = ProgressLine(prefix=prefix)

    def __enter__(self) -> Any:
        return self.line

    def __exit__(self, *_: object) -> None:
        self.line.clear()
