"""A short run of the study of combined demands."""

from __future__ import annotations

from tests.fuzz.packing.combinations import run


def test_nothing_is_wrong_and_every_answer_occurs() -> None:
    count, wrong = run(60, (3, 8), seed=2, seconds=60.0)
    assert wrong == []
    assert count["oracle open"] == count["not closed"] == count["not decided"] == 0
    for what in (
        "above load",
        "with regions",
        "with pairs",
        "with groups",
        "refused",
        "fits",
        "does not fit",
        "brute force",
    ):
        assert count[what] > 0, what
