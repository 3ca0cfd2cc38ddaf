"""Which inputs of a graph are freed while it runs.

Inductor goes by names: what is called `primals_3` belongs to the caller. But a tensor that the
forward graph saves under that name can be a copy that it made itself, which goes once the backward
graph has used it; and several saved tensors can be views of one storage. So the forward graph is
asked what it saves, and the backward graph is told.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import TracingContext
from torch._inductor import ir, memory
from torch._inductor.virtualized import V

from optsched.plugins.inductor.storages import input_bytes, storage_bytes
from optsched.plugins.inductor.wrapper import OwnedInput


@dataclass(frozen=True, slots=True)
class _SavedTensor:
    storage: str
    size: int
    owned: bool


_saved: weakref.WeakKeyDictionary[Any, dict[str, _SavedTensor]] = weakref.WeakKeyDictionary()
"""By the context in which a forward graph was traced; its backward graph has the same one."""


def find_owned_inputs(nodes: Sequence[Any]) -> list[OwnedInput]:
    """Return the inputs of the current graph that it frees; remember what a forward graph saves."""
    context = TracingContext.try_get()
    if V.graph.is_backward and context in _saved:
        return _owned_by_backward(_saved[context])
    if context is not None and not V.graph.is_inference:
        _saved[context] = _read_saved(context)
    graph_inputs = torch.utils._ordered_set.OrderedSet(V.graph.graph_inputs)
    freeable = memory.get_freeable_input_buf(nodes, graph_inputs)
    return [OwnedInput(name, input_bytes(name), name) for name in freeable]


def _owned_by_backward(saved: dict[str, _SavedTensor]) -> list[OwnedInput]:
    owned = []
    for name in V.graph.graph_inputs:
        if name.startswith("tangents"):
            continue
        tensor = saved.get(name)
        if tensor is None:
            owned.append(OwnedInput(name, input_bytes(name), name))
        elif tensor.owned:
            owned.append(OwnedInput(name, tensor.size, tensor.storage))
    return owned


def _read_saved(context: Any) -> dict[str, _SavedTensor]:
    """Describe what the forward graph returns, by the names that its backward graph knows."""
    (results,) = V.graph.module.graph.output_node().args
    metadata = context.fw_metadata
    returned = 0 if metadata is None else metadata.num_forward
    storages = [_root(value) for value in V.graph.graph_outputs]
    held = {root.get_name() for root in storages[:returned] if root is not None}
    saved = {}
    for result, root in zip(results, storages, strict=True):
        if root is None or not isinstance(result, torch.fx.Node):
            continue
        name = root.get_name()
        outside = name in V.graph.graph_inputs or name in V.graph.constants or name in held
        saved[result.name] = _SavedTensor(name, storage_bytes(root), not outside)
    return saved


def _root(value: Any) -> Any:
    """Return the buffer or the input whose storage a graph output lies in; None for a number."""
    while True:
        if not isinstance(value, (ir.Buffer, ir.BaseView, ir.MutableBox)):
            return None
        if isinstance(value, ir.BaseView):
            value = value.unwrap_view()
        elif isinstance(value, ir.MutableBox):
            value = value.data
        elif isinstance(layout := value.get_output_spec(), ir.NonOwningLayout):
            value = layout.view
        elif aliased := value.get_inputs_that_alias_output():
            value = _buffer(aliased[0])
        else:
            return value


def _buffer(name: str) -> Any:
    return V.graph.name_to_buffer.get(name) or V.graph.graph_inputs[name]
