"""Arguments of a backward call that only the call holds, read while its graph is compiled.

AOTAutograd compiles a backward graph when autograd first calls it, and waits with the arguments in
a list that the compiled code empties (`_backward_impl`, a "boxed" call). A tensor in that list
without other references is freed when the wrapper deletes its name: a gradient from autograd, or an
activation saved for this call alone. A tensor that the program also holds stays: a parameter, a
gradient passed to `backward`, or an output that still has a name.

Example: a backward call has the arguments `weight`, `saved` and `tangent`. The module holds
`weight`, so it stays. Only the list holds the other two, so each is freed after its last use.

References
----------
torch/_functorch/_aot_autograd/runtime_wrappers.py, `CompiledFunction._backward_impl`
(torch 2.13.0).

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import unset_fake_temporarily

from optsched.plugins.inductor.wrapper.facts import OwnedInput

_WAITS, _ARGUMENTS = "_backward_impl", "all_args"
"""The function that waits for the compiled graph, and its list of arguments."""


def find_handed_over() -> list[OwnedInput] | None:
    """Return the inputs of the current backward graph that only its call holds.

    None if the graph is compiled before its first call, without arguments to look at.
    """
    arguments = _waiting_arguments()
    names = list(V.graph.graph_inputs)
    # Another function of that name, or another call: compare with the graph's inputs.
    if arguments is None or len(arguments) != len(names):
        return None
    with unset_fake_temporarily():
        shared = _find_shared(arguments)
    # A storage is named after its first tensor: with addresses an equal graph would look different.
    first: dict[int, str] = {}
    return [
        OwnedInput(name, value.untyped_storage().nbytes(), first.setdefault(_storage(value), name))
        for name, value in zip(names, arguments, strict=True)
        if isinstance(value, torch.Tensor) and _storage(value) not in shared
    ]


def _waiting_arguments() -> list[Any] | None:
    frame = sys._getframe()
    # Up through the callers to the function that waits for this compilation.
    while frame is not None:
        if frame.f_code.co_name == _WAITS and _ARGUMENTS in frame.f_code.co_varnames:
            found = frame.f_locals.get(_ARGUMENTS)
            return found if isinstance(found, list) else None
        frame = frame.f_back  # type: ignore[assignment]
    return None


class _References(NamedTuple):
    """Numbers of references: of Python and of C++ to a tensor, and of tensors to its storage."""

    python: int
    tensor: int
    storage: int


def _find_shared(arguments: Sequence[Any]) -> set[int]:
    """Return the storages to which something beside the list of arguments refers.

    An argument may be a view, whose base only the view itself refers to: the base goes with it.
    """
    # Measured on a tensor that nothing else holds, as the numbers differ between versions of
    # Python.
    (alone,) = _count_references([torch.empty(1)])
    view = torch.empty(1).view(1)
    # A view's reference to its base counts in C++, and once in Python for all views.
    (viewed_alone,) = _count_references([view._base])
    in_python = viewed_alone.python - alone.python
    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
    listed = Counter(map(id, tensors))
    bases = _unlisted_bases(tensors, listed)
    viewed = Counter(id(value._base) for value in _distinct(tensors) if value._is_view())
    by_storage = Counter(map(_storage, [*_distinct(tensors), *bases]))
    shared = set()
    for held in (tensors, bases):
        for i, count in enumerate(_count_references(held)):
            key, storage = id(held[i]), _storage(held[i])
            least = _References(
                # Twice per place of an argument: in the list of arguments, and in `tensors`.
                alone.python + max(0, 2 * listed[key] - 1) + in_python * (viewed[key] > 0),
                alone.tensor + viewed[key],
                # Each further tensor on the same storage holds it once more.
                alone.storage + by_storage[storage] - 1,
            )
            if count != least:
                shared.add(storage)
    return shared


def _distinct(tensors: Sequence[Any]) -> list[Any]:
    return list({id(value): value for value in tensors}.values())


def _unlisted_bases(tensors: Sequence[Any], listed: Mapping[int, int]) -> list[Any]:
    """Return the bases of arguments that are views, except bases that are arguments as well."""
    bases = _distinct([value._base for value in tensors if value._is_view()])
    return [base for base in bases if not listed[id(base)]]


def _count_references(tensors: list[Any]) -> list[_References]:
    return [
        _References(
            sys.getrefcount(tensors[i]),
            tensors[i]._use_count(),
            torch._C._storage_Use_Count(_storage(tensors[i])),
        )
        for i in range(len(tensors))
    ]


def _storage(tensor: Any) -> int:
    """Return the address of a tensor's storage, which identifies it."""
    return int(tensor.untyped_storage()._cdata)
