"""Byte counts with units, such as 64KiB."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import SupportsIndex

from optsched.errors import UsageError
from optsched.runtime.integers import as_integer

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS[f"{_letter}b"] = 1000**_power
    _UNITS[f"{_letter}ib"] = 1024**_power
    # As in linker scripts and GNU's tools, a letter alone is a binary unit.
    _UNITS[_letter] = 1024**_power
# The lengths are limited, since Python takes quadratic time to read a long number.
_NUMBER = r"\d{1,40}|\d{1,3}(?:,\d{3}){1,12}|\d{1,3}(?:_\d{3}){1,12}"
_BYTES = re.compile(rf"\s*((?:{_NUMBER})(?:\.\d{{1,9}})?)\s*([A-Za-z]*)\s*")


def format_bytes(count: int | None) -> str:
    """Format a byte count with a binary unit.

    >>> format_bytes(1536)
    '1.5 KiB'
    """
    if count is None:
        return "-"
    unit, size = unit_of(count)
    return f"{count} B" if size == 1 else f"{count / size:,.1f} {unit}"


def spelled_bytes(count: int) -> str:
    """Return a byte count in full and, if it is long, with a binary unit.

    >>> spelled_bytes(1), spelled_bytes(1536)
    ('1 byte', '1,536 bytes (1.5 KiB)')
    """
    text = f"{count:,} byte{'' if count == 1 else 's'}"
    return text if count < 1024 else f"{text} ({format_bytes(count)})"


def unit_of(count: int) -> tuple[str, int]:
    """Return the name and size of the largest binary unit that is at most a byte count."""
    # Ten bits to a unit: 2**10 bytes are a KiB, 2**20 a MiB. Nothing above TiB has a name here.
    power = min(max(count.bit_length() - 1, 0) // 10, 4)
    return ("B", "KiB", "MiB", "GiB", "TiB")[power], 1024**power


def round_up(size: int, step: int) -> int:
    """Return the least multiple of a step that is at least a size."""
    return -(-size // step) * step


def parse_bytes(value: str | SupportsIndex) -> int:
    """Return a number of bytes given as an integer or as text, such as `64KiB`, `1.5GiB` or `2GB`.

    `KiB` and `K` are 1024 bytes, `KB` is 1000; upper and lower case are equal. Thousands may be
    separated, as in our own output. Fractions of a byte are dropped.

    Raise `UsageError` if the value has another form or is negative.

    Examples
    --------
    >>> parse_bytes("1.5KiB"), parse_bytes("247,008,512"), parse_bytes("48K"), parse_bytes(100)
    (1536, 247008512, 49152, 100)
    """
    if isinstance(value, str):
        match = _BYTES.fullmatch(value)
        if match is not None and match[2].lower() in _UNITS:
            # A fraction is exact; 1.1GB as a float would lose a byte here and there.
            number = Fraction(re.sub("[,_]", "", match[1]))
            return int(number * _UNITS[match[2].lower()])
    else:
        count = as_integer(value)
        if count is not None and count >= 0:
            return count
    raise UsageError(f"{value!r} is not a number of bytes: write 1048576, 64KiB or 2GB")
