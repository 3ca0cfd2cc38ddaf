"""Wrappers for the fake device: the text that Inductor writes for a GPU, and its execution.

Inductor lowers each graph for a GPU with Triton, and is stopped when the wrapper's text is
complete. The text then runs under a fake tensor mode with stand-ins: generated kernels do nothing,
and calls of aten return tensors of the right sizes. A dispatch mode counts the storages, from the
op that makes each to the end of its last reference. The compiled function is given to AOTAutograd,
so that inputs are owned as they would be.

The fake device must have been loaded (:mod:`tests.support.cuda.device`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._dynamo import config as dynamo_config
from torch._functorch import config as functorch_config
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from optsched.plugins.inductor.capture import fake_cuda

# The build has no CUDA, so torch must not look for a driver when a tensor is made.
torch.cuda._lazy_init = lambda: None

Build = Callable[[], tuple[torch.nn.Module, tuple[Any, ...]]]
"""Makes a module and its inputs, on the fake device."""


class StorageCounter(TorchDispatchMode):
    """Live bytes of the storages on the device, and their births and deaths.

    `peak` is the most since the last call of a graph began, `highest` since a step began.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = self.highest = 0
        self.sizes: dict[int, int] = {}
        self.events: list[tuple[int, int]] = []
        """Pairs `(bytes, storage)`; negative bytes for a death."""
        self.born = 0

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Tell torch that the mode changes no result."""
        return True

    def add(self, tensor: torch.Tensor) -> int:
        """Count a tensor's storage from now on; return its number."""
        storage = tensor.untyped_storage()
        # A number of our own: Python's `id` of a dead storage is soon given to another.
        number = getattr(storage, "optsched_number", None)
        if number is None:
            self.born += 1
            number = self.born
            storage.optsched_number = number
            size = storage.nbytes()
            self.sizes[number] = size
            self.live += size
            self.peak = max(self.peak, self.live)
            self.highest = max(self.highest, self.live)
            self.events.append((size, number))
            weakref.finalize(storage, self._remove, number)
        return int(number)

    def _remove(self, number: int) -> None:
        size = self.sizes.pop(number)
        self.live -= size
        self.events.append((-size, number))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops._c10d_functional.wait_tensor.default:
            # Torch's fake one makes a tensor; the real one returns its operand.
            return args[0]
        returned = func(*args, **(kwargs or {}))
        if func is torch.ops._dtensor.shard_dim_alltoall.default and returned.is_cuda:
            # Torch's fake one may be a part of the rows of all ranks.
            is_part = returned.untyped_storage().nbytes() > returned.nbytes
            returned = returned.clone() if is_part else returned
        # Views and in-place ops return storages that were passed in: nothing new is allocated.
        given = {id(x.untyped_storage()) for x in _tensors((args, kwargs))}
        for tensor in _tensors(returned):
            if tensor.is_cuda and id(tensor.untyped_storage()) not in given:
                self.add(tensor)
        return returned


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (x for x in tree_leaves(values) if isinstance(x, torch.Tensor))


class _Stopped(BaseException):
    """Raised once the wrapper's text is complete; no handler of Inductor catches it."""


@dataclass(eq=False)
class Wrapper:
    """The text of a wrapper, and the tensors that it names beside its arguments."""

    phase: str
    text: str
    constants: Mapping[str, torch.Tensor]


def write_wrapper(graph_module: Any, inputs: Any, **options: Any) -> Wrapper:
    """Lower a traced graph and return the wrapper's text."""
    phase = "inference" if options.get("is_inference") else "forward"
    phase = "backward" if options.get("is_backward") else phase
    found: list[Wrapper] = []

    def keep(graph: Any, code: Any) -> None:
        found.append(Wrapper(phase, code.value, dict(graph.constants)))
        # Compiling the text would need Triton and a GPU.
        raise _Stopped

    # Lowering changes the graph, which the caller may still need.
    twin = GraphModule(graph_module, graph_module.graph.__deepcopy__())
    twin.meta.update(graph_module.meta)
    with (
        contextlib.suppress(_Stopped),
        mock.patch.object(GraphLowering, "_compile_to_module_lines", keep),
        device_answers(),
    ):
        compile_fx_inner(twin, inputs, **options)
    (wrapper,) = found
    return wrapper


