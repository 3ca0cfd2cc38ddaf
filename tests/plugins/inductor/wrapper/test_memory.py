"""The memory of compiled steps: as simulated beforehand, byte for byte, in any order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from tests.support.compiled_memory import OrderProbe, measure_calls, no_kernels  # noqa: E402
from tests.support.planned_calls import plan_and_measure  # noqa: E402
from tests.support.small_networks import NETWORKS, training_step  # noqa: E402


@pytest.mark.parametrize(
    ("name", "method", "reuse"),
    [("recurrent", "dfs", True), ("attention", "lpmf", False), ("pooled", "bfs", True)],
)
def test_simulated_memory_is_the_measured(name: str, method: str, reuse: bool) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    network, inputs = NETWORKS[name]()
    probe = OrderProbe(method, reuse)
    with no_kernels(), probe.running():
        step = training_step(network, inputs)
        step()
        calls = measure_calls(step)
    assert len(calls) == len(probe.said) == 2
    for said, call in zip(probe.said, calls, strict=True):
        assert call.peak == said.peak - said.start
    for said, made, facts in zip(probe.said, probe.generated, probe.facts, strict=True):
        known = frozenset(facts.buffers)
        assert said.removed == made.removed & known
        assert set(said.inplace) == made.inplace
        assert {pair for pair in said.reused if pair[0] not in said.removed} == made.reused
    owned = {given.name for given in probe.facts[1].inputs}
    assert owned
    assert not {given for given in owned if given.startswith("tangents")}


def test_loops_that_are_tiled_apart_pass_whole_buffers() -> None:
    """Turned rows are tiled in both directions, so that no loop is shared with the sums of rows."""

    def network(x: Any) -> Any:
        x = x / (x.std(-1, keepdim=True) + 1)
        return torch.where(x > 0.1, x, x.flip(-1))

    def make() -> Any:
        compiled, x = torch.compile(network), torch.randn(256, 128, requires_grad=True)
        return lambda: compiled(x).square().mean().backward()

    calls = plan_and_measure(make)
    assert len(calls) == 2
    assert all(call.is_as_planned for call in calls), calls


def test_a_weak_dependency_reads_nothing() -> None:
    """A buffer that only its own kernel reads is local, also if a mutation waits for it."""
    import sympy
    from torch._inductor.dependencies import MemoryDep, WeakDep
    from torch._inductor.sizevars import SizeVarAllocator
    from torch._inductor.virtualized import V

    from optsched.plugins.inductor.reading.inplace import find_local_buffers

    index = sympy.Symbol("c0", integer=True, nonnegative=True)
    access = MemoryDep("b", index, (index,), (sympy.Integer(96),))

    def node(name: str, reads: tuple[Any, ...] = (), writes: tuple[Any, ...] = ()) -> Any:
        read_writes = SimpleNamespace(reads=reads, writes=writes)
        return SimpleNamespace(get_name=lambda: name, read_writes=read_writes, get_outputs=list)

    maker, reader = node("maker", writes=(access,)), node("reader", (access,))
    mutator = node("mutator", (WeakDep("b", mutating_buf="c"),))
    users = [
        SimpleNamespace(node=reader, is_weak=False),
        SimpleNamespace(node=mutator, is_weak=True),
    ]
    made = SimpleNamespace(get_name=lambda: "b", users=users, get_mutations=lambda: ())
    maker.get_outputs = lambda: [made]
    kernel = SimpleNamespace(is_extern=lambda: False, get_nodes=lambda: [maker, reader, mutator])
    scheduler = SimpleNamespace(mutation_real_name={}, mutation_renames={})
    graph = SimpleNamespace(scheduler=scheduler, sizevars=SizeVarAllocator())
    with V.set_graph_handler(graph):
        assert find_local_buffers(kernel) == {"b"}


def test_profiles_of_kernels_are_kept() -> None:
    """The second compilation of the same convolution calls no kernel."""
    from optsched.plugins.inductor.sizes import kernels

    calls: list[Any] = []
    original = kernels.call_kernel

    def count(target: Any, operands: Any) -> Any:
        calls.append(target)
        return original(target, operands)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_known", {})
        patch.setattr(kernels, "call_kernel", count)
        for _ in range(2):
            torch._dynamo.reset()
            convolution = torch.nn.Conv2d(3, 4, 3)
            with no_kernels(), OrderProbe("baseline").running(), torch.no_grad():
                torch.compile(convolution)(torch.randn(2, 3, 8, 8))
    assert len(calls) == 2, "a first call, and one that is profiled"
