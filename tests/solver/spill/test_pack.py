"""Several pools: each packed alone, spilling if it must, no more claimed than is proved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.cli import main
from optsched.errors import PlanError, UsageError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.model.pools import Pool
from optsched.model.selection import select
from optsched.reports.results import packing_record, packing_text
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, StopReason
from optsched.solver.finding import Finding
from optsched.solver.pack import pack
from optsched.solver.packing_result import PackingResult
from optsched.solver.packing_stages import KnownPacking, try_heuristics, try_to_fit
from optsched.solver.spill.pack import check_pools
from optsched.solver.status import Status
from tests.support.brute import least_slab
from tests.support.commands import Cli
from tests.support.packing_instances import with_groups, with_pairs

LIMITS = Limits(seconds=20)


def random_problem(seed: int, buffers: int = 6) -> PackingProblem:
    random = np.random.default_rng(seed)
    start = random.integers(0, 5, buffers)
    return PackingProblem(
        names=tuple("abcdefgh"[:buffers]),
        start=start,
        end=start + random.integers(1, 5, buffers),
        size=random.integers(1, 7, buffers),
        alignment=np.full(buffers, 1 + seed % 2, np.int64),
        pin=np.full(buffers, -1, np.int64),
    )


def ids_of(mask: object) -> np.ndarray:
    return np.flatnonzero(np.array(mask))


def check(problem: PackingProblem, pools: list[Pool], result: PackingResult) -> None:
    """Every buffer lies somewhere, once, within its pool's capacity."""
    names, offsets = result.places(len(problem))
    assert all(names)
    total = 0
    for pool in pools:
        ids = ids_of([name == pool.name for name in names])
        total += check_packing(select(problem, ids), offsets[ids].tolist(), capacity=pool.capacity)
    assert total == result.slab == check_pools(problem, names, offsets.tolist())


@pytest.mark.parametrize("seed", range(12))
def test_without_capacities_each_slab_is_least(seed: int) -> None:
    problem = random_problem(seed)
    own_pools = [("x", "y")[i % 2] for i in range(len(problem))]
    pools = [Pool("x"), Pool("y")]
    result = pack(problem, own_pools=own_pools, pools=pools, limits=LIMITS)
    check(problem, pools, result)
    assert (result.status, result.stop_reason) == (Status.OPTIMAL, StopReason.PROVED)
    for part in result.packed:
        assert part.result.slab == least_slab(select(problem, part.ids))
    assert result.spilled == ()


@pytest.mark.parametrize("paired", [False, True])
def test_fewest_bytes_are_spilled_and_refuted_only_if_nothing_does(paired: bool) -> None:
    best = refuted = spilled = missed = proved = 0
    for seed in range(75):
        problem = random_problem(seed, buffers=5)
        if paired:
            problem = with_pairs(np.random.default_rng(seed), problem)
        capacities = (5 + seed % 9, 4 + seed % 7)
        pools = [Pool("fast", capacities[0]), Pool("slow", capacities[1])]
        own_pools = ["slow" if i == 0 else "" for i in range(len(problem))]
        result = pack(problem, own_pools=own_pools, pools=pools, limits=LIMITS)
        least = least_spilled(problem, capacities)
        if result.status is Status.INFEASIBLE:
            assert least is None
            refuted += 1
        if result.slab is None:
            missed += least is not None
            continue
        check(problem, pools, result)
        assert least is not None
        found = int(problem.size[list(result.spilled)].sum())
        assert result.spilled_bound <= least <= found == result.spilled_bytes
        proved += found == result.spilled_bound > 0
        assert (result.stop_reason is StopReason.DECIDED) <= (found == 0)
        assert found == 0 or (result.status is Status.OPTIMAL) == (found == result.spilled_bound)
        best += found == least
        spilled += found > 0
    assert (missed, refuted > 8, spilled > 18, best > 40) == (0, True, True, True)
    assert proved == spilled


def test_what_fits_in_one_pool_alone_is_counted_there() -> None:
    """`b` is larger than `q`, so that it meets `a`, which may lie in the last pool only."""
    problem = PackingProblem(size=[1, 4, 4], start=[0, 3, 1], end=[3, 5, 4], names=("a", "c", "b"))
    pools = [Pool("p", 8), Pool("q", 2), Pool("r", 4)]
    result = pack(problem, own_pools=["r", "", "q"], pools=pools)
    assert (result.status, result.slab) == (Status.INFEASIBLE, None)
    assert result.shortage is not None
    assert "5 bytes are live at once" in result.shortage.reason
    assert (
        pack(problem, own_pools=["r", "", "q"], pools=[*pools[:2], Pool("r", 5)]).slab is not None
    )


