"""Byte counts are read in every form in which people and this program write them."""

from __future__ import annotations

import pytest

from optsched.errors import UsageError
from optsched.runtime.bytes import parse_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("247,008,512", 247_008_512),
        ("1_000_000", 1_000_000),
        ("48K", 48 * 1024),
        ("48k", 48 * 1024),
        ("48kb", 48_000),
        ("1.5GiB", 3 * 2**29),
        ("1,024.5 kib", 1024 * 1024 + 512),
        ("8gib", 2**33),
        ("7 B", 7),
    ],
)
def test_forms_of_byte_counts(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["1,00", "12_3456", ",512", "1,000_000", "4KK", "lots", "1,2,3"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a number of bytes"):
        parse_bytes(text)
