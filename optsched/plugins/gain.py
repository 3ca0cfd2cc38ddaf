"""The minimum gain for which a plugin replaces a compiler's own order.

Example: limits of 64 KiB and 0.1 %. Of a peak of 100 MB an order must save 100 kB, of a peak of 1
MB 64 KiB.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import SupportsIndex

from optsched.errors import UsageError
from optsched.runtime.bytes import format_bytes, parse_bytes

PERCENT = re.compile(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class MinGain:
    """The least number of bytes that another order must save; both limits hold."""

    share: Fraction = Fraction(1, 1000)
    """Least saving as a part of what the compiler's own order needs."""
    size: int = 1 << 16
    """Least saving in bytes."""

    def __str__(self) -> str:
        percent = f"{float(self.share * 100):g} %"
        parts = [percent] * bool(self.share) + [format_bytes(self.size)] * bool(self.size)
        return " and ".join(parts) or "1 B"


DEFAULT_GAIN = MinGain()


def worth_it(before: int, after: int, least: MinGain = DEFAULT_GAIN) -> bool:
    """Return True if an order saves enough bytes to replace the compiler's own.

    Examples
    --------
    >>> worth_it(10_000_000, 9_999_960), worth_it(10_000_000, 9_000_000)
    (False, True)
    """
    # Both limits: a share alone would move the ops of a tiny graph for a few bytes.
    saved = before - after
    return saved > 0 and saved >= least.size and saved >= least.share * before


def kept_reason(before: int, after: int, least: MinGain = DEFAULT_GAIN) -> str:
    """Return the reason for which the compiler's own order stays although `after` bytes suffice."""
    if after >= before:
        return "no order known needs less"
    return f"the best order saves {before - after:,} bytes only, the minimum gain is {least}"


def parse_gain(value: MinGain | str | SupportsIndex) -> MinGain:
    """Return a minimum gain from bytes, a size such as `"64KiB"`, `"0.1%"` or a MinGain.

    Raise `UsageError` if it is something else, or more than 100 %.

    Examples
    --------
    >>> parse_gain("1%").share, parse_gain("64KiB").size
    (Fraction(1, 100), 65536)
    """
    if isinstance(value, MinGain):
        return value
    percent = PERCENT.fullmatch(value) if isinstance(value, str) else None
    try:
        share = Fraction(percent[1]) / 100 if percent else Fraction(0)
        if share <= 1:
            return MinGain(share, 0 if percent else parse_bytes(value))
    except UsageError:
        pass
    raise UsageError(
        f"min_gain must be bytes or a percentage, such as 65536, '64KiB' or '0.1%', got {value!r}"
    )
