"""Examples of the documentation run, print what is kept with them, and stay short."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.examples import NEEDS, examples, kept_by, printed_by, without_seconds

HERE = [path for path in examples() if path.stem not in NEEDS]
MOST_LINES = 60


@pytest.mark.parametrize("example", HERE, ids=lambda path: path.name)
def test_an_example_prints_what_is_kept(example: Path) -> None:
    printed, kept = printed_by(example), kept_by(example)
    assert without_seconds(printed) == without_seconds(kept)


@pytest.mark.parametrize("example", examples(), ids=lambda path: path.name)
def test_an_example_is_short(example: Path) -> None:
    text = example.read_text("utf-8")
    assert len(text.splitlines()) <= MOST_LINES
