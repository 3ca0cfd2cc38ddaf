"""MLIR with explicit allocations: each rule on a text of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.errors import FormatError
from optsched.formats import Source, read_packing
from optsched.formats.memref import read_memref
from optsched.formats.minimalloc import PackingTable
from optsched.solver.pack import pack
from tests.support.commands import Cli

CHAIN = """
    %a = memref.alloc() : memref<1024xf32>
    linalg.exp ins(%x : memref<1024xf32>) outs(%a : memref<1024xf32>)
    %b = memref.alloc() {alignment = 64 : i64} : memref<1024xf32>
    memref.dealloc %a : memref<1024xf32>
    %c = memref.alloc() : memref<1024xf32>
    memref.dealloc %b : memref<1024xf32>
    memref.dealloc %c : memref<1024xf32>
"""


def read(body: str, before: str = "") -> PackingTable:
    text = (
        f"module {{\n{before}  func.func @main(%x: memref<1024xf32>) {{{body}    return\n  }}\n}}\n"
    )
    return read_memref(Source(text.encode(), "module"))


def test_a_buffer_lives_from_its_allocation_to_its_free() -> None:
    table = read(CHAIN)
    assert table.problem.names == ("main.%a", "main.%b", "main.%c")
    assert table.problem.size.tolist() == [4096] * 3
    assert table.problem.alignment.tolist() == [1, 64, 1]
    lives = list(zip(table.problem.start.tolist(), table.problem.end.tolist(), strict=True))
    assert lives == [(2, 4), (3, 6), (5, 7)]
    assert pack(table).slab == 8192
    assert table.pools is None


def test_a_buffer_without_a_free_lives_to_the_end_of_its_function() -> None:
    body = "\n  %a = memref.alloc() : memref<8xi8>\n  %b = memref.alloc() : memref<8xi8>\n"
    other = "  func.func @other() {\n  %a = memref.alloc() : memref<4xi8>\n  return\n  }\n"
    table = read(body + "  memref.dealloc %b : memref<8xi8>\n", before=other)
    assert table.problem.names == ("other.%a", "main.%a", "main.%b")
    assert table.pools == ("other", "main", "main")
    assert table.problem.end.tolist()[1] > table.problem.end.tolist()[2]
    assert pack(table).slab == 4 + 16


def test_both_branches_may_free_a_buffer_and_use_a_name_again() -> None:
    body = """
    %a = memref.alloc() : memref<8xi8>
    scf.if %c {
      memref.dealloc %a : memref<8xi8>
      %0 = memref.alloc() : memref<2xi8>
      memref.dealloc %0 : memref<2xi8>
    } else {
      %0 = memref.alloc() : memref<4xi8>
      memref.dealloc %0 : memref<4xi8>
      memref.dealloc %a : memref<8xi8>
    }
"""
    table = read(body)
    assert table.problem.names == ("main.%a", "main.%0", "main.%0@1")
    assert pack(table).slab == 12


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("memref<f32>", 4),
        ("memref<4x8xbf16>", 64),
        ("memref<3xindex>", 24),
        ("memref<9xi1>", 9),
        ("memref<4xi24>", 16),
        ("memref<4xcomplex<f32>>", 32),
        ("memref<4xf8E4M3FN>", 4),
        ("memref<4xf32, 1>", 16),
    ],
)
def test_bytes_of_types(kind: str, size: int) -> None:
    body = f"\n  %a = memref.alloc() : {kind}\n"
    assert read(body).problem.size.tolist() == [size]
    generic = (
        f'\n  %a = "memref.alloc"() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {kind}\n'
    )
    assert read(generic).problem.size.tolist() == [size]


def test_memory_spaces_are_pools() -> None:
    body = "\n  %a = memref.alloc() : memref<4xf32>\n  %b = memref.alloc() : memref<4xf32, 1>\n"
    assert read(body).pools == ("main", "main 1")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("%a = memref.alloc(%n) : memref<?xf32>", "'main.%a': a dimension of memref<.xf32> is"),
        ("%a = memref.alloc() : memref<4x!t>", "the bytes of memref<4x!t> are not known"),
        ("%a = memref.alloc() : memref<4xf32, strided<[2]>>", "are not known"),
        ("%a = memref.alloc() : memref<4xtoken>", "element type 'token' has no known size"),
        ("%a = memref.alloc()", "an allocation without a type"),
        ("%a = memref.alloc() {alignment = 24 : i64} : memref<4xi8>", "a power of two, got 24"),
        ("%a = memref.realloc %x : memref<4xi8> to memref<8xi8>", "memref.realloc is not read"),
        ("%a = memref.alloc() : memref<4xi8>\n  cf.br ^bb1", "live ranges depend on the branches"),
        (f"%a = memref.alloc() : memref<{2**50}x{2**20}xi8>", "above the limit"),
    ],
)
def test_what_has_no_live_range_is_refused_by_name(body: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        read(f"\n  {body}\n")


def test_files_are_known_by_content(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(f"module {{\n  func.func @main() {{{CHAIN}    return\n  }}\n}}\n")
    assert pack(read_packing(path)).slab == 8192
    path.write_text("module {\n  func.func @main() {\n    return\n  }\n}\n")
    assert "cannot read MLIR text" in cli.error("pack", path)
    path.write_text("module {\n  stream.executable private @d {\n  }\n}\n")
    error = cli.error("pack", path)
    assert "--mlir-print-ir-after=iree-stream-schedule-allocation" in error
