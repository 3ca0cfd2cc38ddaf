"""Tensors of zeros that lie in memory as the operands of an extern kernel will.

A kernel may copy the full storage of an operand although it reads a slice, or copy an operand
whose values are still to be conjugated. So an operand is made with its sizes and strides, at its
place in a storage as large as its own.

Example: an operand is the slice `[2:4]` of a tensor of 8 floats. It is made as two elements at
storage offset 2 of a storage of 32 bytes, not as a tensor of 8 bytes.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V

from optsched.plugins.inductor.sizes.storages import find_root, storage_bytes


class Place(NamedTuple):
    """The place of a tensor in its storage, and lazy operations on its values."""

    storage: int = 0
    """Bytes of its storage."""
    offset: int = 0
    """Elements of the storage before its first."""
    conjugate: bool = False
    negate: bool = False
    """`conjugate` and `negate`: lazy operations, which the tensor's flags record."""


def hints(values: Sequence[Any]) -> tuple[int, ...]:
    """Return sizes or strides as numbers, those that are symbolic by their hints."""
    return tuple(int(V.graph.sizevars.optimization_hint(x, fallback=0)) for x in values)


def find_places(target: Any, known: Mapping[str, Place]) -> tuple[Place, ...]:
    """Return the places of a kernel's operands.

    `target`: the kernel's node. `known`: places of tensors that other kernels return, by name.
    """
    return tuple(_find_place(operand, known) for operand in target.inputs)


def _find_place(operand: Any, known: Mapping[str, Place]) -> Place:
    offset = 0
    # Views of views: offsets add up.
    while isinstance(operand, ir.ReinterpretView) or _is_part(operand):
        view = operand if isinstance(operand, ir.ReinterpretView) else operand.layout.view
        offset += hints([view.layout.offset])[0]
        operand = find_root(view)
    name = operand.get_name()
    # A measured place is better than the size by the graph, as kernels may return parts of larger
    # storages.
    place = known.get(name) or Place(_storage_bytes(name, operand))
    return place._replace(offset=place.offset + offset)


def _is_part(operand: Any) -> bool:
    return isinstance(getattr(operand, "layout", None), ir.NonOwningLayout)


def _storage_bytes(name: str, operand: Any) -> int:
    if name in V.graph.graph_inputs:
        names, examples = list(V.graph.graph_inputs), V.graph.example_inputs or ()
        given = dict(zip(names, examples, strict=False)).get(name)
        # Without an example its size is unknown; 0 leaves the size that the strides imply.
        if len(names) != len(examples) or not isinstance(given, torch.Tensor):
            return 0
        size = given.untyped_storage().nbytes()
        return hints([size.node.expr if isinstance(size, torch.SymInt) else size])[0]
    return storage_bytes(operand) if isinstance(operand, ir.Buffer) else 0


def make_operands(target: Any, places: Sequence[Place]) -> list[Any]:
    """Return tensors of zeros for the operands of a kernel."""
    return [make_tensor(x, place) for x, place in zip(target.inputs, places, strict=True)]


def make_tensor(like: Any, place: Place) -> Any:
    """Return a tensor of zeros with the device, sizes and strides of a node, at a place."""
    size, stride, dtype = hints(like.get_size()), hints(like.get_stride()), like.get_dtype()
    # The last element by the strides; gaps between rows count.
    last = sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    elements = place.offset + last + 1 if all(size) else place.offset
    count = max(elements, place.storage // dtype.itemsize)
    whole = torch.zeros(count, dtype=dtype, device=like.get_device())
    tensor = whole.as_strided(size, stride, place.offset)
    tensor = torch._conj(tensor) if place.conjugate else tensor
    return torch._neg_view(tensor) if place.negate else tensor
