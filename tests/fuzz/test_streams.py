"""A small sample of the fuzzer of streams, which finds nothing wrong, and would find it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from optsched.model.graph import Graph
from tests.fuzz.streams import QUESTIONS, main, run
from tests.support import brute_streams

COUNTS = {"relation": 120, "slab": 25, "widened": 40, "order": 20, "check": 100, "levels": 20}


@pytest.mark.parametrize("name", QUESTIONS)
def test_nothing_is_wrong(name: str) -> None:
    row = run(name, COUNTS[name], seed=3)
    assert (row.graphs, row.wrong) == (COUNTS[name], [])


def test_wrong_answers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # An oracle that takes ops for running one at a time contradicts all that streams change.
    ours = brute_streams.preceding

    def one_at_a_time(graph: Graph, order: Sequence[int]) -> list[set[int]]:
        return ours(graph.without_streams(), order)

    monkeypatch.setattr(brute_streams, "preceding", one_at_a_time)
    for name in ("relation", "check"):
        assert run(name, 40, seed=3).wrong


def test_the_command_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(2, questions=("relation", "check")) == 0
    assert "relation   2 graphs" in capsys.readouterr().out
