"""Less code for LLVM to read: numba's writing of it, less what nobody looks at.

Numba takes a tuple of arrays apart into its numbers for each call, puts it together again in the
function called, and keeps whatever more than one block uses in memory, to be read as a whole each
time: half of all the code written only takes structures apart or puts them together. LLVM finds
out, but has to read and sort all of it first. Here a part of a structure is the value put there, a
value stays a value where that is all it ever was, and what nobody uses is not written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any


@contextmanager
def lean_code() -> Iterator[None]:
    """Have numba write less code meanwhile."""
    from llvmlite.ir import IRBuilder
    from numba.core.lowering import Lower
    from numba.np import arrayobj

    if Lower._find_singly_assigned_variable.__module__ == __name__:
        yield  # within another one
        return
    with ExitStack() as changes:
        for owner, name, change in (
            (IRBuilder, "extract_value", _extract),
            (Lower, "_find_singly_assigned_variable", _find_values),
            (arrayobj, "make_array", _make_array),
        ):
            before = getattr(owner, name)
            changes.callback(setattr, owner, name, before)
            setattr(owner, name, change(before))
        yield


@cache
def _extract(before: Callable[..., Any]) -> Callable[..., Any]:
    from llvmlite.ir.instructions import ExtractValue, InsertValue

    def extract_value(builder: Any, whole: Any, at: Any, name: str = "") -> Any:
        """Return what was put there, if that is known."""
        at = list(at) if isinstance(at, tuple | list) else [at]
        while at:
            if isinstance(whole, InsertValue):
                place = list(whole.indices)
                common = min(len(place), len(at))
                if place[:common] != at[:common]:
                    whole = whole.aggregate
                    continue
                if len(place) <= len(at):
                    whole, at = whole.value, at[len(place) :]
                    continue
            elif isinstance(whole, ExtractValue):
                whole, at = whole.aggregate, [*whole.indices, *at]
            return before(builder, whole, at, name=name)
        return whole

    return extract_value


@cache
def _find_values(before: Callable[..., None]) -> Callable[..., None]:
    from numba.core import ir
    from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs

    def find_singly_assigned_variable(lower: Any) -> None:
        """Let all be values that are set in one place, by way of which all their uses are reached.

        Not what is counted: numba relies on memory to know who is held.
        """
        before(lower)
        if lower.func_ir.func_id.is_generator:
            return
        blocks = lower.func_ir.blocks
        assigned: dict[str, list[int]] = {}
        used: dict[str, set[int]] = {}
        for at, block in blocks.items():
            for statement in block.body:
                if isinstance(statement, ir.Assign):
                    assigned.setdefault(statement.target.name, []).append(at)
                elif isinstance(statement, ir.Del):
                    used.setdefault(statement.value, set()).add(at)
        live_in = compute_use_defs(blocks).usemap
        for at, names in live_in.items():
            for name in names:
                used.setdefault(name, set()).add(at)
        dominators = compute_cfg_from_blocks(blocks).dominators()
        for name, places in assigned.items():
            if len(places) > 1 or name in lower._singly_assigned_vars or _is_counted(lower, name):
                continue
            home = places[0]
            if name not in live_in[home] and all(
                at in dominators and home in dominators[at] and home <= at
                for at in used.get(name, ())
            ):
                lower._singly_assigned_vars.add(name)

    return find_singly_assigned_variable


def _is_counted(lower: Any, name: str) -> bool:
    model = lower.context.data_model_manager[lower.typeof(name)]
    return bool(lower.context.enable_nrt and model.contains_nrt_meminfo())


@cache
def _make_array(before: Callable[[Any], type]) -> Callable[[Any], type]:
    from numba.core import types

    @cache
    def known(array_type: Any) -> type:
        return _array_struct(before(array_type), array_type)

    def make_array(array_type: Any) -> type:
        """Return what takes an array apart."""
        return known(array_type) if type(array_type) is types.Array else before(array_type)

    return make_array


def _array_struct(base: Any, array_type: Any) -> type:
    """Return numba's structure of an array, which takes to memory only when that is asked for."""
    from numba.core.cgutils import alloca_once

    class ArrayStruct(base):  # type: ignore[misc]
        _known: Any = None
        _read = False

        def __init__(self, context: Any, builder: Any, value: Any = None, ref: Any = None) -> None:
            if value is None or ref is not None:
                super().__init__(context, builder, value, ref)
                return
            self._context, self._builder, self._known = context, builder, value
            self._datamodel = context.data_model_manager[array_type]
            self._be_type = self._get_be_type(self._datamodel)
            self._block = builder.block
            self._after = builder.block.instructions[-1] if builder.block.instructions else None

        def _make_refs(self, ref: Any) -> tuple[Any, Any]:
            ref = alloca_once(self._builder, self._be_type, zfill=True) if ref is None else ref
            return ref, ref

        def __getattr__(self, field: str) -> Any:
            if field in ("_value", "_outer_ref"):
                self._write()
                return self.__dict__[field]
            return super().__getattr__(field)

        def _write(self) -> None:
            """Keep the structure in memory, from where it was made."""
            here = self._builder.block
            # What was read before might be read again, in a loop, after a change.
            assert not self._read or here is self._block
            self._builder.position_at_start(self._builder.function.entry_basic_block)
            place = self._builder.alloca(self._be_type)
            if self._after is None:
                self._builder.position_at_start(self._block)
            else:
                self._builder.position_after(self._after)
            self._builder.store(self._known, place)
            self._builder.position_at_end(here)
            self._value = self._outer_ref = place
            self._known = None

        def __getitem__(self, index: int) -> Any:
            if self._known is None:
                return super().__getitem__(index)
            self._read = True
            return self._builder.extract_value(self._known, index)

        @property
        def shape(self) -> Any:
            if self._known is None:
                return base.shape.fget(self)
            return self[self._datamodel.get_field_position("shape")]

        def _getvalue(self) -> Any:
            return super()._getvalue() if self._known is None else self._known

    return ArrayStruct


