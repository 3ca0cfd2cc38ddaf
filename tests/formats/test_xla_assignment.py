"""XLA's buffer assignment on modules of a few lines, worked out by hand."""

from __future__ import annotations

import random
from collections import Counter

from optsched.errors import FormatError
from optsched.formats import Source
from optsched.formats.hlo.allocation.assignment import Assignment, _temporary_last, held
from optsched.formats.hlo.allocation.timeline import Timeline
from optsched.formats.hlo.allocation.values import ModuleValues
from optsched.formats.hlo.allocation.walks import post_order
from optsched.formats.hlo.text import parse_module
from optsched.plugins.xla.ties import _callees_first, is_certain
from tests.support.hlo_text import DUMPS

LOOP = """HloModule loop, is_scheduled=true

%enough (s: (s32[], f32[64])) -> pred[] {
  %s = (s32[], f32[64]{0}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %three = s32[] constant(3)
  ROOT %less = pred[] compare(%i, %three), direction=LT
}

%round (t: (s32[], f32[64])) -> (s32[], f32[64]) {
  %t = (s32[], f32[64]{0}) parameter(0)
  %j = s32[] get-tuple-element(%t), index=0
  %x = f32[64]{0} get-tuple-element(%t), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%j, %one)
  %wide = f32[128]{0} custom-call(%x)
  %inside = f32[64]{0} custom-call(%wide)
  %later = f32[64]{0} custom-call(%inside)
  %y = f32[64]{0} custom-call(%later)
  ROOT %state = (s32[], f32[64]{0}) tuple(%next, %y)
}

ENTRY %main (p: f32[64]) -> f32[1] {
  %p = f32[64]{0} parameter(0)
  %zero = s32[] constant(0)
  %begin = s32[] copy(%zero)
  %a = f32[64]{0} custom-call(%p)
  %init = (s32[], f32[64]{0}) tuple(%begin, %a)
  %w = (s32[], f32[64]{0}) while(%init), condition=%enough, body=%round
  %end = f32[64]{0} get-tuple-element(%w), index=1
  ROOT %r = f32[1]{0} custom-call(%end)
}
"""

CHOICE = """HloModule choice, is_scheduled=true

%left (l: f32[64]) -> f32[64] {
  %l = f32[64]{0} parameter(0)
  ROOT %sine = f32[64]{0} sine(%l)
}

%right (m: f32[64]) -> f32[64] {
  %m = f32[64]{0} parameter(0)
  ROOT %cosine = f32[64]{0} cosine(%m)
}

ENTRY %main (p: s32[], q: f32[64]) -> (f32[64], f32[64]) {
  %p = s32[] parameter(0)
  %q = f32[64]{0} parameter(1)
  %a = f32[64]{0} custom-call(%q)
  %c = f32[64]{0} conditional(%p, %a, %a), branch_computations={%left, %right}
  ROOT %both = (f32[64]{0}, f32[64]{0}) tuple(%c, %c)
}
"""


DONATED = """HloModule step, is_scheduled=true, input_output_alias={ {1}: (0, {}, may-alias) }

ENTRY %main (p: f32[64], q: f32[64]) -> (f32[], f32[64]) {
  %p = f32[64]{0} parameter(0)
  %q = f32[64]{0} parameter(1)
  %a = f32[64]{0} custom-call(%p, %q)
  %b = f32[32]{0} custom-call(%a)
  %c = f32[64]{0} custom-call(%b)
  %loss = f32[] custom-call(%c)
  %new = f32[64]{0} custom-call(%c)
  ROOT %both = (f32[], f32[64]{0}) tuple(%loss, %new)
}
"""


def assignment(text: str) -> Assignment:
    module = parse_module(text)
    sequence = list(module.computations[module.entry].instructions)
    return Assignment(ModuleValues(module), sequence)


def memories(values: ModuleValues) -> set[frozenset[str]]:
    """Return who defines the values of each memory, tables aside."""
    found = (g for g in values.groups if not g.is_table)
    return {frozenset(values.values[v].definer for v in group.values) for group in found}


