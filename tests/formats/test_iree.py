"""IREE's slabs: inclusive lifetimes, constants, several slabs, the layout by its rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optsched import OptschedError, pack, read_packing
from optsched.check.packing import check_packing
from optsched.formats import PackingTable, sniff_file
from optsched.formats.iree import lay_out
from optsched.model.packing_problem import PackingProblem
from tests.support.commands import Cli

HEAD = """// -----// IR Dump After ScheduleAllocationPass //----- //
module {
  util.func public @main(%arg0: !hal.buffer_view, %size: index) -> index {
    %c100 = arith.constant 100 : index
    %c200_1 = arith.constant 200 : index
"""
SLICES = """    %0:5 = stream.resource.pack on(#hal.device.affinity<@device>) slices({
      [0, 1] = %c100,  // of the first dispatch
      [1, 2] = %c100,
      [0, 4] = %c200_1,
      [3, 3] = %c64
    }) : index
"""
TAIL = """    %x, %t = stream.resource.alloca uninitialized : !stream.resource<transient>{%0#0}
    util.return %0#0 : index
  }
}
"""
TEXT = HEAD + SLICES + TAIL


def table_of(text: str, folder: Path) -> PackingTable:
    path = folder / "slabs.txt"
    path.write_text(text)
    return read_packing(path)


def test_lifetimes_end_with_their_last_step(tmp_path: Path) -> None:
    table = table_of(TEXT, tmp_path)
    problem = table.problem
    assert sniff_file(tmp_path / "slabs.txt").name == "iree"
    assert problem.start.tolist() == [0, 1, 0, 3]
    assert problem.end.tolist() == [2, 3, 5, 4]
    assert problem.names == tuple(f"main.0.{i}" for i in range(4))


def test_sizes_and_offsets_are_rounded_as_on_irees_host(tmp_path: Path) -> None:
    problem = table_of(TEXT, tmp_path).problem
    assert problem.size.tolist() == [128, 128, 256, 64]
    assert set(problem.alignment.tolist()) == {64}


def test_the_files_own_resource_config_is_obeyed(tmp_path: Path) -> None:
    entries = "max_allocation_size = 1073741824, min_buffer_offset_alignment = 16, "
    config = f"#c = #stream.resource_config<{{{entries}min_buffer_range_alignment = 32}}>\n"
    problem = table_of(config + TEXT, tmp_path).problem
    assert problem.size.tolist() == [128, 128, 224, 64]
    assert set(problem.alignment.tolist()) == {16}
    other = config.replace("#c =", "#d =").replace("= 32", "= 64")
    with pytest.raises(OptschedError, match="align slices in several ways"):
        table_of(config + other + TEXT, tmp_path)


def test_the_offsets_are_irees_and_its_slab_is_reserved(tmp_path: Path) -> None:
    table = table_of(TEXT, tmp_path)
    assert table.offsets is not None
    assert table.offsets.tolist() == [0, 128, 256, 0]
    assert table.reserved == {"main.0": 512}
    check_packing(table.problem, table.offsets.tolist())
    assert pack(table.problem).slab == 512


def test_several_slabs_are_pools(tmp_path: Path, cli: Cli) -> None:
    second = TEXT.replace("@main", "@other").replace("[0, 4]", "[4, 4]")
    table = table_of(TEXT + second + HEAD + SLICES + SLICES + TAIL, tmp_path)
    assert table.pools is not None
    assert list(dict.fromkeys(table.pools)) == ["main.0", "other.0", "main.0#2", "main.0#3"]
    record = cli.json("pack", tmp_path / "slabs.txt")
    assert record["pools"]["other.0"]["slab"] == 256
    assert record["recorded"]["main.0"]["reserved"] == 512


def test_the_least_slab_beside_irees(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "slabs.txt").write_text(TEXT)
    said = cli("pack", tmp_path / "slabs.txt")
    assert "512 bytes" in said
    assert "main.0: the allocator reserved 512 bytes, 0 (0 %) more than this slab" in said


@pytest.mark.parametrize(("name", "slab"), [("branches", 262144), ("pyramid", 442368)])
def test_prints_of_irees_compiler(name: str, slab: int) -> None:
    path = Path(__file__).parents[2] / f"instances/iree/{name}.stream.mlir"
    table = read_packing(path)
    assert table.reserved == {"main.9" if name == "branches" else "main.15": slab}
    assert pack(table.problem).slab == slab


def test_results_by_name_and_a_base_offset(tmp_path: Path) -> None:
    named = SLICES.replace("%0:5 =", "%total, %a, %b, %c, %d =").replace(
        "slices", "offset(%c0) slices"
    )
    assert table_of(HEAD + named + TAIL, tmp_path).problem.names[0] == "main.total.0"


def test_commented_lines_are_no_slabs(tmp_path: Path) -> None:
    commented = "".join(f"// CHECK: {line}\n" for line in SLICES.splitlines())
    assert table_of(HEAD + commented + SLICES + TAIL, tmp_path).pools is None
    with pytest.raises(OptschedError, match=r"no stream\.resource\.pack in this text"):
        table_of(HEAD + commented + TAIL, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("%c64\n", "%size\n", "pack 'main.0', slice 3: its size %size is computed at run time"),
        ("[1, 2]", "[2, 1]", "slice 1 ends at 1, before 2"),
        ("[1, 2]", "[1, 99999999999999999999]", "slice 1: .* is none"),
        ("[1, 2] =", "[-1, 2] =", "slice 1: .* is none"),
        ("}) : index\n    %x", "", "no list of slices; the text may be truncated"),
        ("constant 100", "constant -100", "slice 0 has -100 bytes"),
        ("constant 100", "constant 4611686018427387904", "above the limit"),
    ],
)
def test_malformed_slabs_are_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(OptschedError, match=said) as caught:
        table_of(TEXT.replace(old, new, 1), tmp_path)
    assert "\n" not in str(caught.value)


def test_truncated_prints_never_raise_anything_else(tmp_path: Path) -> None:
    for end in range(0, len(TEXT), 7):
        try:
            table_of(TEXT[:end], tmp_path)
        except OptschedError as error:
            line = str(error)
            if "\n" in line:
                raise AssertionError(line) from None


def test_long_texts_without_a_slab_are_refused_soon(tmp_path: Path) -> None:
    for piece in ("%a, ", "%a = ", "stream.resource.pack ", "[0, 0] = %c1,\n"):
        text = "%0 = stream.resource.pack slices({" + piece * 100_000
        with pytest.raises(OptschedError):
            table_of(text, tmp_path)


def test_layouts_of_random_slices_are_packings(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for _ in range(2000):
        count = int(rng.integers(1, 9))
        start = rng.integers(0, 6, count)
        end = start + rng.integers(1, 5, count)
        size = rng.integers(0, 5, count) * 64
        offsets = lay_out(start, end, size, 64)
        problem = PackingProblem(size=size, start=start, end=end, alignment=[64] * count)
        check_packing(problem, offsets.tolist())