def drop_dead(module: Any) -> None:
    """Take out of a module the instructions that nobody uses the result of."""
    for function in module.functions:
        if function.blocks:
            _drop_dead(function)


def _drop_dead(function: Any) -> None:
    from llvmlite.ir import instructions as kinds

    pure = (
        *(kinds.InsertValue, kinds.ExtractValue, kinds.GEPInstr, kinds.CastInstr, kinds.LoadInstr),
        *(kinds.SelectInstr, kinds.CompareInstr, kinds.AllocaInstr),
    )
    every = [each for block in function.blocks for each in block.instructions]
    uses = Counter(id(x) for each in every for x in _operands(each))
    stores: dict[int, list[Any]] = {}
    for each in every:
        if isinstance(each, kinds.StoreInstr):
            stores.setdefault(id(each.operands[1]), []).append(each)

    def is_dead(value: Any) -> bool:
        """Whether nobody uses a value; of a place in memory, whether it is only written to."""
        written = len(stores.get(id(value), ())) if isinstance(value, kinds.AllocaInstr) else 0
        return uses[id(value)] == written and isinstance(value, pure)

    dead: set[int] = set()
    queue = [each for each in every if is_dead(each)]
    while queue:
        last = queue.pop()
        if id(last) in dead:
            continue
        for each in (last, *(stores.get(id(last), ()))):
            dead.add(id(each))
            for operand in _operands(each):
                uses[id(operand)] -= 1
                if operand is not last and is_dead(operand):
                    queue.append(operand)
    for block in function.blocks:
        block.instructions = [each for each in block.instructions if id(each) not in dead]


def _operands(instruction: Any) -> list[Any]:
    """All values that an instruction uses."""
    incoming: Any = getattr(instruction, "incomings", None) or getattr(instruction, "cases", ())
    return [*instruction.operands, *(value for value, _ in incoming)]
