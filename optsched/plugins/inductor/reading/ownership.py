"""The inputs of a graph that are freed while it runs.

Inductor goes by names: an input called `primals_3` belongs to the caller. But a tensor that the
forward graph saves under that name may be a copy that it made itself, which is freed after its last
use in the backward graph, as are gradients from autograd; and several saved tensors may be views of
one storage. If a backward graph is compiled in its first call, the tensors that only this call
holds are looked up. If it is compiled before (symbolic sizes), the tensors that the forward graph
saves are used; an input that depends on the caller, such as an output that the program may still
hold, is counted both as held and as freed.

Example: the forward graph saves `primals_3`, a copy in another layout that it made itself. The
backward graph reads it once: its bytes are freed after that read, although the name says that the
caller owns it.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

import torch
from torch._guards import TracingContext
from torch._inductor import ir, memory
from torch._inductor.virtualized import V

from optsched.plugins.inductor.reading.live_arguments import find_handed_over
from optsched.plugins.inductor.regions import current_region
from optsched.plugins.inductor.sizes.storages import input_bytes, storage_bytes, upper_ends
from optsched.plugins.inductor.wrapper.facts import OwnedInput


class _Holder(Enum):
    """Holder of a saved tensor when the backward graph is called."""

    CALL = auto()
    """Held by the call only: the forward graph made it and passed it to no one else."""
    PROGRAM = auto()
    """The program, for longer: a parameter or a constant."""
    UNKNOWN = auto()
    """The program, if it still names it: an input or an output of the forward graph."""


@dataclass(frozen=True, slots=True)
class _SavedTensor:
    storage: str
    size: int
    worst: int
    holder: _Holder


_saved: weakref.WeakKeyDictionary[Any, dict[str, _SavedTensor]] = weakref.WeakKeyDictionary()
"""By the context in which a forward graph was traced; its backward graph has the same one."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The inputs that a graph frees."""

    expected: tuple[OwnedInput, ...]
    """As it is or, where that cannot be known, as it is in most programs: gradients are handed
    over, inputs and outputs of the forward graph are held."""
    extremes: tuple[tuple[OwnedInput, ...], ...] = ()
    """As few and as many as a program can leave to the graph; empty where `expected` is known."""


def find_owned_inputs(nodes: Sequence[Any]) -> Ownership:
    """Return the inputs of the current graph that it frees; remember what a forward graph saves."""
    context = TracingContext.try_get()
    # Three sources, the most certain first: the waiting call, the forward graph, Inductor's names.
    if V.graph.is_backward:
        handed_over = find_handed_over()
        region = current_region()
        if handed_over is not None:
            if region is not None:
                # Another split of the joint graph is simulated without a call to look at.
                region.owned.update(given.name for given in handed_over)
            later = _with_retained(handed_over, _saved.get(context, {}))
            return Ownership(tuple(handed_over), () if later is None else (later,))
        if context in _saved:
            seen = set[str]() if region is None else region.owned
            return _guess_ownership(_saved[context], seen)
    elif context is not None and not V.graph.is_inference:
        _saved[context] = _read_saved(context)
    graph_inputs = torch.utils._ordered_set.OrderedSet(V.graph.graph_inputs)
    freeable = memory.get_freeable_input_buf(nodes, graph_inputs)
    return Ownership(tuple(OwnedInput(name, input_bytes(name), name) for name in freeable))


def _with_retained(
    handed_over: list[OwnedInput], saved: Mapping[str, _SavedTensor]
) -> tuple[OwnedInput, ...] | None:
    """Return the inputs that a later call frees if autograd holds them during this one, else None.

    With `retain_graph=True` saved tensors stay for another call, and go in the last one.
    """
    known = {given.name: given for given in handed_over}
    freed = _owned(saved, lambda holder: holder is _Holder.CALL, tangents=False)
    if all(given.name in known for given in freed):
        return None
    # In the order of the graph's inputs, so that an equal graph looks equal.
    names = [name for name in V.graph.graph_inputs if name in known]
    return (*freed, *(known[name] for name in names if name not in {x.name for x in freed}))


def _guess_ownership(saved: Mapping[str, _SavedTensor], seen: Collection[str]) -> Ownership:
    """Return the inputs that a call is likely to free: those that one was seen to free, too."""
    saved = {
        name: replace(tensor, holder=_Holder.CALL)
        if name in seen and tensor.holder is _Holder.UNKNOWN
        else tensor
        for name, tensor in saved.items()
    }
    expected = _owned(saved, lambda holder: holder is _Holder.CALL, tangents=True)
    least = _owned(saved, lambda holder: holder is _Holder.CALL, tangents=False)
    most = _owned(saved, lambda holder: holder is not _Holder.PROGRAM, tangents=True)
    # The extremes: nothing that is unknown is freed, and all of it is.
    return Ownership(expected, tuple(found for found in (least, most) if found != expected))


def _owned(
    saved: Mapping[str, _SavedTensor], is_owned: Callable[[_Holder], bool], *, tangents: bool
) -> tuple[OwnedInput, ...]:
    owned, first = [], dict[str, str]()
    for name in V.graph.graph_inputs:
        tensor = saved.get(name)
        if name.startswith("tangents"):
            # The gradient of a loss is a single number, which `backward` itself holds.
            is_loss = V.graph.graph_inputs[name].get_size() == []
            if tangents and not is_loss:
                owned.append(OwnedInput(name, input_bytes(name), name))
        elif tensor is None:
            owned.append(OwnedInput(name, input_bytes(name), name))
        elif is_owned(tensor.holder):
            # Named after its first tensor, as in a waiting call: an equal graph looks equal.
            at = first.setdefault(tensor.storage, name)
            owned.append(OwnedInput(name, tensor.size, at, tensor.worst))
    return tuple(owned)


def _read_saved(context: Any) -> dict[str, _SavedTensor]:
    """Describe the results of the forward graph by the names that its backward graph uses."""
    (results,) = V.graph.module.graph.output_node().args
    metadata = context.fw_metadata
    returned = 0 if metadata is None else metadata.num_forward
    storages = [_root(value) for value in V.graph.graph_outputs]
    # Returned outputs come first, saved tensors after them.
    held = {root.get_name() for root in storages[:returned] if root is not None}
    fixed = _fixed_inputs(metadata)
    saved, ends = {}, upper_ends()
    for result, root in zip(results, storages, strict=True):
        if root is None or not isinstance(result, torch.fx.Node):
            continue
        name = root.get_name()
        holder = _holder(name, held, fixed)
        worst = storage_bytes(root, ends) if ends else 0
        saved[result.name] = _SavedTensor(name, storage_bytes(root), worst, holder)
    return saved


def _holder(name: str, returned: set[str], fixed: set[str]) -> _Holder:
    if name in fixed or name in V.graph.constants:
        return _Holder.PROGRAM
    # An output or input may live on in the program: nobody here can tell.
    if name in returned or name in V.graph.graph_inputs:
        return _Holder.UNKNOWN
    return _Holder.CALL


def _fixed_inputs(metadata: Any) -> set[str]:
    """Return the names of parameters and buffers, which the model holds."""
    names = list(V.graph.graph_inputs)
    return {names[i] for i in getattr(metadata, "static_input_indices", ()) if i < len(names)}


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
