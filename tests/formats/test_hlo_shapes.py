"""Shapes and layouts of HLO text: the bytes of arrays, and texts that are refused."""

from __future__ import annotations

import pytest

from optsched.errors import FormatError
from optsched.formats.hlo.shapes import TensorShape, leaves, parse_shape


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("f32[3,5]{1,0}", 60),
        ("f32[]", 4),
        ("pred[7]", 7),
        ("c64[2]{0:T(256)}", 2048),
        ("bf16[<=8,2]", 32 + 2 * 4),
        ("s4[5]{0}", 5),
        ("s4[5]{0:E(4)}", 3),
        ("f32[0,9]", 0),
        ("(f32[2], (s8[3], token[]), /*index=2*/u64[1])", 19),
    ],
)
def test_bytes_of_shapes(text: str, size: int) -> None:
    shape, end = parse_shape(text, 0)
    assert [sum(leaf.size for leaf in leaves(shape)), end] == [size, len(text)]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("f32[1024,2]{1,0:T(8,128)}", 1024 * 128 * 4),
        ("f32[2,1024]{0,1:T(8,128)}", 1024 * 128 * 4),
        ("f32[8,100,100,3]{3,0,2,1:T(8,128)}", 100 * 100 * 8 * 128 * 4),
        ("bf16[10,130]{1,0:T(8,128)(2,1)}", 16 * 256 * 2),
        ("pred[3]{0:T(512)(128)(4,1)}", 512),
        ("s32[]{:T(128)}", 512),
        ("f32[7]{0:T(8,128)}", 8 * 128 * 4),
        ("s4[9216,6144]{1,0:T(64,128)(8,1)E(4)}", 9216 * 6144 // 2),
        ("pred[8,128]{1,0:T(8,128)E(32)}", 4096),
        ("f32[2,3,5]{2,1,0:T(*,8)}", 2 * 16 * 4),
        ("f32[5]{0:T(1)L(8)}", 32),
        ("f32[5]{0:L(8)}", 20),
        ("f32[100,8]{1,0:T(8)SC(0:40)}", 60 * 8 * 4),
        ("f32[<=4]{0:M(16)S(1)}", 32),
        ("f32[0,9]{1,0:T(8,128)}", 0),
    ],
)
def test_layouts_decide_the_bytes_of_arrays(text: str, size: int) -> None:
    """As XLA's `ShapeUtil::ArraySize` has them: each dimension of the first tile is padded."""
    shape, end = parse_shape(text, 0)
    assert isinstance(shape, TensorShape)
    assert [shape.size, end] == [size, len(text)]


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("{1,0:Q(3)}", r"unknown attribute 'Q\(3\)'"),
        ("{1,0:D(D,C)}", r"unknown attribute 'D\(D,C\)'"),
        ("{1,0:P(f32[2]{0})}", "unknown attribute 'P"),
        ("{1,0:#(u32)}", r"unknown attribute '#\(u32\)'"),
        ("{1,0:T(8,128}", "unknown attribute 'T"),
        ("{1,0:T()}", "T has no number in ''"),
        ("{1,0:T(0,8)}", "T has no number in '0'"),
        ("{1,0:S(*)}", "S has no number in '\\*'"),
        ("{1,0:S(1,2)}", "S takes one number"),
        ("{1,0:L(0)}", "L must be at least 1"),
        ("{1,0:SC(0)}", "SC needs a dimension and rising indices"),
        ("{1}", "does not name each of 2 dimensions once"),
        ("{1,1}", "does not name each of 2 dimensions once"),
        ("{x}", "is malformed"),
    ],
)
def test_a_layout_that_is_not_understood_is_refused(layout: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        parse_shape(f"f32[2,3]{layout}", 0)
