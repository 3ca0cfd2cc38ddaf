"""The command line in tests: what a command prints, after its exit code was checked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from optsched.cli import main

Codes = int | tuple[int, ...] | None
"""Exit codes that are right; None for any."""


class Cli:
    """Commands run in this process; paths are given as they are."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def both(self, *words: object, code: Codes = 0) -> pytest.CaptureResult[str]:
        """Return what a command prints that ends with one of the codes."""
        found = main(list(map(str, words)))
        printed = self.capsys.readouterr()
        codes = code if isinstance(code, tuple) else (code,)
        assert code is None or found in codes, (found, *printed)
        return printed

    def __call__(self, *words: object, code: int = 0) -> str:
        """Return standard output."""
        return self.both(*words, code=code).out

    def json(self, *words: object, code: int = 0) -> Any:
        """Return the record that a command prints with `--json`."""
        return json.loads(self(*words, "--json", code=code))

    def error(self, *words: object, code: int = 2) -> str:
        """Return standard error of a command that fails."""
        return self.both(*words, code=code).err
