"""A peak for graphs with collectives: one plan for all ranks, and no rank that waits forever."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from tests.support.ranks import run_ranks

MODULE = "tests.support.two_ranks"
ROWS = 128 * 32 * 4
"""Bytes of the rows of a step, and of the operand of each of its collectives."""


@pytest.mark.slow
def test_all_ranks_take_the_plan_of_rank_0_and_hold_it(tmp_path: Path) -> None:
    (first,), (second,) = run_ranks(MODULE, tmp_path, "equal")
    assert first["answer"] == second["answer"]
    assert first["answer"].startswith("fits 700,000 bytes: ")
    assert "(0 ops" not in first["answer"]
    for row in (first, second):
        assert (row["error"], row["reason"], row["near"]) == ("", "", True)
        (step, _), *graphs = row["figures"]
        assert len(graphs) == 2
        # The rows that are given to the step are live before it, and go in the backward graph.
        assert max(planned for planned, _ in graphs) == step + ROWS
        for planned, measured in graphs:
            assert planned <= measured <= planned + ROWS


@pytest.mark.slow
@pytest.mark.parametrize(("case", "peak"), [("regions", 1_250_000), ("late", 1_700_000)])
def test_all_ranks_choose_the_splits_of_a_step_together(
    tmp_path: Path, case: str, peak: int
) -> None:
    """Also if the first one takes as long as only its own plan of the step allows."""
    (first,), (second,) = run_ranks(MODULE, tmp_path, case)
    assert (first["seconds"] > 25) >= (case == "late")
    assert first["line"] == second["line"]
    assert first["line"].startswith(f"step of 2 calls of 2 graphs: asked {peak:,} bytes, held ")
    assert int(re.findall(r"held ([0-9,]+)", first["line"])[0].replace(",", "")) <= peak
    assert [planned for planned, _ in first["figures"]] == [
        planned for planned, _ in second["figures"]
    ]
    for row in (first, second):
        assert (row["error"], row["near"]) == ("", True)


@pytest.mark.slow
def test_a_later_process_searches_nothing_whichever_rank_has_kept_it(tmp_path: Path) -> None:
    """The first rank's answer holds; compiled graphs are in the cache of each rank, or are not."""
    caches = [tmp_path / f"cache{rank}" for rank in range(2)]
    earlier = run_ranks(MODULE, tmp_path, "equal", caches=caches)
    assert [(row["planned"], row["cached"]) for (row,) in earlier] == [
        (1, [False, False]),
        (0, [False, False]),
    ]
    for lost, planned in ((None, 0), (1, 0), (0, 1)):
        if lost is not None:
            shutil.rmtree(caches[lost])
        later = run_ranks(MODULE, tmp_path, "equal", caches=caches)
        for rank, ((before,), (after,)) in enumerate(zip(earlier, later, strict=True)):
            assert after["planned"] == (planned if rank == 0 else 0)
            assert after["cached"] == [rank != lost] * 2
            for name in ("error", "bits", "answer"):
                assert before[name] == after[name]
            assert [x for x, _ in before["figures"]] == [x for x, _ in after["figures"]]
    # An answer that is kept does not go on without the other rank.
    (row,), _ = run_ranks(MODULE, tmp_path, "missing", caches=caches)
    assert "rank 1 said nothing about the joint graph within 10 seconds" in row["error"]
    assert row["planned"] == 0


@pytest.mark.slow
def test_a_later_process_takes_the_choice_for_a_step(tmp_path: Path) -> None:
    caches = [tmp_path / f"cache{rank}" for rank in range(2)]
    found = [run_ranks(MODULE, tmp_path, "regions", caches=caches) for _ in range(2)]
    for (before,), (after,) in zip(*found, strict=True):
        assert (after["planned"], after["cached"]) == (0, [True] * 4)
        assert after["bits"] == before["bits"]
        assert after["line"].endswith("with the splits that an earlier process chose")


@pytest.mark.slow
def test_ranks_that_disagree_are_one_error_on_all(tmp_path: Path) -> None:
    errors = {
        "graphs": "rank 0 and rank 1 compile different graphs, of 141 and 93 nodes",
        "shapes": "rank 0 and rank 1 compile graphs of different shapes",
        "peaks": "rank 0 and rank 1 ask for different peaks",
        "destroyed": "the graph has collectives, but the process group is missing",
    }
    for rows in run_ranks(MODULE, tmp_path, *errors):
        for row, text in zip(rows, errors.values(), strict=True):
            assert text in row["error"]
            assert row["seconds"] < 60


@pytest.mark.slow
@pytest.mark.parametrize("case", ["missing", "dead"])
def test_a_rank_that_does_not_come_is_an_error_and_no_hang(tmp_path: Path, case: str) -> None:
    rows = [row for rank in run_ranks(MODULE, tmp_path, case) for row in rank if row["error"]]
    (row,) = rows
    rank = {"missing": 1, "dead": 0}[case]
    assert f"rank {rank} said nothing about the joint graph within " in row["error"]
    assert row["seconds"] < 60
