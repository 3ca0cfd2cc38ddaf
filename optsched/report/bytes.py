"""Byte counts in words."""

from __future__ import annotations

import re

from optsched.errors import UsageError

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}B"] = 1000**_power
    _UNITS[f"{_letter}iB"] = 1024**_power


def format_bytes(count: int | None) -> str:
    """Write a byte count with a binary unit: `1536` is `1.5 KiB`."""
    if count is None:
        return "-"
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:,.1f} {unit}"


def parse_bytes(text: str) -> int:
    """Read `1048576`, `64KiB` or `2GB`.

    Raises
    ------
    UsageError
        If it is none of these.
    """
    match = re.fullmatch(r"\s*(\d{1,19})\s*([A-Za-z]*)\s*", text)
    if match is None or match[2] not in _UNITS:
        raise UsageError(f"{text!r} is no number of bytes (write 1048576, 64KiB or 2GB)")
    return int(match[1]) * _UNITS[match[2]]
