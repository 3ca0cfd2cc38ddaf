"""Log of a fleet's run, one JSON object per line, for programs that monitor it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, BinaryIO

from optsched.errors import UsageError


class FleetLog:
    """Append-only file of events; each line is written at once, so that readers see whole lines.

    If a line cannot be written, for example because the disk is full, the log ends, but the run
    continues: :attr:`trouble` has the reason.

    Raise `UsageError` if the file cannot be opened.

    `path`: path of the file, or None for no log.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path, self.trouble = path, ""
        self._file: BinaryIO | None = None
        if path is not None:
            try:
                # Unbuffered and appended, so that several runs can share the file.
                self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - kept open
            except OSError as error:
                reason = (error.strerror or "unknown reason").lower()
                raise UsageError(f"{path}: cannot write the log: {reason}") from None

    def add(self, event: str, **more: Any) -> None:
        """Append an event with its time and further fields."""
        if self._file is None or self.trouble:
            return
        line = json.dumps({"event": event, "at": time.time(), **more}, separators=(",", ":"))
        try:
            self._file.write(line.encode() + b"\n")
        except OSError as error:
            self.trouble = f"{self.path}: {error.strerror or error}"

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
