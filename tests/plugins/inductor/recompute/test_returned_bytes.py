"""Results that a forward graph returns and saves: they are live while the backward graph runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from optsched import plugins

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import nn  # noqa: E402
from torch._inductor import config  # noqa: E402

from optsched.plugins.inductor import enabled  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402

LOGITS = 64 * 500 * 4
"""Bytes of the logits."""


class Language(nn.Module):
    """Layers and a loss of logits, which are returned as well: the loss saves them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.head = nn.Linear(32, 500)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        logits = self.head(x)
        return logits.square().mean(), logits


@pytest.mark.parametrize("holds", [False, True], ids=["dropped", "held by the program"])
@pytest.mark.parametrize("part", [1.0, 0.995])
def test_a_step_holds_no_more_than_it_is_said_to_fit(holds: bool, part: float) -> None:
    said = run(peak="100MiB", holds=holds)[0]
    # Just below what PyTorch's split needs, it needs another split, or does not fit.
    fits, measured = run(peak=int(said * part), holds=holds)
    assert fits is None or measured <= fits
    assert said > 2 * LOGITS


class Shown(Language):
    """The backward graph does not read the logits that are returned, so no plan counts them."""

    def forward(self, x: Any) -> Any:
        _, logits = super().forward(x)
        return torch.softmax(logits, -1)[:, 0].sum(), logits.round()


@pytest.mark.parametrize("peak", ["90%", "min"])
def test_results_that_the_program_holds_count_once_a_step_was_measured(peak: str) -> None:
    torch._dynamo.reset()
    plugins.forget()
    torch.manual_seed(0)
    with no_kernels(), config.patch(NO_CACHE), enabled(peak=peak, time_limit=2):
        step = torch.compile(Shown())
        x = torch.randn(64, 32)
        for _ in range(5):
            loss, logits = step(x)
            loss.backward()
    line = plugins.explain().splitlines()[-1]
    pattern = r"step of 1 call of 1 graph: asked (min|90% \(([\d,]+) bytes\)), held ([\d,]+) as"
    found = re.match(pattern, line)
    assert found, plugins.explain()
    asked, held = (int((x or "0").replace(",", "")) for x in found.groups()[1:])
    assert logits.nbytes < held
    assert peak == "min" or held <= asked
    assert "no choice" not in line


def run(peak: Any, holds: bool) -> tuple[Any, int]:
    """Return the bytes that the step is said to fit, and those that its graphs held.

    What the program holds itself is counted beside the backward graph.
    """
    torch._dynamo.reset()
    plugins.forget()
    torch.manual_seed(0)
    module = Language()
    with (
        no_kernels(),
        config.patch(NO_CACHE),
        enabled(peak=peak, time_limit=2, measure=True),
    ):
        step = torch.compile(module)
        x = torch.randn(64, 32)
        for _ in range(6):
            loss, logits = step(x)
            if not holds:
                del logits
            loss.backward()
    (joint,) = [row for row in plugins.records() if row.name.endswith("joint")]
    graphs = [row for row in plugins.records() if not row.name.endswith("joint")]
    found = re.match(r"fits [\d,]+ bytes: ([\d,]+)", joint.answer)
    beside = LOGITS if holds else 0
    assert all(row.measured for row in graphs)
    measured = [(row.measured or 0) + beside * row.name.endswith("backward") for row in graphs]
    return found and int(found[1].replace(",", "")), max(measured)
