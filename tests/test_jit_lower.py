"""Less code for LLVM to read: the same answers, and nothing is left out that somebody needs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from llvmlite import binding, ir
from numba.core.lowering import Lower
from numba.np import arrayobj

from optsched.jit import inner, kernel
from optsched.jit_lower import drop_dead, lean_code

WORD = ir.IntType(64)
PAIR = ir.LiteralStructType([WORD, ir.LiteralStructType([WORD, WORD])])


def new_function(*kinds: ir.Type) -> tuple[ir.Module, ir.Function, ir.IRBuilder]:
    module = ir.Module("made")
    function = ir.Function(module, ir.FunctionType(WORD, kinds), "made")
    return module, function, ir.IRBuilder(function.append_basic_block("entry"))


def names(function: ir.Function) -> list[str]:
    return [each.opname for block in function.blocks for each in block.instructions]


def test_a_part_of_a_structure_is_the_value_put_there() -> None:
    _, function, build = new_function(WORD, WORD)
    one, two = function.args
    with lean_code():
        inside = build.insert_value(build.insert_value(PAIR.elements[1](None), one, 0), two, 1)
        whole = build.insert_value(build.insert_value(PAIR(None), inside, 1), two, 0)
        assert build.extract_value(whole, 0) is two
        assert build.extract_value(whole, 1) is inside
        assert build.extract_value(whole, [1, 0]) is one
        assert build.extract_value(build.extract_value(whole, 1), 1) is two
        deep = build.insert_value(whole, two, [1, 0])
        assert build.extract_value(deep, [1, 0]) is two
        assert build.extract_value(deep, 1).opname == "extractvalue"
    assert build.extract_value(whole, 0).opname == "extractvalue"


def test_what_nobody_uses_is_dropped_and_all_else_kept() -> None:
    module, function, build = new_function(WORD, WORD.as_pointer())
    number, pointer = function.args
    written, read = build.alloca(WORD), build.alloca(WORD)
    build.store(number, written)
    build.store(number, read)
    build.store(build.add(number, number), pointer)
    build.insert_value(PAIR(None), build.load(read), 0)
    then, last = function.append_basic_block("then"), function.append_basic_block("last")
    kept = build.load(read)
    switch = build.switch(kept, last)
    switch.add_case(1, then)
    build.position_at_end(then)
    chosen = build.select(build.icmp_signed("<", number, kept), number, kept)
    build.icmp_signed("<", chosen, kept)
    build.branch(last)
    build.position_at_end(last)
    phi = build.phi(WORD)
    phi.add_incoming(chosen, then)
    phi.add_incoming(kept, function.entry_basic_block)
    build.ret(phi)
    drop_dead(module)
    entry = ["alloca", "store", "add", "store", "load", "switch"]
    assert names(function) == [*entry, "icmp", "select", "br", "phi", "ret"]
    binding.parse_assembly(str(module)).verify()


class Room(NamedTuple):
    low: np.ndarray
    high: np.ndarray
    table: np.ndarray


@inner
def swap(room: Room) -> Room:
    return Room(room.high, room.low, room.table)


@inner
def fill(room: Room, value: int) -> None:
    for i in range(len(room.table)):
        room.table[i, 0] = room.low[i % len(room.low)] + value
        room.table[i, 1] += room.high[0]


@kernel
def walk(room: Room, turns: int) -> tuple[np.ndarray, int]:
    kept, total = room.low, 0
    for turn in range(turns):
        room = swap(room)
        if turn % 3 == 1:
            kept = room.high[turn % 2 :]
            room = Room(kept, room.low.copy(), room.table)
        fill(room, turn)
        for number in kept:
            total += number * turn
        row = room.table[turn % len(room.table)]
        row[1] = total
        if total > 10_000:
            break
    return kept, total + room.table.shape[1]


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 40])
def test_structures_that_change_in_loops_give_the_same(turns: int) -> None:
    answers = []
    for form in (walk, walk.compiled):
        room = Room(np.arange(5), np.arange(7) * 3 + 1, np.zeros((4, 2), np.int64))
        kept, total = form(room, turns)
        answers.append((kept.tolist(), int(total), room.table.tolist()))
    assert answers[0] == answers[1]


def test_numba_writes_as_ever_afterwards() -> None:
    before: list[Any] = [ir.IRBuilder.extract_value, arrayobj.make_array]
    with lean_code(), lean_code():
        assert ir.IRBuilder.extract_value is not before[0]
    assert before == [ir.IRBuilder.extract_value, arrayobj.make_array]
    assert Lower._find_singly_assigned_variable.__module__ == Lower.__module__
