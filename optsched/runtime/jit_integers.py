"""How kernels count: numba's way, without asking what is known.

Numba asks of each range whether its step is zero, and of each division whether it is one by zero. A
function that may raise is asked after each call whether it did, and so is each that calls it. So
where the step or the divisor is written down, nothing is asked.

This module imports numba: only what compiles should import it.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

from numba.core import cgutils, ir, types
from numba.core.lowering import Lower
from numba.core.types.iterators import RangeType
from numba.core.types.misc import unliteral

EXTREMES: dict[Any, str] = {min: "<", max: ">"}

DIVIDES = (operator.floordiv, operator.ifloordiv, operator.mod, operator.imod)


class IntegerLower(Lower):  # type: ignore[misc]
    """Numba's, but for ranges, division by constants, and the lesser and greater of two."""

    def init(self) -> None:
        """Look for what is set once, and so known where it is used."""
        super().init()
        self.once: dict[str, Any] = find_once(self.func_ir)

    def lower_expr(self, kind: Any, expr: Any) -> Any:
        """Write down an expression."""
        if expr.op == "getiter" and (step := self._step(expr.value.name)) is not None:
            return self._count_range(kind, expr.value.name, step)
        return super().lower_expr(kind, expr)

    def _lower_call_normal(self, callee: Any, expr: Any, signature: Any) -> Any:
        sign = EXTREMES.get(getattr(callee, "typing_key", None))
        kinds = {unliteral(self.typeof(var.name)) for var in expr.args}
        is_known = kinds == {signature.return_type} == {types.int64} and len(expr.args) == 2
        if sign is None or not is_known or expr.kws or expr.vararg:
            return super()._lower_call_normal(callee, expr, signature)
        one, two = (self._cast_var(var, types.int64) for var in expr.args)
        return self.builder.select(self.builder.icmp_signed(sign, two, one), two, one)

    def lower_binop(self, kind: Any, expr: Any, op: Any) -> Any:
        """Write down an operation on two operands."""
        signature = self.fndesc.calltypes[expr]
        divisor = self._constant(expr.rhs.name)
        divides = op in DIVIDES and divisor is not None and divisor > 0
        if not divides or {*signature.args, signature.return_type, kind} != {types.int64}:
            return super().lower_binop(kind, expr, op)
        value = self._cast_var(expr.lhs, types.int64)
        by = value.type(divisor)
        rest = self.builder.srem(value, by)
        below = self.builder.icmp_signed("<", rest, rest.type(0))
        if op in (operator.mod, operator.imod):
            return self.builder.select(below, self.builder.add(rest, by), rest)
        times = self.builder.sdiv(value, by)
        return self.builder.select(below, self.builder.sub(times, by.type(1)), times)

    def _constant(self, name: str) -> int | None:
        """Return the integer that a variable stands for, if that is known."""
        made: Any = self.once.get(name)
        is_set = isinstance(made, ir.Const | ir.Global) and type(made.value) is int
        return made.value if is_set else None

    def _step(self, name: str) -> int | None:
        """Return the step of a range of integers where that is one, up or down."""
        kind, made = self.typeof(name), self.once.get(name)
        if not isinstance(kind, RangeType) or kind.dtype != types.int64:
            return None
        if not isinstance(made, ir.Expr) or made.op != "call" or made.kws or made.vararg:
            return None
        step = 1 if len(made.args) < 3 else self._constant(made.args[2].name)
        return step if step in (-1, 1) else None

    def _count_range(self, kind: Any, name: str, step: int) -> Any:
        """Return an iterator of a range, which numba asks whether its step is zero."""
        state = self.loadvar(name)
        first, last = (self.builder.extract_value(state, i) for i in range(2))
        low, high = (first, last) if step > 0 else (last, first)
        more = self.builder.icmp_signed("<", low, high)
        count = self.builder.select(more, self.builder.sub(high, low), low.type(0))
        made = self.context.make_helper(self.builder, kind)
        made.iter = cgutils.alloca_once_value(self.builder, first)
        made.stop = last
        made.step = low.type(step)
        made.count = cgutils.alloca_once_value(self.builder, count)
        return made._getvalue()


def find_once(func_ir: Any) -> dict[str, Any]:
    """Return the variables that are set at one place, and what to."""
    assigns = [x for block in func_ir.blocks.values() for x in block.find_insts(ir.Assign)]
    times = Counter(x.target.name for x in assigns)
    return {x.target.name: x.value for x in assigns if times[x.target.name] == 1}
