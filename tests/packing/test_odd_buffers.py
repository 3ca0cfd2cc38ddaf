"""Buffers that are never live, have no bytes, or gaps all along: against every offset."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.errors import GraphError, PlanError
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.reports.results import packing_record, packing_text
from optsched.solver.pack import pack
from optsched.solver.status import Status
from tests.support import brute


def odd_problem(rng: np.random.Generator) -> PackingProblem | None:
    """Up to five buffers of up to four bytes with all that a packing can ask for, or a clash."""
    k = int(rng.integers(0, 6))
    start, size = rng.integers(0, 4, k), rng.integers(0, 5, k)
    end, alignment = start + rng.choice([0, 1, 1, 2, 3, 4], k), rng.choice([1, 1, 2, 3], k)
    pin = np.where(rng.random(k) < 0.15, alignment * rng.integers(0, 4, k), -1)
    gaps: list[tuple[Gap, ...]] = [()] * k
    for i in np.flatnonzero((end > start) & (rng.random(k) < 0.4)).tolist():
        low, high = sorted(rng.choice(np.arange(start[i], end[i] + 1), 2, replace=False).tolist())
        window = sorted(rng.integers(0, size[i] + 1, 2).tolist())
        gaps[i] = (Gap(low, high, (window[0], window[1]) if rng.random() < 0.4 else None),)
    pairs = [(a, b) for a in range(k) for b in range(a) if rng.random() < 0.2]
    ids = rng.permutation(k).tolist()
    groups = (tuple(ids[: int(rng.integers(2, 4))]),) if k > 1 and rng.random() < 0.6 else ()
    try:
        return PackingProblem(
            start=start,
            end=end,
            size=size,
            alignment=alignment,
            pin=pin,
            gaps=tuple(gaps),
            keep_apart=pairs,
            must_share=groups,
        )
    except GraphError:
        return None


def test_pack_equals_trying_all_offsets() -> None:
    proved = refused = 0
    for seed in range(300):
        problem = odd_problem(np.random.default_rng([21, seed]))
        if problem is None:
            continue
        least = brute.least_slab_by_offsets(problem)
        if least is None:
            with pytest.raises(GraphError, match="pinned onto each other"):
                pack(problem)
            refused += 1
            continue
        found = pack(problem)
        assert found.offsets is not None
        check_packing(problem, found.offsets.tolist(), slab=least)
        assert (found.status, found.slab_bound) == (Status.OPTIMAL, least)
        proved += 1
        if least:
            assert pack(problem, capacity=least - 1).status is Status.INFEASIBLE
    assert proved > 200
    assert refused


NEVER = {"start": [4, 3, 4], "end": [4, 4, 5], "size": [1, 1, 3]}
EMPTY = {"start": [0, 3, 4], "end": [1, 4, 5], "size": [0, 1, 3]}


@pytest.mark.parametrize("rows", [NEVER, EMPTY])
def test_a_pair_with_a_buffer_that_takes_no_room_says_nothing(rows: dict[str, list[int]]) -> None:
    """A buffer is not kept apart from itself or from a member of its group."""
    problem = PackingProblem(**rows, keep_apart=[(0, 2)], must_share=[(0, 1)])
    assert pack(problem).slab == check_packing(problem, [0, 0, 0]) == 3
    with pytest.raises(PlanError, match="must share an offset"):
        check_packing(problem, [1, 0, 0])
    other = PackingProblem(**rows, keep_apart=[(1, 2)], must_share=[(0, 1)])
    assert pack(other).slab == 4


def test_a_buffer_with_a_gap_all_along_is_as_large_as_it_is() -> None:
    """No byte of it is ever in the way, but it ends where it ends."""
    problem = PackingProblem(size=[8, 3], start=[0, 0], end=[4, 4], gaps=((Gap(0, 4),), ()))
    found = pack(problem)
    assert (found.slab, found.slab_bound, found.status) == (8, 8, Status.OPTIMAL)
    assert "one buffer alone ends there" in packing_text(found, packing_record(found))
    refused = pack(problem, capacity=7)
    assert refused.status is Status.INFEASIBLE
    text = packing_text(refused, packing_record(refused))
    assert "  larger than that: b0 8" in text