def test_a_loops_state_lies_in_one_memory() -> None:
    values = assignment(LOOP).values
    assert memories(values) == {
        frozenset({"begin", "s", "t", "next", "w"}),
        frozenset({"a", "s", "t", "y", "w"}),
        *(frozenset({name}) for name in ("less", "wide", "inside", "later", "r")),
    }


def test_what_lives_between_two_states_of_a_loop_lies_in_their_memory() -> None:
    """512 bytes for `wide`, 256 for the state and, between two of its values, for `inside`.

    `later` lies where `wide` was; the counter and `less` where the result will be. The table of the
    state takes 64 bytes after all others.
    """
    found = assignment(LOOP)
    assert found.temporary == 512 + 256 + 64
    assert found.allocated == found.temporary + 4


def test_times_are_those_of_all_instructions_one_after_the_other() -> None:
    found = assignment(LOOP)
    ranges = Timeline(found.values, found.sequence).ranges
    named = {v.definer: r for v, r in zip(found.values.values, ranges, strict=True)}
    # Five come before the loop, four are its condition's: the body begins at step 9.
    assert named["less"] == (8, 9)
    assert named["wide"] == (14, 15)
    assert named["y"] == (17, 19)
    assert named["r"] == (21, 22)


def test_branches_make_the_result_of_a_choice_in_its_place() -> None:
    """Both are returned in one memory; a table of two rows is returned as well."""
    found = assignment(CHOICE)
    assert memories(found.values) == {frozenset({"a"}), frozenset({"sine", "cosine", "c"})}
    assert found.allocated == 256 + 256 + 16
    assert found.temporary == 256


def test_a_result_lies_in_the_argument_that_is_given_up() -> None:
    """`b` takes the place of the argument, which is dead by then; `a` and `c` are packed.

    They are never there together. Of results there are the loss and the table of two.
    """
    found = assignment(DONATED)
    assert memories(found.values) >= {frozenset({"p", "new"})}
    assert found.temporary == 256
    assert found.allocated == 256 + 4 + 16


def test_without_donation_the_result_is_allocated_and_shared() -> None:
    """`a` is dead when `new` comes and lies in its memory; `b` is packed beside `c`."""
    found = assignment(DONATED.replace("input_output_alias", "no_alias"))
    assert found.temporary == 256 + 128
    assert found.allocated == 256 + 128 + 256 + 4 + 16


def test_tables_and_what_is_packed_follow_in_the_order_of_a_partition() -> None:
    assert _temporary_last([None, 56, 48, None, 900]) == [48, 56, 900]
    assert _temporary_last([None, 56, 48, None, 900, None, None, None]) == [900, 48, 56]
    assert _temporary_last([8]) == [8]
    assert _temporary_last([None]) == []


def test_modules_without_ties_are_certain_whatever_the_numbers() -> None:
    for text in (LOOP, CHOICE, DONATED):
        found = assignment(text)
        assert is_certain(found.values, found.sequence)


def test_computations_are_tried_in_orders_with_callees_first() -> None:
    calls = {"main": {"a", "b"}, "a": {"c"}, "b": set(), "c": set()}
    orders = {tuple(_callees_first(calls, random.Random(seed))) for seed in range(50)}
    assert orders == {
        ("b", "c", "a", "main"),
        ("c", "a", "b", "main"),
        ("c", "b", "a", "main"),
    }


def test_the_walk_goes_from_the_result_and_the_first_operand_first() -> None:
    module = parse_module(CHOICE)
    assert list(post_order(module.computations["main"])) == ["p", "q", "a", "c", "both"]


def test_a_text_that_xla_would_refuse_has_no_figure_and_is_still_read() -> None:
    """Lines of a schedule taken out, doubled and exchanged."""
    lines = (DUMPS / "scan-module.txt").read_text().splitlines()
    draw, found = random.Random(0), Counter[type]()
    for _ in range(300):
        changed = lines[:]
        for _ in range(2):
            i, j = draw.randrange(len(changed)), draw.randrange(len(changed))
            changed[i : i + draw.randrange(2)] = [changed[j]] * draw.randrange(2)
        try:
            found[type(held(Source("\n".join(changed).encode(), "m")))] += 1
        except FormatError:
            found[FormatError] += 1
    assert found.keys() <= {int, type(None), FormatError}
