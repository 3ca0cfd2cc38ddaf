"""The comparison with rivals: who is not given is named, who returns nonsense has no slab."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from experiments.packing_rivals.__main__ import Instance, Rivals, report, run_minimalloc
from optsched.formats import read_packing

CSV = "id,lower,upper,size\na,0,4,8\nb,2,6,4\n"


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    path = tmp_path / "A.12.csv"
    path.write_text(CSV)
    return Instance(path, read_packing(path).problem, 12)


def test_absent_rivals_are_named(instance: Instance) -> None:
    text = report([instance], Rivals(None, None, 5.0, 12, runs=1))
    assert "not measured: MiniMalloc" in text
    assert "not measured: omnimalloc" in text
    assert "| A | 2 | 12 =," in text


@pytest.mark.parametrize(("offsets", "slab"), [((0, 8), 12), ((0, 24), 28), ((8, 8), None)])
def test_answers_of_rivals_are_checked(
    instance: Instance, tmp_path: Path, offsets: tuple[int, int], slab: int | None
) -> None:
    rival = tmp_path / "rival"
    rows = f"id,lower,upper,size,offset\na,0,4,8,{offsets[0]}\nb,2,6,4,{offsets[1]}\n"
    rival.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "[out] = [a[9:] for a in sys.argv if a.startswith('--output=')]\n"
        f"open(out, 'w').write({rows!r})\n"
    )
    rival.chmod(0o755)
    column = run_minimalloc([instance], Rivals(str(rival), None, 5.0, 12), decide=True)
    assert [cell.slab for cell in column.cells] == [slab]
