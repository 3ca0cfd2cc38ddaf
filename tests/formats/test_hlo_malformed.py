"""Text of XLA that is not a module: rejected with a line that names the fault."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from optsched.errors import FormatError, OptschedError
from optsched.formats import Source, read_graph, read_plan
from optsched.formats.hlo.read import read_hlo
from tests.support.files import refusal
from tests.support.hlo_text import DUMPS, P, module


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["%a = f32[4] sine(%p)"], "line 4: 'a' reads 'p', which no line before makes"),
        ([P, P], "line 5: instruction 'p' is there twice"),
        ([P, "%a = f32[4] fusion(%p), calls=%g"], "'a' calls 'g', which the module does not have"),
        ([P, "%a = f99[4] sine(%p)"], "line 5: element type 'f99' has no known size"),
        ([P, "%a = f32[?] sine(%p)"], "line 5: dimension '[?]' has no known size"),
        ([P, "%a = f32[4] sine(%p"], "line 5: 'a': its parentheses do not close"),
        ([P, "%a = f32[4]"], "line 5: 'a' has no opcode"),
        ([P, "nonsense"], "line 5: no instruction: 'nonsense'"),
        (
            [P, "%a = f32[4] get-tuple-element(%p), index=1"],
            "'a': unknown part number 1 of 'p'",
        ),
        ([P, "%a = f32[4] bitcast()"], "'a': bitcast has no operand"),
        (["%a = f32[4] parameter(x)"], "'a': parameter 'x' has no number"),
        (["%a = " + "(" * 99], "line 4: a tuple is nested too deeply"),
        (
            [f"%a = f32[{9 * 10**17},{9 * 10**17}] parameter(0)"],
            "buffer 'a': sizes up to this buffer",
        ),
        ([], "line 5: computation 'main' is empty"),
    ],
)
def test_what_is_no_module_is_said_in_one_line(lines: list[str], message: str) -> None:
    with pytest.raises(OptschedError, match=message):
        module(*lines)


CIRCLE = """
%a (x: f32[4]) -> f32[4] {
  %x = f32[4] parameter(0)
  ROOT %m = f32[4] call(%x), to_apply=%b
}

%b (y: f32[4]) -> f32[4] {
  %y = f32[4] parameter(0)
  ROOT %n = f32[4] call(%y), to_apply=%a
}
"""


def test_computations_that_call_each_other_in_a_circle_are_refused() -> None:
    with pytest.raises(FormatError, match=r"in a circle: 'a' -> 'b' -> 'a'|'b' -> 'a' -> 'b'"):
        module(P, "ROOT %c = f32[16] call(%p), to_apply=%b", before=CIRCLE)


def test_a_text_that_is_cut_off_is_said_to_be() -> None:
    whole = (DUMPS / "network-module.txt").read_text()
    for length in range(10, len(whole) - 2, 17):
        with pytest.raises(FormatError, match=r"cut off|line|not HLO"):
            read_hlo(Source(whole[:length].encode(), "cut"))


def test_hundreds_of_corruptions_end_in_one_line_or_a_graph(tmp_path: Path) -> None:
    draw = random.Random(7)
    texts = [(DUMPS / f"{name}-module.txt").read_bytes() for name in ("update", "choice")]
    path, refused = tmp_path / "bad.txt", 0
    for number in range(800):
        data = bytearray(texts[number % len(texts)])
        start = data.index(b"\n") if number % 4 else 10
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(start, len(data))
            if number % 3:
                data[at] = draw.choice(b"(){}[]%,=0123456789 \n-ab")
            else:
                other = draw.randrange(start, len(data))
                data[at:at] = data[other : other + draw.randrange(40)]
        path.write_bytes(data)
        found = refusal(path)
        refused += found is not None
        assert found is None or (found.startswith(f"{path}: ") and found.isprintable())
    assert refused > 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BufferAssignment:\nallocation x", "line 2: 'allocation x' is not an allocation"),
        ("BufferAssignment:\nallocation 0: size 8:\n value: <1 a>", "line 3: .* is not a value"),
        ("BufferAssignment:\n", "has no place for"),
    ],
)
def test_a_malformed_buffer_assignment_is_refused(text: str, message: str, tmp_path: Path) -> None:
    graph = read_graph(DUMPS / "network-module.txt")
    path = tmp_path / "buffers.txt"
    path.write_text(text)
    with pytest.raises(OptschedError, match=message):
        read_plan(path, graph)
