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
        print_json(args, record)
    else:
        say(text)


def say(text: str, stream: TextIO | None = None) -> None:
    """Print words for people; whatever names are in them, the terminal gets none of it raw."""
    print(plain(text), file=stream or sys.stdout)


def print_json(args: argparse.Namespace, record: dict[str, Any]) -> None:
    """Print one JSON object, with the settings that it came about with."""
    used = {**settings(args), **record.get("settings", {})}
    json.dump({**record, "settings": used}, sys.stdout, indent=2)
    sys.stdout.write("\n")


INPUTS = ("graph", "plan", "certificate", "packing", "warm_start", "source")
"""Arguments that name files to read."""


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return what one needs to know to run a command again: options, files, machine, version."""
    from optsched.reports.record import machine, versions

    given = vars(args).items()
    options = {name: value for name, value in given if name not in (*INPUTS, "command", "parser")}
    named = [value for name, value in given if name in INPUTS and value]
    paths = [path for value in named for path in ([value] if isinstance(value, str) else value)]
    if options.get("work") is not None or options.get("time_limit") == float("inf"):
        options["time_limit"] = None
    return {
        "version": versions()["optsched"],
        "options": {name: value for name, value in options.items() if name != "json"},
        "files": {path: _digest(path) for path in paths},
        "machine": machine(),
    }


def _digest(path: str) -> str | None:
    """Return the SHA-256 of a file; None of what can not be read twice."""
    import hashlib
    import os

    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class progress:  # noqa: N801 - a context manager used like a function
    """Progress on standard error while the block runs; the line is wiped at its end."""

    def __init__(self, prefix: str = "") -> None:
        from optsched.reports.progress import ProgressLine

        self.line = ProgressLine(prefix=prefix)

    def __enter__(self) -> Any:
        return self.line

    def __exit__(self, *_: object) -> None:
        self.line.clear()
