"""Inputs of a backward graph that its forward graph saved, and that are freed after their last use.

Example: a layer saves its input for the gradient of the weight, and the transposed weight for the
gradient of the input. The first is freed in the backward graph; the second is a view of the
weight, whose bytes stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

_CALLERS: Final = ("primals_", "tangents_", "arg", "fwd_rng_state_", "bwd_rng_state_")
"""Names of inputs of AOTAutograd that the caller holds; a backward graph's other inputs are
saved."""


def find_saved(inputs: Sequence[Any]) -> set[Any]:
    """Return the inputs of a graph that are saved tensors; none if it is not a backward graph."""
    named = [str(node.target) for node in inputs]
    is_backward = any(name.startswith("tangents_") for name in named)
    # A joint graph has tangents too, but saves nothing between two graphs.
    if not is_backward or all(name.startswith(_CALLERS) for name in named):
        return set()
    held = {key for node in inputs for key in _program_storages(node.meta.get("val"))}
    saved = (node for node in inputs if not str(node.target).startswith(_CALLERS))
    return {node for node in saved if _storage(node.meta.get("val")) not in held}


def _program_storages(value: Any) -> Iterator[int]:
    """Yield the storages of the program's own tensors with which a trace began, such as weights."""
    # Without this memo, in another version of PyTorch, only the names of inputs tell.
    converter = getattr(getattr(value, "fake_mode", None), "fake_tensor_converter", None)
    memo = getattr(getattr(converter, "meta_converter", None), "storage_memo", {})
    return (storage._cdata for storage in memo.values())


def _storage(value: Any) -> int | None:
    return int(value.untyped_storage()._cdata) if hasattr(value, "untyped_storage") else None
