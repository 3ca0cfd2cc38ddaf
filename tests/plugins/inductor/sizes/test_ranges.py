"""Symbolic sizes whose range the program states: the worst of the range is simulated, too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402,N812

from optsched.plugins.gain import MinGain  # noqa: E402
from optsched.plugins.inductor.orders.candidates import Decision  # noqa: E402
from optsched.plugins.inductor.orders.choice import Choice  # noqa: E402
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
