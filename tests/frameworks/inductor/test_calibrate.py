"""The simulated peak of a split equals that of the compiled step, and what the allocator holds."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._functorch import config as functorch_config  # noqa: E402
from torch._inductor import config as inductor_config  # noqa: E402

from optsched.plugins import inductor  # noqa: E402
from optsched.plugins.inductor.recompute.calibrate import donated  # noqa: E402
from optsched.plugins.inductor.recompute.joint_graph import saved_bytes  # noqa: E402
from optsched.plugins.records import forget, records  # noqa: E402
from tests.support.high_water import high_water  # noqa: E402


class Attention(nn.Module):
    """Layers of attention, whose activations the backward graph may overwrite."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(64, 192) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.qkv:
            query, key, value = layer(x).chunk(3, -1)
            x = x + (query @ key.transpose(-1, -2)).softmax(-1) @ value
        return x.square().mean()


@pytest.mark.slow
def test_what_is_simulated_is_what_runs() -> None:
    torch._dynamo.reset()
    forget()
    torch.manual_seed(0)
    module, x = Attention(), torch.randn(8, 128, 64)
    # Without cuts: the pass has more time for them than the calibration, and may find more.
    chosen = inductor.options(peak=4_000_000, time_limit=40, split=False)
    settings = {"fx_graph_cache": False, **chosen}
    with inductor_config.patch(settings), functorch_config.patch(enable_autograd_cache=False):
        compiled = torch.compile(module)
        compiled(x).backward()
    joint, forward, backward = records()
    assert "recompute: asked 4,000,000 bytes" in joint.order
    assert joint.after == max(forward.after or 0, backward.after or 0)
    for parameter in module.parameters():
        parameter.grad = None
    # The loss and its gradient are held by the caller.
    assert high_water(lambda: compiled(x).backward()) <= joint.after + 16 <= 4_000_016


@pytest.mark.slow
def test_layouts_that_inductor_chooses_for_convolutions_are_simulated() -> None:
    torch._dynamo.reset()
    forget()
    torch.manual_seed(0)
    layers = [
        layer
        for a, b in ((3, 16), (16, 32), (32, 32))
        for layer in (nn.Conv2d(a, b, 3, 1, 1), nn.BatchNorm2d(b), nn.ReLU())
    ]
    module, x = nn.Sequential(*layers), torch.randn(4, 3, 32, 32)
    settings = {"fx_graph_cache": False, **inductor.options(peak="1GiB", time_limit=10)}
    with inductor_config.patch(settings), functorch_config.patch(enable_autograd_cache=False):
        torch.compile(lambda y: module(y).square().mean())(x).backward()
    joint, forward, backward = records()
    peaks = [x.before if x.after is None else x.after for x in (forward, backward)]
    assert joint.after == max(peak or 0 for peak in peaks)


def test_saved_tensors_of_inputs_and_outputs_are_not_overwritten() -> None:
    from torch._functorch.aot_autograd import aot_module
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    found: list[tuple[list[str], list[str]]] = []
    sizes: list[int] = []

    def partition(joint, inputs, **how):  # type: ignore[no-untyped-def]
        modules = min_cut_rematerialization_partition(joint, inputs, **how)
        saved = modules[0].graph.output_node().args[0][how["num_fwd_outputs"] :]
        free = donated(modules, how["num_fwd_outputs"])
        sizes.append(saved_bytes(modules, how["num_fwd_outputs"]))
        found.append(([x.name for x in saved], [saved[i].name for i in free]))
        return modules

    module = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1))
    keep = {"fw_compiler": lambda graph, _: graph, "partition_fn": partition}
    aot_module(module, **keep)(torch.randn(4, 8)).sum().backward()
    ((saved, free),) = found
    # The input of GELU and its result, 4 by 8 numbers each; the other saved tensors are inputs.
    assert sizes == [2 * 4 * 8 * 4]
    assert any(name.startswith("primals") for name in saved)
    assert free
    assert not any(name.startswith("primals") for name in free)
