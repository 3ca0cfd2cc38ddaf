"""What numba finds out again and again, found out once while kernels are compiled.

It asks all the forms of an operator which of them fits, again at each place that uses it; goes
through all it has imported for what was declared since, again for each function; and looks for the
variables of a statement in whatever the statement holds. That is a tenth of the time.

This module imports numba: only what compiles should import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import ir
from numba.core.base import BaseContext
from numba.core.types.functions import BaseFunction

_find_call_type: Callable[..., Any] = BaseFunction.get_call_type
_refresh: Callable[..., Any] = BaseContext.refresh
_list_variables: Callable[..., Any] = ir.Inst._rec_list_vars

_call_types: dict[tuple[Any, ...], Any] = {}
_declared: dict[int, int] = {}

NO_VARIABLES = frozenset({ir.Loc, ir.Const, ir.Arg, ir.Global, ir.FreeVar, str, int, type(None)})
"""What a statement may hold and never is, or has, a variable."""


@contextmanager
def shortcuts() -> Iterator[None]:
    """Let numba take them meanwhile."""
    ways = (
        (BaseFunction, "get_call_type", _call_type_once),
        (BaseContext, "refresh", _refresh_if_declared),
        (ir.Inst, "_rec_list_vars", _variables),
    )
    before = [getattr(owner, name) for owner, name, _ in ways]
    for owner, name, way in ways:
        setattr(owner, name, way)
    try:
        yield
    finally:
        for (owner, name, _), way in zip(ways, before, strict=True):
            setattr(owner, name, way)


def _call_type_once(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return what an operator makes of operands of these types."""
    if kws or getattr(function.typing_key, "__module__", None) != "_operator":
        return _find_call_type(function, context, args, kws)
    key = (function, args)
    signature = _call_types.get(key)
    if signature is None:
        signature = _call_types[key] = _find_call_type(function, context, args, kws)
    return signature


def _refresh_if_declared(context: Any) -> None:
    """Look for new declarations if there are more than at the last look."""
    known = id(context._registries)  # all that is derived from a context shares its registries
    if _declared.get(known) != _count_declared(context):
        _refresh(context)
        _declared[known] = _count_declared(context)


def _count_declared(context: Any) -> int:
    registries = [*context._registries, *context.typing_context._registries]
    return sum(
        len(held)
        for registry in registries
        for held in vars(registry).values()
        if isinstance(held, list)
    )


def _variables(statement: Any, value: Any) -> list[Any]:
    """Return the variables in what a statement holds."""
    if type(value) is ir.Var:
        return [value]
    if type(value) is not dict:
        return _list_variables(statement, value)  # type: ignore[no-any-return]
    found: list[Any] = []
    for held in value.values():
        if type(held) is ir.Var:
            found.append(held)
        elif type(held) not in NO_VARIABLES:
            found.extend(_list_variables(statement, held))
    return found
