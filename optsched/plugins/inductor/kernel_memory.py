"""Bytes that extern kernels allocate: what they return, and what they free again while they run.

No graph says them. A oneDNN convolution reorders its weights, a product of bfloat16 matrices has
scratch; a view of complex numbers returns the bytes of its operand, and so does `_unsafe_view`,
whose schema keeps silent about it. Each kernel is called with tensors of zeros of the graph's sizes
and strides, a second time under torch's profiler, and what it was found to do is kept for as long
as the process lives.

Example: `extern_kernels.mm` of a 64 x 32 and a 32 x 16 float32 matrix returns 64 * 16 * 4 = 4,096
bytes; what its profile shows beyond these is scratch.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import unset_fake_temporarily

from optsched.plugins.inductor.kernel_calls import call_kernel, is_callable
from optsched.plugins.inductor.kernel_operands import Place, find_places, hints, make_operands

Path = tuple[Any, ...]
"""Indices that lead to a tensor in what a kernel returns; empty for the tensor itself."""


@dataclass(frozen=True, slots=True)
class KernelEffort:
    """Limits on calling kernels.

    Parameters
    ----------
    seconds
        Processor time per graph, after which the rest of its kernels are not known. Wall time would
        depend on other processes.
    max_bytes
        A kernel whose operands are larger is not called at all.
    """

    seconds: float = 1.0
    max_bytes: int = 1 << 30


class ReturnedTensor(NamedTuple):
    """A tensor that a kernel returns.

    Parameters
    ----------
    place
        Place of the tensor in its storage.
    operand
        Position of the operand in whose storage that is; None for a storage of its own.
    """

    place: Place
    operand: int | None


@dataclass(frozen=True, slots=True)
class KernelMemory:
    """Memory that a kernel allocates.

    Parameters
    ----------
    workspace
        Bytes that it allocates and frees again.
    returned
        The tensors it returns.
    """

    workspace: int = 0
    returned: Mapping[Path, ReturnedTensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasuredKernels:
    """The measured memory of the extern kernels of a graph.

    Parameters
    ----------
    by_name
        By the name of the buffer that each makes.
    unknown
        Names of the kernels that could not be called, each once.
    """

    by_name: Mapping[str, KernelMemory] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


_known: dict[Hashable, KernelMemory] = {}


def measure_kernels(nodes: Sequence[Any], effort: KernelEffort = KernelEffort()) -> MeasuredKernels:
    """Call the extern kernels of a graph that were not called before; return what all allocate."""
    targets = [node.node for node in nodes if node.is_extern()]
    # In the order in which they were lowered, an operand comes before the kernel that takes it.
    position = {op.get_operation_name(): i for i, op in enumerate(V.graph.operations)}
    targets.sort(key=lambda target: position[target.get_operation_name()])
    survey = _Survey(effort)
    with _apart():
        for target in targets:
            survey.add(target)
        _known.update(_profile(survey.fresh))
    found = {name: _known[key] for name, key in survey.keys.items() if key in _known}
    return MeasuredKernels(found, tuple(sorted(survey.unknown)))


class _FirstCall(NamedTuple):
    """A kernel's node, the places of its operands, and the tensors that it returned."""

    target: Any
    places: Sequence[Place]
    returned: Mapping[Path, ReturnedTensor]


class _Survey:
    """First calls: which tensors come out of each kernel, in the order of the graph."""

    def __init__(self, effort: KernelEffort) -> None:
        self.max_bytes = effort.max_bytes
        # The second calls take as long as the first.
        self.end = time.thread_time() + effort.seconds / 2
        self.keys: dict[str, Hashable] = {}
        self.fresh: dict[Hashable, _FirstCall] = {}
        self.unknown: set[str] = set()
        self.places: dict[str, Place] = {}

    def add(self, target: Any) -> None:
        """Measure the results of one kernel, unless they are known."""
        if isinstance(target, ir.MultiOutput):
            self._note(target.get_name(), target.inputs[0].get_name(), path_of(target))
        elif not _allocates_nothing(target) and not self._find(target):
            self.unknown.add(str(target.get_kernel_name() or type(target).__name__))

    def _find(self, target: Any) -> bool:
        if not is_callable(target) or torch.autograd._profiler_enabled():
            return False
        places = find_places(target, self.places)
        key = (type(target), *_key(target), *places)
        if key not in _known and key not in self.fresh:
            if time.thread_time() > self.end or _operand_bytes(target) > self.max_bytes:
                return False
            returned = _call_once(target, places)
            if returned is None:
                return False
            self.fresh[key] = _FirstCall(target, places, returned)
        self.keys[target.get_name()] = key
        self._note(target.get_name(), target.get_name(), ())
        return True

    def _note(self, name: str, kernel: str, path: Path) -> None:
        known = self.fresh.get(self.keys.get(kernel)) or _known.get(self.keys.get(kernel))
        if known and path in known.returned:
            self.places[name] = known.returned[path].place