def test_nothing_is_called_the_fewest_of_no_packings() -> None:
    """The two that leave `p` fit in no pool together, which no simple reason shows."""
    problem = PackingProblem(
        size=[4, 2, 2], start=[2, 1, 0], end=[3, 3, 3], alignment=[1, 1, 2], pin=[-1, 1, -1]
    )
    result = pack(problem, own_pools=[""] * 3, pools=[Pool("p", 3), Pool("q", 5), Pool("r", 1)])
    text = packing_text(result, packing_record(result))
    assert result.slab is None
    assert "fewest" not in text


def test_a_group_lies_in_one_pool_and_leaves_it_as_one() -> None:
    spilled = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        problem = with_pairs(random, with_groups(random, random_problem(seed, buffers=7)))
        pools = [Pool("fast", 5 + seed % 9), Pool("slow")]
        result = pack(problem, own_pools=[""] * 7, pools=pools, limits=LIMITS)
        check(problem, pools, result)
        names, _ = result.places(7)
        for group in problem.must_share:
            assert len({names[i] for i in group}) == 1
        one_each = problem.joined.problem
        alone = pack(one_each, own_pools=[""] * len(one_each), pools=pools, limits=LIMITS)
        assert (alone.slab, alone.spilled_bytes) == (result.slab, result.spilled_bytes)
        spilled += bool(problem.must_share) and result.spilled_bytes > 0
    assert spilled > 20


def test_a_group_that_names_two_pools_is_refused() -> None:
    problem = replace(random_problem(1), must_share=[("a", "c")])
    said = r"buffers 'a' \(pool 'x'\) and 'c' \(pool 'y'\) must share an offset"
    with pytest.raises(UsageError, match=said):
        pack(problem, own_pools=list("xxyyyy"), pools=[Pool("x"), Pool("y")])
    with pytest.raises(UsageError, match=said):
        check_pools(problem, list("xxyyyy"), [0] * 6)


def least_spilled(problem: PackingProblem, capacities: tuple[int, int]) -> int | None:
    """Fewest bytes that leave the first pool, by all choices; buffer 0 is in the second anyway."""
    costs = []
    for later in product([False, True], repeat=len(problem) - 1):
        slow = np.array([True, *later])
        fits = all(
            (least_slab(select(problem, ids_of(mask))) or 0) <= capacity
            for mask, capacity in zip((~slow, slow), capacities, strict=True)
        )
        if fits:
            costs.append(int(problem.size[slow].sum() - problem.size[0]))
    return min(costs, default=None)


def test_pins_stay_in_their_pool() -> None:
    problem = random_problem(1, buffers=4)
    problem.pin[0], problem.size[:] = 8, 4
    problem.start[:], problem.end[:] = 0, 2
    pools = [Pool("fast", 12), Pool("slow", 100)]
    result = pack(problem, own_pools=[""] * 4, pools=pools, limits=LIMITS)
    check(problem, pools, result)
    assert 0 not in result.spilled
    assert len(result.spilled) == 1
    refused = pack(
        problem, own_pools=[""] * 4, pools=[Pool("fast", 11), Pool("slow")], limits=LIMITS
    )
    assert refused.status is Status.INFEASIBLE
    assert "reach 12 bytes" in (refused.shortage.reason if refused.shortage else "")


def test_gaps_and_spilling_go_together() -> None:
    problem = random_problem(3, buffers=3)
    problem.start[:], problem.end[:], problem.size[:] = 0, 9, (8, 8, 2)
    problem.start[1], problem.end[1], problem.alignment[:] = 3, 5, 1
    gapped = PackingProblem(
        problem.names,
        problem.start,
        problem.end,
        problem.size,
        problem.alignment,
        problem.pin,
        gaps=((Gap(2, 6),), (), ()),
    )
    pools = [Pool("fast", 8), Pool("slow")]
    result = pack(gapped, own_pools=[""] * 3, pools=pools, limits=LIMITS)
    check(gapped, pools, result)
    assert result.spilled == (2,)


def test_capacities_are_those_of_the_pools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = PackingProblem(size=[8, 4, 8], start=[0, 0, 0], end=[4, 6, 8], capacity=10)
    result = pack(problem, own_pools=["a", "a", "b"], pools=[Pool("a"), Pool("b")], limits=LIMITS)
    assert (result.status, result.slab) == (Status.OPTIMAL, 20)
    path = tmp_path / "packing.json"
    for other, code, says in (
        ("b", 2, "give each its own"),
        ("a", 4, "in 10 bytes"),
    ):
        buffers = [
            {"name": name, "start": 0, "end": 6, "size": 8, "pool": pool}
            for name, pool in (("x", "a"), ("y", other))
        ]
        document = {"format": "optsched-packing/1", "capacity": 10, "buffers": buffers}
        path.write_text(json.dumps(document))
        assert main(["pack", str(path)]) == code
        assert says in "".join(capsys.readouterr())


