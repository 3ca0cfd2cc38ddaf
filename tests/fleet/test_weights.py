"""Weights: two forms, four names of a graph, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.errors import OptschedError
from optsched.fleet.weights import read_weights, weight_of


@pytest.mark.parametrize(
    "text", ["# fleet\na.json 2\nb, 0.5\n", '{"a.json": 2, "b": "0.5"}', "a.json  2\n\nb 5e-1"]
)
def test_lines_and_json_say_the_same(tmp_path: Path, text: str) -> None:
    path = tmp_path / "weights"
    path.write_text(text)
    weights = read_weights(path)
    assert weights == {"a.json": 2.0, "b": 0.5}
    assert weight_of("some/where/a.json", weights) == 2.0
    assert weight_of("b.json.gz", weights) == 0.5
    assert weight_of("c.json", weights) == 1.0
    assert weight_of("x/b.json", {"x/b.json": 3.0, "b": 1.0}) == 3.0


@pytest.mark.parametrize(
    "text", ["a", "a x", "a -1", "a nan", "a inf", "a 1e16", '{"a": true}', '{"a":', ""]
)
def test_what_is_no_weight_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "weights"
    path.write_text(text)
    if not text:
        assert read_weights(path) == {}
        return
    with pytest.raises(OptschedError):
        read_weights(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(OptschedError, match="weights file is not text"):
        read_weights(path)
