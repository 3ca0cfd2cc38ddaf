"""How kernels are written down for LLVM: numba's way, with a third of the instructions.

Whatever is an argument of a kernel, or a field of one, is no variable but what the function was
called with: it is handed on as it came, and taken from nowhere. An element of an array is at an
address, without the array being taken apart first. And variables that hold numbers are not cleared
when they are done with. All this LLVM would find out too, at the price of half of the time.

This module imports numba: only what compiles should import it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from numba.core import cgutils, ir, types
from numba.core.callconv import RETCODE_OK
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering
from numba.core.types.containers import BaseNamedTuple, BaseTuple
from numba.np.arrayobj import fix_integer_index, load_item, store_item

from optsched.runtime.jit_integers import IntegerLower
from optsched.runtime.jit_lending import (
    Lent,
    Passed,
    address_and_shape,
    is_counted,
    is_dense,
    is_number,
    lend,
    lent,
)

Path = tuple[int, ...]
"""Which argument, which field of it, which field of that, and so on."""


class _LeanLower(IntegerLower):
    """Numba's, but that arguments, their fields and elements of arrays are looked up directly.

    A function that returns an array has to say who holds it, and has its arguments numba's way.
    """

    def init(self) -> None:
        super().init()
        self.given: list[tuple[Any, Any]] = []
        self.whole: dict[Path, Any] = {}
        self.slots: dict[Any, Any] = {}
        self.lends = False
        self.paths: dict[str, Path] = {}
        if not is_counted(self.context, self.fndesc.restype):
            self.paths = find_paths(self.once, self.fndesc.typemap)

    def extract_function_arguments(self) -> Any:
        if is_counted(self.context, self.fndesc.restype):
            return super().extract_function_arguments()
        manager = self.context.data_model_manager
        flat = iter(self.call_conv.get_arguments(self.function))
        for kind in self.fndesc.argtypes:
            tree = _grouped(flat, manager.lookup(kind).get_argument_type())
            if isinstance(kind, Lent):
                self.given.append((kind.kind, tree))
            else:
                self.given.append((kind, lend(self.builder, manager, kind, tree)))
        self.fnargs = [None] * len(self.given)
        return self.fnargs

    def lower_assign(self, kind: Any, assign: Any) -> Any:
        if assign.target.name in self.paths:
            return None
        if isinstance(assign.value, ir.Arg) and self.given:
            at = assign.value.index
            self.fnargs[at] = self._whole((at,))
        return super().lower_assign(kind, assign)

    def loadvar(self, name: str) -> Any:
        path = self.paths.get(name)
        return super().loadvar(name) if path is None else self._whole(path)

    def storevar(self, value: Any, name: str, argidx: Any = None) -> None:
        if name in self.paths:
            return
        if name in self._singly_assigned_vars or self._is_counted(name):
            super().storevar(value, name, argidx)
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        if name not in self.paths and self._is_counted(name):
            super().delvar(name)

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        # Numba's asks LLVM for the size, for a debugger, be there one or not.
        return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)

    def lower_inst(self, step: Any) -> Any:
        if isinstance(step, ir.StaticSetItem) and is_dense(self.typeof(step.target.name)):
            signature = self.fndesc.calltypes[step]
            return self.lower_setitem(step.target, step.index_var, step.value, signature)
        return super().lower_inst(step)

    def lower_expr(self, kind: Any, expr: Any) -> Any:
        is_constant = expr.op == "static_getitem" and expr.index_var is not None
        if is_constant and is_dense(self.typeof(expr.value.name)):
            signature = self.fndesc.calltypes[expr]
            return self.lower_getitem(kind, expr, expr.value, expr.index_var, signature)
        return super().lower_expr(kind, expr)

    def lower_getitem(self, kind: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        if not self._is_element(signature):
            return super().lower_getitem(kind, expr, value, index, signature)
        array = self.typeof(value.name)
        item = load_item(self.context, self.builder, array, self._place(value, index, signature))
        return self.context.cast(self.builder, item, array.dtype, kind)

    def lower_setitem(self, target: Any, index: Any, value: Any, signature: Any) -> Any:
        if not self._is_element(signature) or not is_number(signature.args[2]):
            return super().lower_setitem(target, index, value, signature)
        array = self.typeof(target.name)
        item = self.loadvar(value.name)
        for before, after in pairwise((self.typeof(value.name), signature.args[2], array.dtype)):
            item = self.context.cast(self.builder, item, before, after)
        place = self._place(target, index, signature)
        store_item(self.context, self.builder, array, item, place)
        return None

    def _lower_call_normal(self, callee: Any, expr: Any, signature: Any) -> Any:
        overloads: Any = getattr(getattr(callee, "dispatcher", None), "overloads", {})
        made: Any = overloads.get(signature.args)
        self.lends = made is not None and any(isinstance(x, Lent) for x in made.fndesc.argtypes)
        try:
            if self.lends and not getattr(made.library, "fails", True):
                given = self.fold_call_args(callee, signature, expr.args, expr.vararg, expr.kws)
                return self._call(made, given)
            return super()._lower_call_normal(callee, expr, signature)
        finally:
            self.lends = False

    def _call(self, made: Any, given: Any) -> Any:
        """Call a function that raises nothing: numba's way without asking whether it did."""
        function = self.context.declare_function(self.module, made.fndesc)
        packer = self.context.get_arg_packer(made.fndesc.argtypes)
        slot = function.args[0].type.pointee
        if slot not in self.slots:
            self.slots[slot] = cgutils.alloca_once(self.builder, slot)
        result, error = self.slots[slot], self.function.args[1]
        self.builder.call(function, [result, error, *packer.as_arguments(self.builder, given)])
        self.library.add_linking_library(made.library)
        value = self.builder.load(result)
        return self.context.get_returned_value(self.builder, made.fndesc.restype, value)

    def _cast_var(self, var: Any, kind: Any) -> Any:
        path = self.paths.get(var.name) if isinstance(var, ir.Var) else None
        if self.lends and path is not None and self.typeof(var.name) == kind:
            return Passed(self._given(path)[1])
        return super()._cast_var(var, kind)

    def _is_counted(self, name: str) -> bool:
        return self.context.enable_nrt and is_counted(self.context, self.typeof(name))

    def _is_element(self, signature: Any) -> bool:
        """Whether a signature is that of looking up, or setting, one element of an array."""
        array, index = signature.args[:2]
        if not is_dense(array) or self.context.enable_boundscheck:
            return False
        if isinstance(index, BaseTuple):
            return len(index) == array.ndim and all(isinstance(x, types.Integer) for x in index)
        return array.ndim == 1 and isinstance(index, types.Integer)

    def _place(self, array: Any, index: Any, signature: Any) -> Any:
        """Return the address of an element."""
        kind = signature.args[1]
        at = self.context.cast(
            self.builder, self.loadvar(index.name), self.typeof(index.name), kind
        )
        each = [(at, kind)]
        if isinstance(kind, BaseTuple):
            each = list(zip(cgutils.unpack_tuple(self.builder, at, len(kind)), kind, strict=True))
        data, *shape = self._array(array.name)
        steps = None
        for (one, its_kind), length in zip(each, shape, strict=True):
            more = fix_integer_index(self.context, self.builder, its_kind, one, length)
            if steps is not None:
                more = self.builder.add(self.builder.mul(steps, length), more)
            steps = more
        return self.builder.gep(data, [steps])

    def _array(self, name: str) -> Any:
        """Return address and shape of an array."""
        path = self.paths.get(name)
        if path is not None:
            return self._given(path)[1]
        kind = self.typeof(name)
        model = self.context.data_model_manager.lookup(kind)
        return address_and_shape(self.builder, kind, model, self.loadvar(name))

    def _given(self, path: Path) -> tuple[Any, Any]:
        """Return the type of an argument, or a field of one, and what the function was given."""
        kind, tree = self.given[path[0]]
        for at in path[1:]:
            kind, tree = kind[at], tree[at]
        return kind, tree

    def _whole(self, path: Path) -> Any:
        """Return an argument, or a field of one, as numba holds it."""
        if path not in self.whole:
            kind, tree = self._given(path)
            model = self.context.data_model_manager.lookup(Lent(kind))
            with self.builder.goto_entry_block():
                self.whole[path] = model.from_argument(self.builder, tree)
        return self.whole[path]


