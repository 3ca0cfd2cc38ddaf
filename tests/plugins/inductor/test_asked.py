"""The peak that is asked for: bytes, a percentage, or the least."""

from __future__ import annotations

import pytest

from optsched.errors import UsageError
from optsched.plugins.inductor.asked import parse_peak, share_of


def test_bytes_percentages_and_the_least_peak_are_told_apart() -> None:
    assert parse_peak("2KiB") == parse_peak(2048) == (2048, "")
    assert parse_peak(" 12.5 %") == (0, "12.5%")
    assert parse_peak("MIN") == (0, "min")
    assert share_of("12.5%", 1000) == 125
    assert share_of("100%", 7) == 7


@pytest.mark.parametrize("peak", ["0%", "101%", "-5%", "%", "least", "80 %%", -1, 1.5])
def test_other_values_are_refused(peak: object) -> None:
    with pytest.raises(UsageError):
        parse_peak(peak)  # type: ignore[arg-type]
