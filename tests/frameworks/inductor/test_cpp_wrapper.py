"""C++ wrappers and AOTInductor packages hold the planned bytes, and compute the same."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import config  # noqa: E402

from optsched import plugins  # noqa: E402
from optsched.plugins.inductor import enabled  # noqa: E402
from optsched.plugins.inductor.orders import node_order  # noqa: E402
from optsched.plugins.inductor.orders.candidates import Decision  # noqa: E402
from optsched.plugins.inductor.sizes.meter import measure_call  # noqa: E402
from tests.support.compiled_memory import QUICK_KERNELS, measure_calls  # noqa: E402

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler"
)


class Sorted(torch.nn.Module):  # type: ignore[misc]
    """A network that reads a part of what its kernels return."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 512), torch.nn.Linear(64, 512)
        self.last = torch.nn.Linear(512, 64)

    def forward(self, x: Any) -> Any:
        values, places = self.first(x).sort(1)
        mean = torch.var_mean(self.second(x), 1)[1]
        y = self.last(values * 2) + mean[:, None]
        top, _ = self.second(x).topk(8, 1)
        return y.softmax(1), top.sum(1), places[:, :3].clone()


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[Decision]:
    """Note what is planned."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    plugins.forget()
    found: list[Decision] = []
    decide = node_order.decide

    def note(*args: Any, **settings: Any) -> Decision:
        found.append(decide(*args, **settings))
        return found[-1]

    monkeypatch.setattr(node_order, "decide", note)
    return found


def test_a_package_needs_the_planned_bytes(decisions: list[Decision], tmp_path: Path) -> None:
    network, x = Sorted(), torch.randn(128, 64)
    with config.patch(QUICK_KERNELS), enabled(time_limit=2, min_gain=0), torch.no_grad():
        program = torch.export.export(network, (x,))
        path = tmp_path / "sorted.pt2"
        torch._inductor.aoti_compile_and_package(program, package_path=str(path))
        run = torch._inductor.aoti_load_package(str(path))
        run(x)
        found, rise = measure_call(lambda: run(x), "cpu")
        wanted = network(x)
    (decision,) = decisions
    assert rise is not None
    assert rise.most == decision.best.peak < decision.own.peak
    for mine, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, right)


def test_a_training_step_needs_the_planned_bytes(decisions: list[Decision]) -> None:
    network, x = Sorted(), torch.randn(128, 64)

    def step() -> None:
        network.zero_grad()
        first, second, _ = compiled(x)
        (first.sum() + second.sum()).backward()

    settings = {**QUICK_KERNELS, "cpp_wrapper": True}
    with config.patch(settings), enabled(time_limit=2, min_gain=0):
        compiled = torch.compile(network)
        step()
        calls = measure_calls(step)
    assert [call.peak for call in calls] == [d.best.peak - d.start for d in decisions]
    assert decisions[1].gains