@contextlib.contextmanager
def device_answers() -> Iterator[None]:
    """Answer what Inductor asks about the device and about Triton until it has the text."""
    from torch._dynamo.device_interface import CudaInterface
    from torch.utils import _triton

    def supports_bfloat16(*_: object, **__: object) -> bool:
        return True

    with contextlib.ExitStack() as stack:
        stack.enter_context(fake_cuda.device_answers())
        # Inductor asks these for its cache's keys and for the types that kernels may use. The hash
        # is arbitrary, since nothing is cached.
        answers = [
            (_triton, "triton_hash_with_backend", lambda: "no backend"),
            (torch.cuda, "is_bf16_supported", supports_bfloat16),
            (CudaInterface, "is_bf16_supported", staticmethod(supports_bfloat16)),
        ]
        for owner, name, answer in answers:
            stack.enter_context(mock.patch.object(owner, name, answer))
        if _triton.has_triton_package():
            stack.enter_context(_triton_driver())
        else:
            stack.enter_context(_scans_without_triton())
        yield


class _TritonTypes:
    """The part of `triton.language` that a scan's text needs: the widths of types."""

    def __getattr__(self, name: str) -> Any:
        width = re.search("[0-9]+", name)
        if width is None:
            raise AttributeError(name)
        return SimpleNamespace(primitive_bitwidth=int(width[0]))


def _scans_without_triton() -> Any:
    from torch._inductor.codegen.triton_split_scan import TritonSplitScanKernel

    scan, types = TritonSplitScanKernel.scan, _TritonTypes()
    modules = {"triton": SimpleNamespace(language=types), "triton.language": types}

    def scan_without(kernel: Any, *args: Any) -> Any:
        with mock.patch.dict(sys.modules, modules):
            return scan(kernel, *args)

    return mock.patch.object(TritonSplitScanKernel, "scan", scan_without)


@contextlib.contextmanager
def _triton_driver() -> Iterator[None]:
    import triton
    from triton.backends.compiler import GPUTarget

    # An H100's: compute capability 9.0, warps of 32 threads.
    target = GPUTarget("cuda", 90, 32)
    driver = SimpleNamespace(
        get_current_target=lambda: target, get_current_device=lambda: 0, is_active=lambda: True
    )
    triton.runtime.driver.set_active(driver)
    yield


class _Kernel:
    """A generated kernel: what it computes is not needed."""

    def run(self, *_: object, **__: object) -> None:
        """Do nothing."""


class _Compiler:
    """The stand-in of `AsyncCompile`."""

    def triton(self, *_: object, **__: object) -> _Kernel:
        """Return a kernel without compiling its text."""
        return _Kernel()

    multi_kernel = triton

    def wait(self, _: object) -> None:
        """Return at once."""


