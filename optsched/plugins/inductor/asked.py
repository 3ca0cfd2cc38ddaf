"""The peak that is asked for: bytes, a part of the stock peak, or the least.

>>> parse_peak("2MiB"), parse_peak("80%"), parse_peak("min")
((2097152, ''), (0, '80%'), (0, 'min'))
>>> share_of("80%", 1_001)
800
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import SupportsIndex

from optsched.errors import UsageError
from optsched.runtime.bytes import parse_bytes

LEAST = "min"
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,9})?)\s*%")


def parse_peak(peak: int | str | SupportsIndex) -> tuple[int, str]:
    """Return bytes, or 0 and the text of a percentage or of the least peak.

    Raises
    ------
    UsageError
        If the value is neither, or a percentage not above 0 and at most 100.
    """
    text = peak.strip().lower() if isinstance(peak, str) else ""
    if text == LEAST:
        return 0, LEAST
    match = _SHARE.fullmatch(text)
    if match is None:
        return parse_bytes(peak), ""
    if not 0 < Fraction(match[1]) <= 100:
        raise UsageError(f"a peak in percent must be above 0 and at most 100, got {peak!r}")
    return 0, f"{match[1]}%"


def share_of(ask: str, size: int) -> int:
    """Return a percentage of a number of bytes."""
    return int(Fraction(ask.removesuffix("%")) * size / 100)
