"""Symbolic sizes whose range the program states: the worst of the range is simulated, too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import nn  # noqa: E402
from torch._inductor import config  # noqa: E402
from torch.nn import functional as F  # noqa: E402,N812

from optsched import plugins  # noqa: E402
from optsched.plugins.gain import MinGain  # noqa: E402
from optsched.plugins.inductor import options  # noqa: E402
from optsched.plugins.inductor.orders.candidates import Decision  # noqa: E402
from optsched.plugins.inductor.orders.choice import Choice  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, QUICK_KERNELS, no_kernels  # noqa: E402
from tests.support.planned_calls import PlannedCall, plan_and_measure  # noqa: E402

FEW, MANY = 16, 128
WIDTH = 32


def layers() -> Any:
    parts = [nn.Linear(WIDTH, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, WIDTH)]
    return nn.Sequential(*parts), lambda rows: torch.randn(rows, WIDTH)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Any) -> Any:
        q, k, v = self.mix(x).chunk(3, -1)
        weights = (q @ k.transpose(0, 1)).softmax(-1)
        return F.relu(weights @ v) * x


def attention() -> Any:
    """Weights are quadratic in the number of rows: at many rows the peak lies elsewhere."""
    return Attention(), lambda rows: torch.randn(rows, WIDTH)


def convolutions() -> Any:
    parts = [nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)]
    return nn.Sequential(*parts), lambda rows: torch.randn(rows, 3, 9, 9)


def growing(make: Callable[[], Any], most: int | None = MANY) -> Callable[[], Any]:
    """Return a step that is compiled with few rows and then runs with many."""

    def begin() -> Any:
        net, draw = make()
        compiled, rows = torch.compile(net), [FEW]

        def step() -> None:
            x = draw(rows[0])
            torch._dynamo.mark_dynamic(x, 0, **({} if most is None else {"min": FEW, "max": most}))
            compiled(x).square().mean().backward()
            rows[0] = MANY

        return step

    return begin


def plan(make: Callable[[], Any], most: int | None = MANY) -> list[PlannedCall]:
    return plan_and_measure(growing(make, most), worst=True, split=False)


@pytest.mark.parametrize("make", [layers, attention, convolutions], ids=lambda f: f.__name__)
def test_the_worst_of_a_range_is_what_the_largest_call_needs(make: Callable[[], Any]) -> None:
    calls = plan(make)
    assert len(calls) == 2
    for call in calls:
        assert call.is_measured, call
        assert call.plan is not None
        own, ours = (found.peak for found in call.plan)
        assert ours <= own
        (said,) = re.findall(r"upper ends of its sizes ([\d,]+) bytes", call.record.note)
        assert int(said.replace(",", "")) == ours
        assert call.record.before is not None
        assert own > call.record.before


def test_without_an_upper_end_nothing_is_said_of_a_range() -> None:
    assert not [c for c in plan(layers, None) if "upper ends" in c.record.note]


def test_an_order_that_is_worse_at_the_upper_end_is_not_taken() -> None:
    own = Choice("inductor", (0, 1), True, 100, worst=900)
    less, more = (Choice("dfs", (1, 0), True, 90, worst=worst) for worst in (900, 901))
    assert less.needs_no_more(own)
    assert not more.needs_no_more(own)
    same = Choice("dfs", (1, 0), True, 100, worst=800)
    for size, gains in ((100, True), (101, False)):
        assert Decision(own, same, True, None, "", 0.0, MinGain(size=size)).gains is gains


class Rows(nn.Module):
    """Wide results whose rows are split into four, so that sizes depend on that of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(WIDTH, 256) for _ in range(3))
        self.mix = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        self.down = nn.ModuleList(nn.Linear(256, WIDTH) for _ in range(3))

    def forward(self, x: Any) -> Any:
        for up, mix, down in zip(self.up, self.mix, self.down, strict=True):
            y = (torch.tanh(up(x)) * torch.sigmoid(up(x))).reshape(x.shape[0] * 4, 64)
            x = x + down(torch.tanh(mix(y)).reshape(x.shape[0], 256))
        return x


def gradients(net: Any, run: Any, rows: int) -> list[Any]:
    torch.manual_seed(rows)
    net.zero_grad(set_to_none=True)
    x = torch.randn(rows, WIDTH)
    torch._dynamo.mark_dynamic(x, 0, min=FEW, max=MANY)
    out = run(x)
    out.square().mean().backward()
    return [out.detach(), *(p.grad for p in net.parameters())]


@pytest.mark.slow
def test_a_peak_holds_for_all_sizes_of_a_range() -> None:
    torch._dynamo.reset()
    plugins.forget()
    torch.manual_seed(0)
    net, peak = Rows(), 1_300_000
    measured = []
    with config.patch(QUICK_KERNELS):
        how = options(peak=peak, time_limit=3, measure=True)
        compiled = torch.compile(net, options=how)
        for rows in (FEW, MANY, 77):
            wanted = gradients(net, net, rows)
            for ours, other in zip(gradients(net, compiled, rows), wanted, strict=True):
                torch.testing.assert_close(ours, other)
            measured.append([record.measured or 0 for record in plugins.records()[1:]])
    joint, *graphs = plugins.records()
    assert joint.before is not None
    assert joint.before > peak
    assert joint.answer.startswith(f"fits {peak:,} bytes: {joint.after:,} instead of ")
    assert "(0 ops" not in joint.answer
    assert re.fullmatch(r"planned for all sizes up to \w+ = 128", joint.note)
    # Compiled for few rows, the graphs hold with many what the split was said to need.
    few, many, *_ = measured
    assert max(many) == joint.after
    assert 0 < max(few) < max(many)
    assert not any("may need within the peak" in graph.note for graph in graphs)


def test_a_peak_for_sizes_without_an_upper_end_is_refused() -> None:
    torch._dynamo.reset()
    plugins.forget()
    net, x = Rows(), torch.randn(FEW, WIDTH)
    torch._dynamo.mark_dynamic(x, 0)
    with no_kernels(), config.patch(NO_CACHE):
        torch.compile(net, options=options(peak=300_000, time_limit=1))(x).sum().backward()
    reason = plugins.records()[0].reason
    assert "has a symbolic size without an upper end: state it" in reason
