"""Graphs that are left to Inductor: each reason by its name, on graphs made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import config, ir  # noqa: E402
from torch._inductor.virtualized import V  # noqa: E402

from optsched.errors import UsageError  # noqa: E402
from optsched.plugins.inductor.reading.support import (  # noqa: E402
    KeptOrderError,
    UnknownTorchError,
    require_support,
)

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


class SchedulerNode:
    """A kernel of the scheduler, as far as the tests for support look at it."""

    def __init__(self, device: Any = CPU, name: str = "op0", **changes: Any) -> None:
        self.device, self.name = device, name
        self.template = changes.pop("template", False)
        facts = {"get_subgraphs": list, "get_unbacked_symbol_defs": set, **changes}
        self.node = changes.pop("kernel", SimpleNamespace(**facts))

    def get_device(self) -> Any:
        return self.device

    def get_name(self) -> str:
        return self.name

    def get_nodes(self) -> list[Any]:
        return [self]

    def is_template(self) -> bool:
        return bool(self.template)


class ForeachKernelSchedulerNode(SchedulerNode):
    """A kind of node that nobody compared with a run."""


def graph(**changes: Any) -> Any:
    scheduler = {
        "_has_multi_stream_nodes": lambda: False,
        "should_partition": lambda node: None,
        **changes.pop("scheduler", {}),
    }
    facts = {"cpp_wrapper": False, "is_const_graph": False, "is_inference": False, **changes}
    return SimpleNamespace(scheduler=SimpleNamespace(**scheduler), **facts)


@contextmanager
def handled(made: Any, settings: dict[str, Any]) -> Iterator[None]:
    with V.set_graph_handler(made), config.patch(settings):
        yield


def reason(
    *nodes: SchedulerNode, cuda: bool = True, settings: dict[str, Any] | None = None, **facts: Any
) -> str:
    """Return the reason for which a graph is refused; empty if it is supported."""
    with handled(graph(**facts), settings or {}):
        try:
            require_support(nodes or [SchedulerNode()], 1.0, cuda=cuda)
        except KeptOrderError as error:
            return str(error)
    return ""


def test_plain_graphs_of_a_cpu_or_of_one_gpu_are_supported() -> None:
    assert reason() == ""
    assert reason(SchedulerNode(GPU)) == ""
    assert reason(cpp_wrapper=True) == ""


@pytest.mark.parametrize(
    ("settings", "facts", "words"),
    [
        (
            {"aot_inductor.allow_stack_allocation": True},
            {"cpp_wrapper": True},
            "the C++ wrapper allocates on the stack",
        ),
        ({}, {"is_const_graph": True}, "it folds the constants of another graph"),
        ({"cpu_backend": "halide"}, {}, "the CPU backend is halide"),
        ({"memory_planning": True}, {"is_inference": True}, "memory_planning is on"),
        ({"combo_kernels": True}, {}, "combo_kernels is on: nodes are joined later"),
        (
            {},
            {"scheduler": {"_mempool_nodes": {"op0"}}},
            "some nodes allocate from a memory pool of the program's own",
        ),
        (
            {},
            {"never_reuse_but_free_buffers": {"arg1", "arg0"}},
            "an op with effects may keep its input 'arg0'",
        ),
    ],
)
def test_settings_and_graphs(settings: dict[str, Any], facts: dict[str, Any], words: str) -> None:
    assert reason(settings=settings, **facts) == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"get_subgraphs": lambda: ["a graph"]},
            "node 'op0' holds graphs of its own, which Inductor schedules after this one",
        ),
        ({"template": True}, "node 'op0' is a template"),
        (
            {"get_unbacked_symbol_defs": lambda: {"u0"}},
            "node 'op0' gives sizes that are known only at run time",
        ),
    ],
)
@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_nodes(changes: dict[str, Any], words: str, device: Any) -> None:
    assert reason(SchedulerNode(device, **changes)) == words


def test_a_gpu_is_opt_in_and_one_of_its_kind() -> None:
    assert reason(SchedulerNode(GPU), cuda=False) == (
        "it runs on a GPU, which is opt-in: enabled(cuda=True)"
    )
    other = SchedulerNode(torch.device("xpu", 0))
    assert reason(other) == "a node runs on xpu:0: only CPUs and CUDA devices are known"
    both = (SchedulerNode(GPU), SchedulerNode(torch.device("cuda", 1), "op1"))
    assert reason(*both) == "it runs on several devices: cuda:0, cuda:1"
    mixed = (SchedulerNode(GPU), SchedulerNode(CPU, "op1"))
    assert reason(*mixed) == "it runs on several devices: cpu, cuda:0"


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("cuda_backend", "halide", "the CUDA backend halide"),
        ("triton.cooperative_reductions", True, "cooperative_reductions"),
        ("triton.force_cooperative_reductions", True, "force_cooperative_reductions"),
        ("triton.multi_kernel", 1, "multi_kernel"),
        ("triton.native_matmul", True, "native_matmul"),
        ("triton.use_tensor_descriptor", True, "use_tensor_descriptor"),
        (
            "triton.mix_order_reduction_autotune_split_size",
            True,
            "mix_order_reduction_autotune_split_size",
        ),
        ("coordinate_descent_tuning", True, "coordinate_descent_tuning"),
        ("max_autotune", True, "max_autotune"),
    ],
)
def test_settings_of_a_gpu(setting: str, value: Any, words: str) -> None:
    """On the CPU these say nothing."""
    assert reason(SchedulerNode(GPU), settings={setting: value}) == f"{words} is on"
    assert reason(settings={setting: value}) == ""


def test_the_rest_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    on_gpu = SchedulerNode(GPU)
    streams = {"_has_multi_stream_nodes": lambda: True}
    assert reason(on_gpu, scheduler=streams) == "it runs on several streams"
    words = "the wrapper is written in C++, which is known on the CPU alone"
    assert reason(on_gpu, cpp_wrapper=True) == words
    kind = "node 'op0' is a ForeachKernelSchedulerNode, which is not known on a GPU"
    assert reason(ForeachKernelSchedulerNode(GPU)) == kind
    own = ir.UserDefinedTritonKernel.__new__(ir.UserDefinedTritonKernel)
    assert reason(SchedulerNode(GPU, kernel=own)) == "node 'op0' is a kernel of the program's own"
    graphs = {"triton.cudagraphs": True, "graph_partition": True}
    split = {"should_partition": lambda node: "a copy to the CPU"}
    found = reason(on_gpu, settings=graphs, scheduler=split)
    assert found == "the CUDA graph is split at node 'op0': a copy to the CPU"
    monkeypatch.setattr(torch._dynamo.compiled_autograd, "in_compiled_autograd_region", True)
    assert reason(on_gpu) == "compiled autograd is on"
    monkeypatch.undo()
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert reason(on_gpu) == "the GPU is programmed with ROCm"


def test_an_unknown_torch_and_no_time_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with handled(graph(), {}):
        with pytest.raises(UsageError, match="time_limit must be positive, got 0"):
            require_support([SchedulerNode()], 0)
        monkeypatch.setattr(torch, "__version__", "2.16.0")
        with pytest.raises(UnknownTorchError, match=r"torch 2.16.0 is not one of 2.13, 2.14, 2.15"):
            require_support([SchedulerNode()], 1.0)


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda node: setattr(node.sums[0].node, "_split_size", None), "in one step"),
        (lambda node: node.others.append(node.sums[0]), ""),
        (lambda node: node.others.append(SimpleNamespace(get_name=lambda: "x")), ", and more"),
    ],
)
def test_sums_along_both_axes(break_it: Callable[[Any], None], words: str) -> None:
    """Only kernels that split their sums, and make nothing else, were compared with a run."""
    from optsched.plugins.inductor.reading.triton import _MixedSums

    final = SimpleNamespace(get_name=lambda: "last", get_outputs=lambda: [named("sum")])
    output = SimpleNamespace(get_name=lambda: "partial", users=[SimpleNamespace(node=final)])
    total = SimpleNamespace(
        node=SimpleNamespace(_split_size=8),
        is_reduction=lambda: True,
        get_outputs=lambda: [output],
        get_name=lambda: "part",
    )
    node = SimpleNamespace(sums=[total], others=[])
    node.get_name = lambda: "op0"
    node.node2 = SimpleNamespace(get_nodes=lambda: _reductions_first(node))
    break_it(node)
    if not words:
        assert _MixedSums(node).vanished[0] == "last"
        return
    with pytest.raises(KeptOrderError, match=f"node 'op0' sums along both axes.*{words}"):
        _MixedSums(node)


def _reductions_first(node: Any) -> list[Any]:
    for other in node.others:
        if not hasattr(other, "is_reduction"):
            other.is_reduction = lambda: False
    return [*node.sums, *node.others]


def named(name: str) -> Any:
    return SimpleNamespace(get_name=lambda: name)