def path_of(member: Any) -> Path:
    """Return the position of a `MultiOutput` in the result of its kernel."""
    return tuple(index for _, index in member.indices)


def _allocates_nothing(target: Any) -> bool:
    """Return True for products of matrices that BLAS computes where Inductor tells it."""
    if not isinstance(target, ir.ExternKernelOut):
        return False
    name = str(target.get_kernel_name()).removeprefix("extern_kernels.")
    if name not in ("mm", "addmm", "bmm", "baddbmm"):
        return False
    wide = target.get_dtype() in (torch.float32, torch.float64)
    return bool(wide and torch.get_float32_matmul_precision() == "highest")


def _key(target: Any) -> tuple[Hashable, ...]:
    made = _shape(target) if isinstance(target, ir.ExternKernelOut) else None
    name = target.get_kernel_name() or target.op_overload
    constants = repr(target.constant_args), repr(target.kwargs), repr(_places(target))
    return str(name), made, tuple(_shape(x) for x in target.inputs), *constants


def _places(target: Any) -> list[bool]:
    return [index is not None for index in getattr(target, "indices", ())]


def _shape(operand: Any) -> tuple[Hashable, ...]:
    return hints(operand.get_size()), hints(operand.get_stride()), operand.get_dtype()


def _operand_bytes(target: Any) -> int:
    return sum(math.prod(hints(x.get_size())) * x.get_dtype().itemsize for x in target.inputs)


def _call_once(target: Any, places: Sequence[Place]) -> dict[Path, ReturnedTensor] | None:
    operands = make_operands(target, places)
    try:
        returned = call_kernel(target, operands)
    except Exception:
        # It does not work on zeros, or not on what this module knows to give it.
        return None
    return dict(_describe(returned, [x.untyped_storage()._cdata for x in operands]))


def _describe(
    returned: Any, operands: Sequence[int], path: Path = ()
) -> Iterator[tuple[Path, ReturnedTensor]]:
    if isinstance(returned, torch.Tensor):
        storage = returned.untyped_storage()
        found = operands.index(storage._cdata) if storage._cdata in operands else None
        offset = returned.storage_offset()
        place = Place(storage.nbytes(), offset, returned.is_conj(), returned.is_neg())
        yield path, ReturnedTensor(place, found)
    elif isinstance(returned, tuple | list):
        for i, value in enumerate(returned):
            yield from _describe(value, operands, (*path, i))


_MARK = "optsched kernel "


def _profile(fresh: Mapping[Hashable, _FirstCall]) -> dict[Hashable, KernelMemory]:
    """Call each kernel a second time, and measure the bytes that it frees again."""
    if not fresh:
        return {}
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        for i, (target, places, _) in enumerate(fresh.values()):
            operands = make_operands(target, places)
            with torch.profiler.record_function(f"{_MARK}{i}"):
                kept = call_kernel(target, operands)
            del kept
    scratch = _peaks_above_end(profile.profiler.kineto_results.events())
    return {
        key: KernelMemory(scratch[i], call.returned) for i, (key, call) in enumerate(fresh.items())
    }


def _peaks_above_end(events: Sequence[Any]) -> dict[int, int]:
    """Return for each marked call by how much its live bytes exceed those at its end."""
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    found = {}
    for mark in (e for e in events if e.name().startswith(_MARK)):
        begin, end = mark.start_ns(), mark.start_ns() + mark.duration_ns()
        live = peak = 0
        for _, change in (c for c in changes if begin <= c[0] <= end):
            live += change
            peak = max(peak, live)
        found[int(mark.name().removeprefix(_MARK))] = peak - live
    return found


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Keep calls from the compilation around them, and the profiler from announcing its runs."""
    with (
        mock.patch.dict(os.environ, {"KINETO_LOG_LEVEL": "99"}),
        unset_fake_temporarily(),
        torch.no_grad(),
        torch.autocast("cpu", enabled=False),
        torch.random.fork_rng(devices=[]),
    ):
        yield