def test_bad_pools_are_refused() -> None:
    problem = random_problem(0, buffers=2)
    with pytest.raises(UsageError, match="buffer 'b' names pool 'z'"):
        pack(problem, own_pools=["x", "z"], pools=[Pool("x")])
    with pytest.raises(UsageError, match="given once"):
        pack(problem, own_pools=["", ""], pools=[Pool("x"), Pool("x")])
    with pytest.raises(UsageError, match="1 pools are named for 2 buffers"):
        pack(problem, own_pools=["x"], pools=[Pool("x")])
    with pytest.raises(UsageError, match="capacity, got 'x'"):
        pack(problem, own_pools=["x", "x"], pools=["x"])  # type: ignore[list-item]


def test_command_line(tmp_path: Path, cli: Cli) -> None:
    path, out = tmp_path / "p.csv", tmp_path / "q.csv"
    path.write_text("id,lower,upper,size,pool\na,0,4,8,fast\nb,2,6,4,\nc,0,6,5,slow\n")
    command = ["pack", str(path), "--json", "-o", str(out)]
    record = json.loads(cli(*command, "--pool", "fast=8", "--pool", "slow"))
    assert record["pool"] == {"a": "fast", "b": "slow", "c": "slow"}
    assert (record["slab"], record["spilled"], record["status"]) == (17, ["b"], "optimal")
    assert record["pools"]["slow"] == {
        "capacity": None,
        "buffers": 2,
        "slab": 9,
        "slab_bound": 9,
        "slab_proof": "L1",
    }
    assert out.read_text().splitlines()[0] == "id,lower,upper,size,pool,offset"
    assert "slab 17 bytes" in cli("check", out)
    # Without capacities nothing is spilled, and each slab is least.
    assert "optimal" in cli("pack", path)
    assert main([*command, "--pool", "fast=12", "--pool", "slow=5"]) == 0
    assert main([*command, "--pool", "fast=7", "--pool", "slow=7"]) == 4
    for bad in (["--pool", "fast=x"], ["--pool", "fast"], ["--pool", "=3"], ["--capacity", "9"]):
        assert main([*command, *bad]) == 2


def test_checker_keeps_pools_apart() -> None:
    problem = random_problem(2, buffers=2)
    problem.start[:], problem.end[:], problem.size[:], problem.alignment[:] = 0, 2, 4, 1
    assert check_pools(problem, ["x", "y"], [0, 0]) == 8
    with pytest.raises(PlanError, match="overlap"):
        check_pools(problem, ["x", "x"], [0, 0])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Pool("p", -1), "-1 is not a number of bytes"),
        (lambda: Pool("p", 1.5), "1.5 is not a number of bytes"),
        (lambda: Pool(3), "the name of a pool wants a str, got int"),
    ],
)
def test_pools_are_checked_as_they_are_made(make: Callable[[], Pool], said: str) -> None:
    assert Pool("p", "4KiB").capacity == 4096  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=said):
        make()


@pytest.mark.parametrize("seed", range(20))
def test_only_a_packing_that_fits_is_a_result_of_an_attempt(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts to fill a pool are many: packings above its capacity are not checked."""
    problem = random_problem(seed)
    least = least_slab(problem)
    checked: list[int | None] = []

    def check(*_: object, slab: int | None = None) -> int:
        checked.append(slab)
        return 0

    monkeypatch.setattr("optsched.solver.packing_stages.check_packing", check)
    found = try_to_fit(problem, least - 1, LIMITS, None)
    assert (found.offsets, found.slab, found.status) == (None, None, Status.INFEASIBLE)
    assert not checked
    found = try_to_fit(problem, least, LIMITS, None)
    assert found.slab == least
    assert checked == [least]


def test_a_packer_that_takes_longer_than_what_is_left_is_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, clock, tried = random_problem(3), Clock.of(Limits(work=100)), []

    def packed_by(known: KnownPacking, name: str) -> Iterator[Finding[IntArray]]:
        tried.append(name)
        clock.spend(60)
        yield Finding(name, plans=(np.cumsum(problem.size * 8),), trial=True)

    monkeypatch.setattr("optsched.solver.packing_stages._packed_by", packed_by)
    for _ in try_heuristics(known := KnownPacking(problem, clock), None, clock):
        known.offsets, known.slab = problem.size * 0, 10**6
    assert len(tried) == 2
    monkeypatch.setattr("optsched.solver.packing_stages.MANY_BUFFERS", 1)
    clock, tried = Clock.of(Limits(work=100)), []
    for _ in try_heuristics(known := KnownPacking(problem, clock), None, clock):
        known.offsets, known.slab = problem.size * 0, 10**6
    assert len(tried) == 1
