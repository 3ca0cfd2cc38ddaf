"""Bytes that extern kernels allocate: for their results, and for scratch while they run.

Graphs do not record these bytes. A oneDNN convolution reorders its weights, a product of bfloat16
matrices has scratch; a view of complex numbers returns the bytes of its operand, and so does
`_unsafe_view`, whose schema does not say so. Each kernel is called with tensors of zeros of the
graph's sizes and strides, a second time while its blocks are counted, and what it was found to do
is kept for as long as the process lives.

Example: `extern_kernels.mm` of a 64 x 32 and a 32 x 16 float32 matrix returns 64 * 16 * 4 = 4,096
bytes; what it holds beyond these is scratch.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import unset_fake_temporarily

from optsched.plugins.inductor.sizes.kernel_calls import call_kernel, is_callable, real_gpu
from optsched.plugins.inductor.sizes.kernel_operands import Place, find_places, hints, make_operands
from optsched.plugins.inductor.sizes.meter import measure_call

Path = tuple[Any, ...]
"""Indices that lead to a tensor in what a kernel returns; empty for the tensor itself."""


ALL_BYTES = 1 << 32
"""Bytes of operands per graph, after which the rest of its kernels are not known. A limit in
seconds would find other kernels on another machine."""
SECONDS = 10.0
"""Processor time per graph that ends the calls in any case."""
MAX_BYTES = 1 << 30
"""A kernel whose operands are larger is not called at all."""


class ReturnedTensor(NamedTuple):
    """A tensor that a kernel returns."""

    place: Place
    """Place of the tensor in its storage."""
    operand: int | None
    """Position of the operand in whose storage that is; None for a storage of its own."""


@dataclass(frozen=True, slots=True)
class KernelMemory:
    """Memory that a kernel allocates."""

    workspace: int = 0
    """Bytes that it allocates and frees again."""
    returned: Mapping[Path, ReturnedTensor] = field(default_factory=dict)
    """The tensors it returns."""


@dataclass(frozen=True, slots=True)
class MeasuredKernels:
    """The measured memory of the extern kernels of a graph."""

    by_name: Mapping[str, KernelMemory] = field(default_factory=dict)
    """By the name of the buffer that each makes."""
    unknown: tuple[str, ...] = ()
    """Names of the kernels that could not be called, each once."""


_known: dict[Hashable, KernelMemory] = {}


def measure_kernels(nodes: Sequence[Any]) -> MeasuredKernels:
    """Call the extern kernels of a graph that were not called before; return what all allocate."""
    targets = [node.node for node in nodes if node.is_extern()]
    # In the order in which they were lowered, an operand comes before the kernel that takes it.
    position = {op.get_operation_name(): i for i, op in enumerate(V.graph.operations)}
    targets.sort(key=lambda target: position[target.get_operation_name()])
    survey = _Survey()
    gpus = sorted({str(device) for target in targets if (device := real_gpu(target)) is not None})
    with _apart(gpus):
        for target in targets:
            survey.add(target)
        _known.update(_count(survey.fresh))
    found = {name: _known[key] for name, key in survey.keys.items() if key in _known}
    lost = {call.name for key, call in survey.fresh.items() if key not in _known}
    return MeasuredKernels(found, tuple(sorted(survey.unknown | lost)))


class _FirstCall(NamedTuple):
    """A kernel's node, the places of its operands, and the tensors that it returned."""

    target: Any
    places: Sequence[Place]
    returned: Mapping[Path, ReturnedTensor]

    @property
    def name(self) -> str:
        """The kernel's name, for people."""
        return _name(self.target)


class _Survey:
    """First calls: which tensors come out of each kernel, in the order of the graph."""

    def __init__(self) -> None:
        self.left = ALL_BYTES
        # The second calls take as long as the first.
        # Time of this thread: other threads that compile must not use it up.
        self.end = time.thread_time() + SECONDS / 2
        self.keys: dict[str, Hashable] = {}
        self.fresh: dict[Hashable, _FirstCall] = {}
        self.unknown: set[str] = set()
        self.places: dict[str, Place] = {}

    def add(self, target: Any) -> None:
        """Measure the results of one kernel, unless they are known."""
        if isinstance(target, ir.MultiOutput):
            self._note(target.get_name(), target.inputs[0].get_name(), path_of(target))
        elif not _allocates_nothing(target) and not self._find(target):
            self.unknown.add(_name(target))

    def _find(self, target: Any) -> bool:
        if not is_callable(target):
            return False
        places = find_places(target, self.places)
        # The same call on the same layout does the same, so that it is made once per process.
        key = (type(target), *_key(target), *places)
        if key not in _known and key not in self.fresh:
            # An over-long call cannot be interrupted, so large ones are not begun.
            size = _operand_bytes(target)
            if time.thread_time() > self.end or size > min(MAX_BYTES, self.left):
                return False
            self.left -= size
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


def _name(target: Any) -> str:
    return str(target.get_kernel_name() or type(target).__name__)


def path_of(member: Any) -> Path:
    """Return the position of a `MultiOutput` in the result of its kernel."""
    return tuple(index for _, index in member.indices)


def _allocates_nothing(target: Any) -> bool:
    """Return True for products that the CPU's BLAS computes where Inductor tells it, and waits."""
    if isinstance(target, ir._WaitKernel):
        return True
    if not isinstance(target, ir.ExternKernelOut) or real_gpu(target) is not None:
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
    return str(name), made, _device(target), tuple(_shape(x) for x in target.inputs), *constants


def _device(target: Any) -> str:
    """Return a name of the device that runs a kernel: GPUs of one kind have the same kernels."""
    gpu = real_gpu(target)
    return "cpu" if gpu is None else str(torch.cuda.get_device_name(gpu))


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
    # Storages are compared by address, while the operands are alive.
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


def _count(fresh: Mapping[Hashable, _FirstCall]) -> dict[Hashable, KernelMemory]:
    """Call each kernel a second time; return the bytes that it frees again."""
    found, on_gpu = {}, False
    for key, call in fresh.items():
        device = real_gpu(call.target)
        on_gpu |= device is not None
        operands = make_operands(call.target, call.places)
        try:
            _, rise = measure_call(
                partial(call_kernel, call.target, operands),
                "cpu" if device is None else str(device),
            )
        except torch.OutOfMemoryError:
            continue
        finally:
            del operands
        if rise is not None:
            # What is live at the end is what the kernel returned.
            found[key] = KernelMemory(rise.most - rise.kept, call.returned)
    if on_gpu:
        # Blocks of these calls, kept by the allocator, would count as reserved by the program.
        torch.cuda.empty_cache()
    return found


@contextlib.contextmanager
def _apart(gpus: Sequence[str]) -> Iterator[None]:
    """Keep calls from the compilation around them."""
    with (
        unset_fake_temporarily(),
        torch.no_grad(),
        torch.autocast("cpu", enabled=False),
        torch.autocast("cuda", enabled=False) if gpus else contextlib.nullcontext(),
        torch.random.fork_rng(devices=gpus),
    ):
        yield