class _ExternKernels:
    """Calls of aten: with `out` there is nothing to do, and otherwise fake tensors come back."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            return getattr(torch.ops.aten, name)(*args, **kwargs) if out is None else out

        return call


def _empty(size: Any, stride: Any, dtype: Any) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def _view(base: torch.Tensor, size: Any, stride: Any, offset: int = 0) -> torch.Tensor:
    # As torch's own function: autograd does not know the view, so that nothing holds its base.
    with torch._C._AutoDispatchBelowADInplaceOrView():
        return torch.as_strided(base, size, stride, base.storage_offset() + offset)


def _nothing(*_: object, **__: object) -> None:
    return None


def _missing_modules(text: str) -> dict[str, Any]:
    """Return stand-ins for modules of Triton that a wrapper imports, if Triton is missing."""
    if importlib.util.find_spec("triton") is not None:
        return {}
    names = ["triton", *re.findall(r"^(?:import|from) (triton[.\w]*)", text, flags=re.MULTILINE)]
    return {name: mock.MagicMock(name=name) for name in names}


def load(wrapper: Wrapper) -> Callable[[list[Any]], Any]:
    """Execute the text of a wrapper with stand-ins, and return its function."""
    from torch._inductor import async_compile, select_algorithm

    guards = torch._C._dynamo.guards
    stand_ins = [
        (guards, "_empty_strided_cuda", _empty),
        (guards, "_reinterpret_tensor", _view),
        (guards, "assert_size_stride", _nothing),
        (guards, "assert_alignment", _nothing),
        (guards, "copy_if_misaligned", lambda tensor, *_: tensor),
        (torch._C, "_cuda_getCurrentRawStream", lambda _: 0),
        (async_compile, "AsyncCompile", _Compiler),
        (select_algorithm, "extern_kernels", _ExternKernels()),
    ]
    scope: dict[str, Any] = {"__name__": "wrapper"}
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(sys.modules, _missing_modules(wrapper.text)))
        for owner, name, value in stand_ins:
            stack.enter_context(mock.patch.object(owner, name, value, create=True))
        exec(compile(wrapper.text, "<wrapper>", "exec"), scope)  # the text is Inductor's own
    scope.update(
        {
            name: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
            for name, x in wrapper.constants.items()
        }
    )
    call: Callable[[list[Any]], Any] = scope["call"]
    return call


@dataclass(frozen=True)
class ExecutedCall:
    """A call of a compiled graph, in bytes on the device."""

    wrapper: Wrapper
    phase: str
    """`forward`, `backward` or `inference`."""
    peak: int
    end: int
    """`peak` and `end`: most live bytes during the call, and those at its end, of storages that it
    made or owns."""
    owned: int
    """Bytes of inputs that were freed during the call or are returned by it."""


@dataclass
class Execution:
    """A backend of `torch.compile` that runs wrappers with counted storages."""

    storages: StorageCounter = field(default_factory=StorageCounter)
    wrappers: list[Wrapper] = field(default_factory=list)
    calls: list[ExecutedCall] = field(default_factory=list)

    def backend(self, graph_module: Any, inputs: Any) -> Any:
        """Compile a graph."""
        return compile_fx(graph_module, inputs, inner_compile=self._compile)

    def first_call(self, number: int) -> ExecutedCall:
        """Return the first call of a graph; graphs count in the order of compilation."""
        return next(call for call in self.calls if call.wrapper is self.wrappers[number])

    def _compile(self, graph_module: Any, inputs: Any, **options: Any) -> Any:
        wrapper = write_wrapper(graph_module, inputs, **options)
        self.wrappers.append(wrapper)
        call = load(wrapper)

        def boxed(args: list[Any]) -> list[Any]:
            return self._run(wrapper, call, args)

        boxed._boxed_call = True  # type: ignore[attr-defined]
        return boxed

    def _run(
        self, wrapper: Wrapper, call: Callable[[list[Any]], Any], args: list[Any]
    ) -> list[Any]:
        counter = self.storages
        # Inputs are counted before the call, so that the call's own peak can be told from theirs.
        given = {counter.add(x): x.untyped_storage().nbytes() for x in _tensors(args) if x.is_cuda}
        before, first, counter.peak = counter.live, len(counter.events), counter.live
        with (
            counter,
            mock.patch.object(torch.cuda, "_DeviceGuard", contextlib.nullcontext),
            mock.patch.object(torch.cuda, "set_device", _nothing),
        ):
            returned = list(call(args))
        freed = {number for size, number in counter.events[first:] if size < 0} & set(given)
        if wrapper.phase == "backward":
            # An owned input may be handed on as a gradient.
            freed |= {counter.add(x) for x in _tensors(returned) if x.is_cuda} & set(given)
        owned = sum(given[number] for number in freed)
        self.calls.append(
            ExecutedCall(
                wrapper,
                wrapper.phase,
                counter.peak - before + owned,
                counter.live - before + owned,
                owned,
            )
        )
        return returned


@contextlib.contextmanager
def fake_mode() -> Iterator[None]:
    """Trace and run with fake tensors, and compile each graph again."""
    torch._dynamo.reset()
    with (
        functorch_config.patch(enable_autograd_cache=False),
        config.patch(fx_graph_cache=False),
        dynamo_config.patch(automatic_dynamic_local_pgo=False),
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        yield


def run_step(build: Build, execution: Execution, steps: int = 1) -> int:
    """Run training steps; return the most live bytes of the last, beside the module and inputs."""
    with fake_mode():
        module, args = build()
        counter = execution.storages
        for tensor in _tensors([*module.parameters(), *module.buffers(), *args]):
            counter.add(tensor)
        compiled = torch.compile(module, backend=execution.backend, dynamic=False)
        for _ in range(steps):
            for parameter in module.parameters():
                parameter.grad = None
            start = counter.highest = counter.live
            with counter:
                compiled(*args).backward()
        return counter.highest - start
