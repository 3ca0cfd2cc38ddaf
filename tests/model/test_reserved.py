"""Reserved regions: nobody lies in them, what is proved is so by trying all offsets, none leaks."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from heuristics import PACKINGS
from optsched.check.packing import check_packing
from optsched.cli import main
from optsched.errors import GraphError, PlanError, UsageError
from optsched.model.packing_problem import PackingProblem
from optsched.model.reserved import Region, Reserved
from optsched.packing import solve_packing
from optsched.runtime.limits import Limits
from optsched.solver.pack import pack
from optsched.solver.status import Status
from tests.support.commands import Cli


def problem_of(rows: list[tuple[int, int, int]], alignment: int = 1) -> PackingProblem:
    start, end, size = np.array(rows, np.int64).T
    return PackingProblem(
        names=tuple("abcdefgh"[: len(rows)]),
        start=start,
        end=end,
        size=size,
        alignment=np.full(len(rows), alignment, np.int64),
        pin=np.full(len(rows), -1, np.int64),
    )


def clear(problem: PackingProblem, offsets: tuple[int, ...], regions: list[Region]) -> bool:
    """Return True if no byte is reserved or used twice: step by step, byte by byte."""
    for step in range(int(problem.end.max())):
        taken = {
            byte
            for r in regions
            if r.start is None or (r.end is not None and r.start <= step < r.end)
            for byte in range(r.low, r.high)
        }
        for i, offset in enumerate(offsets):
            if problem.start[i] <= step < problem.end[i]:
                own = set(range(offset, offset + int(problem.size[i])))
                if own & taken:
                    return False
                taken |= own
    return True


def least_by_trying(problem: PackingProblem, regions: list[Region]) -> int:
    floor = max(r.high for r in regions)
    limit = floor + int(problem.size.sum()) + int(problem.alignment.sum())
    places = [range(0, limit, int(a)) for a in problem.alignment]
    found = [
        max(floor, problem.slab_size(np.array(offsets)))
        for offsets in product(*places)
        if clear(problem, offsets, regions)
    ]
    return min(found)


def random_case(seed: int) -> tuple[PackingProblem, list[Region]]:
    random = np.random.default_rng(seed)
    rows = [(int(a), int(a + n), int(s)) for a, n, s in random.integers(1, 4, (3, 3))]
    regions = []
    for low, size, start, length in random.integers(0, 4, (2, 4)).tolist():
        steps = (start, start + 1 + length) if length else (None, None)
        regions.append(Region(low, low + 1 + size // 2, *steps))
    last = max(end for _, end, _ in rows)
    first = min(start for start, _, _ in rows)
    return problem_of(rows, 1 + seed % 2), [
        r for r in regions if r.start is None or (r.start < last and (r.end or 0) > first)
    ]


@pytest.mark.parametrize("seed", range(25))
def test_equals_trying_all_offsets(seed: int) -> None:
    problem, regions = random_case(seed)
    if not regions:
        regions = [Region(1, 3)]
    best = least_by_trying(problem, regions)
    result = pack(problem, reserved=regions)
    assert result.offsets is not None
    assert clear(problem, tuple(result.offsets.tolist()), regions)
    assert (result.slab, result.slab_bound, result.status) == (best, best, Status.OPTIMAL)
    extended = Reserved(regions).reduce(problem)[0]
    assert solve_packing(extended, limits=Limits(seconds=10)).slab == best
    for packing in PACKINGS.values():
        assert check_packing(extended, packing(extended).tolist()) >= best


def test_the_checker_finds_a_buffer_in_a_region() -> None:
    extended = Reserved([Region(2, 3, 3, 9)]).reduce(problem_of([(0, 4, 4)]))[0]
    assert extended.names[1:] == ("reserved 2:3@3-4",)
    with pytest.raises(PlanError, match="reserved 2:3"):
        check_packing(extended, [0, 2])
    assert check_packing(extended, [3, 2]) == 7


def test_regions_beyond_the_capacity_are_in_nobodys_way() -> None:
    problem = problem_of([(0, 2, 4), (1, 3, 4)])
    beyond = [Region(8, 100), Region(2**61, 2**62)]
    assert pack(problem, capacity=8, reserved=beyond).slab == 8
    inside = pack(problem, capacity=8, reserved=[Region(7, 100)])
    assert (inside.status, inside.slab_bound) == (Status.INFEASIBLE, 9)
    assert pack(problem, reserved=[Region(8, 100, 50, 60)]).slab == 8


def test_a_region_is_among_what_leaves_no_room(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "live.csv"
    path.write_text("id,lower,upper,size\nb,0,4,3\n")
    said = cli("pack", path, "--reserve", "0:5", "--capacity", "7", code=4)
    assert "at least 8 required" in said
    assert "live at step 0: reserved 0:5@0-4 5, b 3" in said


def test_a_minimum_beside_regions_pins_or_alignment_is_said_of_such_packings_only(
    tmp_path: Path, cli: Cli
) -> None:
    path = tmp_path / "live.csv"
    path.write_text("id,lower,upper,size,offset\nb,0,4,3,4\nc,0,4,3,\n")
    for option, words in (
        (["--reserve", "0:5"], "leave the reserved bytes free"),
        (["--pins"], "keep the offsets in the file"),
        (["--align", "8"], "round sizes and offsets up to multiples of 8"),
    ):
        first = cli("pack", path, *option).splitlines()[0]
        assert first.endswith(f"smallest possible among packings that {words}, proved")
    assert cli("pack", path).splitlines()[0].endswith("; smallest possible, proved")
    result = pack(problem_of([(0, 4, 3)]), reserved=[Region(0, 5)])
    assert "among packings that leave the reserved bytes free" in repr(result)
    assert "among packings that leave the reserved bytes free, proved" in result.summary()


def test_a_buffer_may_be_called_as_a_region() -> None:
    names = ("reserved 0:4@0-2", "b")
    problem = PackingProblem(names=names, size=[1, 1], start=[0, 0], end=[2, 2])
    assert pack(problem, reserved=[Region(0, 4)]).slab == 6


def test_what_is_no_region_is_refused() -> None:
    problem = problem_of([(0, 2, 4)])
    with pytest.raises(UsageError, match="reserved wants a Region, got tuple"):
        pack(problem, reserved=[(0, 4)])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="a reserved region has bytes and steps, got '4KiB'"):
        Region(0, "4KiB")  # type: ignore[arg-type]


def test_overlapping_regions_are_one() -> None:
    regions = [Region(0, 4, 0, 3), Region(2, 6, 1, 5), Region(0, 4, 3, 4), Region(6, 8, 1, 2)]
    extended = Reserved(regions).reduce(problem_of([(0, 5, 1)]))[0]
    assert check_packing(extended, [8, *extended.pin[1:].tolist()]) == 9
    covered = np.zeros((5, 8), int)
    for i in range(1, len(extended)):
        steps, low = slice(extended.start[i], extended.end[i]), int(extended.pin[i])
        covered[steps, low : low + int(extended.size[i])] += 1
    wanted = np.zeros((5, 8), int)
    for r in regions:
        wanted[r.start : r.end, r.low : r.high] = 1
    assert (covered == wanted).all()


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (Region(3, 3), "region 3:3"),
        (Region(4, 3), "region 4:3"),
        (Region(0, 2**63), "2\\*\\*62"),
        (Region(0, 3, 2, 2), "region 0:3@2-2"),
        (Region(5, 6), "buffer 'a' is pinned into the reserved bytes 5:6"),
    ],
)
def test_bad_regions_are_refused(region: Region, message: str) -> None:
    problem = problem_of([(0, 2, 3)])
    problem.pin[0] = 4
    with pytest.raises(GraphError, match=message):
        pack(problem, reserved=[region])


def test_nothing_to_pack() -> None:
    empty = problem_of([(0, 1, 1)])
    none = PackingProblem(
        (), *(x[:0] for x in (empty.start, empty.end, empty.size)), *(2 * [empty.pin[:0]])
    )
    assert pack(none, reserved=[Region(0, 8)]).slab == 0


def test_command_line(tmp_path: Path, cli: Cli) -> None:
    path, out = tmp_path / "p.csv", tmp_path / "q.csv"
    path.write_text("id,lower,upper,size\na,0,4,8\nb,2,6,4\n")
    command = ["pack", str(path), "--json", "-o", str(out)]
    record = json.loads(cli(*command, "--reserve", "8:1KiB@0-4", "--reserve", "2:3@4-6"))
    assert set(record["offsets"]) == {"a", "b"}
    assert (record["buffers"], record["slab"]) == (2, 1028)
    assert record["reserved"] == ["8:1024@0-4", "2:3@4-6"]
    assert len(out.read_text().splitlines()) == 3
    assert main([*command, "--reserve", "8:16", "--capacity", "16"]) == 4
    for bad in ("8", "8:x", "1:2@3", "1:2@3-"):
        assert main([*command, "--reserve", bad]) == 2


def test_a_pinned_buffer_that_is_never_live_is_in_no_ones_way() -> None:
    problem = PackingProblem(
        names=("a", "never"),
        start=np.array([0, 1]),
        end=np.array([2, 1]),
        size=np.array([1, 3]),
        alignment=np.array([1, 1]),
        pin=np.array([3, 0]),
    )
    assert len(Reserved([Region(0, 1)]).reduce(problem)[0]) == 3
