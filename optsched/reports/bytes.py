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
    unit, size = unit_of(count)
    return f"{count} B" if size == 1 else f"{count / size:,.1f} {unit}"


def unit_of(count: int) -> tuple[str, int]:
    """Return the largest binary unit of which a byte count has at least one, and its bytes."""
    power = min(max(count.bit_length() - 1, 0) // 10, 4)
    return ("B", "KiB", "MiB", "GiB", "TiB")[power], 1024**power


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
