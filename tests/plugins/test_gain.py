"""The least saving for which a plugin replaces an order."""

from __future__ import annotations

from fractions import Fraction

import pytest

from optsched.errors import UsageError
from optsched.plugins.gain import MinGain, kept_reason, parse_gain, worth_it

KIB = 1024


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (10_000_000, 10_000_000 - 40, False),
        (100 * KIB, 100 * KIB - 64 * KIB, True),
        (100 * KIB, 100 * KIB - 64 * KIB + 1, False),
        (1000 * 65_537, 999 * 65_537, True),
        (1000 * 65_537, 999 * 65_537 + 1, False),
        (10, 20, False),
    ],
)
def test_both_limits_of_the_default_hold(before: int, after: int, expected: bool) -> None:
    assert worth_it(before, after) is expected


def test_without_a_minimum_any_gain_counts_but_none_does_not() -> None:
    assert worth_it(10, 9, parse_gain(0))
    assert not worth_it(10, 10, parse_gain(0))


@pytest.mark.parametrize(
    ("value", "expected", "text"),
    [
        ("0.1%", MinGain(Fraction(1, 1000), 0), "0.1 %"),
        ("64KiB", MinGain(Fraction(0), 65_536), "64.0 KiB"),
        (0, MinGain(Fraction(0), 0), "1 B"),
        (MinGain(), MinGain(Fraction(1, 1000), 65_536), "0.1 % and 64.0 KiB"),
    ],
)
def test_a_minimum_is_bytes_or_a_percentage(
    value: MinGain | str | int, expected: MinGain, text: str
) -> None:
    assert parse_gain(value) == expected
    assert str(parse_gain(value)) == text


def test_the_reason_names_what_was_saved_and_what_was_asked() -> None:
    assert kept_reason(10, 10) == "no order known needs less"
    assert kept_reason(100, 60) == (
        "the best order saves 40 bytes only, the minimum gain is 0.1 % and 64.0 KiB"
    )


@pytest.mark.parametrize("value", ["101%", "many", -1, "%", None, 0.5])
def test_anything_else_is_refused_by_value(value: object) -> None:
    with pytest.raises(UsageError, match="min_gain must be bytes or a percentage"):
        parse_gain(value)  # type: ignore[arg-type]
