"""What a fleet's run did, one JSON object a line: for programs that watch it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, BinaryIO

from optsched.errors import UsageError


class FleetLog:
    """Adds lines to a file; each goes out with one write, so that none is ever half there.

    A line that can not be written, on a full disk say, ends the log and not the run:
    :attr:`trouble` says why.

    Parameters
    ----------
    path
        The file, None for no log.

    Raises
    ------
    UsageError
        If it can not be opened.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path, self.trouble = path, ""
        self._file: BinaryIO | None = None
        if path is not None:
            try:
                self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - kept open
            except OSError as error:
                reason = (error.strerror or "no reason").lower()
                raise UsageError(f"{path}: the log can not be written: {reason}") from None

    def add(self, event: str, **more: Any) -> None:
        """Add a line: what happened, when, and its numbers."""
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
