"""Schemas of the operators that live nodes call.

PyTorch is imported inside functions.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

from optsched.errors import FormatError
from optsched.formats.fields import show


def operator_of(target: Any) -> Any:
    """Return the operator of PyTorch that a node calls, under a dialect's wrapper if it has one.

    An operator has a schema; a function has none.
    """
    import torch

    # ExecuTorch's edge dialect wraps operators of PyTorch.
    wrapped = getattr(target, "_op", None)
    return wrapped if isinstance(wrapped, torch._ops.OpOverload) else target


def operator_name(target: Any) -> str:
    """Return the name of a node's operator as FX writes it: `aten.view.default`.

    A target that is not an operator is rejected, because its effect is unknown.
    """
    import torch

    found = operator_of(target)
    if isinstance(found, torch._ops.OpOverload):
        return str(found)
    if isinstance(found, torch._ops.HigherOrderOperator):
        return f"higher_order.{found.name()}"
    module = str(getattr(found, "__module__", ""))
    # Arithmetic on sizes; any other function could do anything.
    if module not in ("_operator", "math", "torch", "builtins"):
        raise FormatError(f"nothing is known of the function {show(str(found))}")
    return f"{module}.{found.__name__}"


def _schema(node: Any) -> Any:
    """Return the schema of the operator that a node calls; for a function, return None."""
    return getattr(operator_of(node.target), "_schema", None)


def named_arguments(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a node with their names, or their positions where they have none."""
    known = _schema(node)
    names = [] if known is None else [argument.name for argument in known.arguments]
    for position, given in enumerate(node.args):
        yield names[position] if position < len(names) else str(position), given
    yield from node.kwargs.items()


def written_arguments(node: Any, *, results: bool = True) -> list[str]:
    """Return the names of the arguments that a node's operator says it writes to.

    Those that are there for its results count as well, unless `results` says that they do not.
    """
    known = _schema(node)
    return [
        argument.name
        for argument in (() if known is None else known.arguments)
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and (results or not argument.is_out)
    ]


def viewed_tensor(node: Any, tensors: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the tensor that an operator outside `aten` declares its results to be views of."""
    known = _schema(node)
    # The tables cover `aten`, where some schemas are silent.
    if known is None or operator_of(node.target).namespace == "aten":
        return None
    shared = [x.alias_info for x in known.returns if x.alias_info is not None]
    for argument in known.arguments if shared else ():
        if argument.alias_info is not None and tensors.get(argument.name):
            # The first tensor among those that the schema marks.
            return tensors[argument.name][0]
    return None


def returns_something(node: Any) -> bool:
    """Return True if a node calls an operator whose schema has results."""
    known = _schema(node) if node.op == "call_function" else None
    return known is not None and len(known.returns) > 0


def draws_random_numbers(node: Any) -> bool:
    """Return True if a node's operator is marked as drawing from the random state."""
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(operator_of(node.target), "tags", ())


def results_of(node: Any) -> Any:
    """Return what a node carries as its results; of an untraced one, what its parts carry."""
    parts = {x.args[1]: x for x in node.users if x.target is operator.getitem and x.args[0] is node}
    if node.meta.get("val") is not None or not parts:
        return node.meta.get("val")
    count = max(parts) + 1 if all(isinstance(i, int) and i >= 0 for i in parts) else 0
    return [results_of(parts[i]) if i in parts else None for i in range(count)]