class _LeanPartLower(_LeanLower):
    """The same for a function that only kernels call: its arguments are lent."""

    def lower(self) -> None:
        asked = self.fndesc.argtypes
        self.fndesc.argtypes = lent(self.context, self.fndesc)
        super().lower()
        self.fndesc.argtypes = asked  # numba is to find the function by these
        ends = (block.terminator for block in self.function.blocks)
        codes = [end.operands[0] for end in ends if end.opname == "ret"]
        self.library.fails = any(
            getattr(code, "constant", None) != RETCODE_OK.constant for code in codes
        )


def _grouped(flat: Iterator[Any], shape: Any) -> Any:
    """Return as many values as there are in nested tuples, nested in the same way."""
    if isinstance(shape, tuple | list):
        return tuple(_grouped(flat, x) for x in shape)
    return next(flat)


def find_paths(values: dict[str, Any], typemap: Any) -> dict[str, Path]:
    """Return the variables that only ever hold an argument or a field of one, and which it is."""
    paths: dict[str, Path | None] = {}

    def find(name: str) -> Path | None:
        if name not in paths:
            paths[name] = None  # should it be made of itself
            paths[name] = follow(values[name], typemap[name]) if name in values else None
        return paths[name]

    def follow(value: Any, kind: Any) -> Path | None:
        if isinstance(value, ir.Arg):
            return (value.index,) if typemap["arg." + value.name] == kind else None
        looks_up = isinstance(value, ir.Expr) and value.op in ("getattr", "static_getitem")
        source = value.value if looks_up else value
        path = find(source.name) if isinstance(source, ir.Var) else None
        if path is None:
            return None
        held = typemap[source.name]
        if looks_up:
            at = _field(value, held)
            if at is None:
                return None
            path, held = (*path, at), held[at]
        return path if held == kind else None

    return {name: path for name in values if (path := find(name)) is not None}


def _field(expr: Any, kind: Any) -> int | None:
    """Return which field of a tuple an expression looks up; None if it does something else."""
    if expr.op == "getattr" and isinstance(kind, BaseNamedTuple):
        return kind.fields.index(expr.attr) if expr.attr in kind.fields else None
    if expr.op == "static_getitem" and isinstance(kind, BaseTuple):
        return expr.index if isinstance(expr.index, int) and expr.index >= 0 else None
    return None


@register_pass(mutates_CFG=True, analysis_only=False)
class LeanLowering(NativeLowering):  # type: ignore[misc]
    """Numba's last step, for kernels."""

    _name = "optsched_lowering"
    lowering_class = _LeanLower


@register_pass(mutates_CFG=True, analysis_only=False)
class LeanPartLowering(NativeLowering):  # type: ignore[misc]
    """Numba's last step, for parts of kernels."""

    _name = "optsched_part_lowering"
    lowering_class = _LeanPartLower

    def run_pass(self, state: Any) -> bool:
        """Compile the function; whoever calls it lends the arguments."""
        done: bool = super().run_pass(state)
        described = state.cr.fndesc
        described.argtypes = lent(state.targetctx, described)
        return done
