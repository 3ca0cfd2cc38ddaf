"""Tensors that share bytes: the operand in whose storage an output lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from optsched.formats.fx.operators import (
    CONVERSIONS,
    DROPOUTS,
    EACH_VIEWED,
    RELABELINGS,
    RESHAPES,
    VIEWS,
    WHOLE_COPIES,
    drops_nothing,
    is_out_variant,
)
from optsched.formats.fx.program import FxNode, TensorValue


def shared_with(node: FxNode, output: str, values: Mapping[str, TensorValue]) -> str | None:
    """Return the argument of a node in whose bytes an output lies, None if it has its own."""
    first = node.view_of or node.first
    # Outside of `aten`, only the schema says so, and the reader has looked there.
    if first is None or not node.operator.startswith("aten."):
        return node.view_of
    if node.base in EACH_VIEWED:
        # Each output is a view of the operand at its place in the list.
        return dict(zip(node.outputs, node.reads, strict=False)).get(output, first)
    if node.view_of is not None or node.base in VIEWS or node.base in RELABELINGS:
        return first
    if is_out_variant(node.operator.rpartition(".")[2]) and "out" in node.arguments:
        return node.arguments["out"][0]
    # An operator such as `add_` returns the tensor that it has changed.
    if node.base.endswith("_") and node.overwrites:
        return node.overwrites[0]
    return first if _returns_argument(node, values[first], values[output]) else None


def is_misrecorded(node: FxNode, given: TensorValue, made: TensorValue) -> bool:
    """Return True if an output is the argument itself, but has other strides on record."""
    writes = node.base.endswith("_") and node.base not in RELABELINGS
    is_same = (writes or node.base in DROPOUTS) and given.sizes == made.sizes
    return is_same and given.strides != made.strides


def whole_copy(
    node: FxNode, given: TensorValue, storage: TensorValue, made: TensorValue
) -> TensorValue:
    """Return an output as it is at run time if an operator copies all of its operand's storage.

    PyTorch traces it as a tensor of its own size.

    References
    ----------
    aten/src/ATen/FunctionalTensorWrapper.cpp, `clone_preserve_strides`.
    """
    overlaps = any(n > 1 and step == 0 for n, step in zip(given.sizes, given.strides, strict=True))
    if not node.operator.startswith("aten.") or node.base not in WHOLE_COPIES or overlaps:
        return made
    return replace(
        made,
        strides=given.strides,
        offset=given.offset,
        storage_bytes=max(storage.nbytes, given.span),
    )


def _returns_argument(node: FxNode, given: TensorValue, made: TensorValue) -> bool:
    """Return True if an operator that may return its argument does so."""
    if given.dtype != made.dtype or given.device != made.device:
        return False
    if node.base in RESHAPES:
        # A reshape returns a view exactly where the strides allow one.
        return view_strides(given.sizes, given.strides, made.sizes) is not None
    if node.base in DROPOUTS:
        return drops_nothing(node.settings)
    if node.base == "einsum":
        # With one operand `einsum` may only permute.
        return len(node.reads) == 1 and prod(given.sizes) == prod(made.sizes)
    if node.base in CONVERSIONS:
        return node.settings.get("copy") is not True and given.is_like(made)
    return False


def view_strides(
    sizes: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the strides of a view of a tensor in another shape; None if that takes a copy.

    The shape `wanted` has as many elements as the tensor of these sizes and strides.

    References
    ----------
    aten/src/ATen/TensorUtils.cpp, `computeStride_impl`.
    """
    if 0 in sizes:
        # An empty tensor has no element, so any strides do, as long as the shape is right.
        return tuple(strides) if tuple(sizes) == tuple(wanted) else (1,) * len(wanted)
    # Axes of one element have strides that do not matter.
    axes = [(n, step) for n, step in zip(sizes, strides, strict=True) if n != 1]
    found, left = [1] * len(wanted), len(wanted) - 1
    while axes:
        # A run of axes whose strides are those of a single axis.
        count, step = axes.pop()
        inner = step
        # Adjacent in memory: the outer stride is the length of the inner axis.
        while axes and axes[-1][1] == count * inner:
            count *= axes.pop()[0]
        run = 1
        # Cut wanted axes from the right until they fill the run exactly.
        while left >= 0 and (run < count or wanted[left] == 1):
            found[left] = run * step
            run *= wanted[left]
            left -= 1
        if run != count:
            return None
    return tuple(found)
