"""Steps of several compiled regions within a peak: what is held is measured, bits stay near."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._functorch import config as functorch_config  # noqa: E402
from torch._inductor import config  # noqa: E402
from torch._inductor.utils import fresh_cache  # noqa: E402

from optsched import plugins  # noqa: E402
from optsched.plugins.inductor import options  # noqa: E402
from optsched.plugins.inductor.recompute.step_front import SplitFront  # noqa: E402
from optsched.plugins.inductor.sizes.meter import missing_counter  # noqa: E402
from tests.support.compiled_memory import QUICK_KERNELS  # noqa: E402

pytestmark = pytest.mark.skipif(bool(missing_counter("cpu")), reason="needs Linux and cc")


class Block(nn.Module):
    """A wide layer between two narrow ones, as a region of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, width), nn.Linear(width, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.sigmoid(self.up(x)) * torch.tanh(x.sum(1, keepdim=True)))


@pytest.fixture(autouse=True)
def own_cache() -> Iterator[None]:
    """A cache of PyTorch that holds nothing yet, as splits of earlier processes are kept there."""
    with fresh_cache():
        torch._dynamo.reset()
        plugins.forget()
        yield


def gradients(blocks: nn.ModuleList, regions: list[nn.Module]) -> list[torch.Tensor]:
    torch.manual_seed(1)
    blocks.zero_grad()
    x = torch.randn(256, 64, requires_grad=True)
    for region in regions:
        x = region(x)
    x.square().mean().backward()
    return [p.grad for p in blocks.parameters() if p.grad is not None]


@pytest.mark.slow
@pytest.mark.parametrize("peak", [1_600_000, "min"])
def test_a_step_of_three_regions_holds_what_is_asked(peak: int | str) -> None:
    torch._dynamo.reset()
    plugins.forget()
    torch.manual_seed(0)
    blocks = nn.ModuleList(Block(width) for width in (256, 256, 512))
    wanted = [x.clone() for x in gradients(blocks, [*blocks])]
    with config.patch(QUICK_KERNELS), functorch_config.patch(enable_autograd_cache=False):
        how = options(peak=peak, time_limit=2)
        regions = [torch.compile(block, options=how) for block in blocks]
        first = [gradients(blocks, regions) for _ in range(2)]
        before = plugins.explain().splitlines()[-1]
        later = [gradients(blocks, regions) for _ in range(3)]
    line = plugins.explain().splitlines()[-1]
    assert line.startswith("step of 3 calls of 2 graphs: asked "), line
    held = [int(re.findall(r"held ([0-9,]+)", x)[0].replace(",", "")) for x in (before, line)]
    least = int(re.findall(r"splits is ([0-9,]+) bytes", line)[0].replace(",", ""))
    assert held[1] <= (peak if isinstance(peak, int) else least)
    assert held[1] < held[0]
    for found in (*first, *later):
        for one, other in zip(wanted, found, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("peak", [100_000, 700_000])
def test_an_impossible_step_is_refused_once_it_is_measured(peak: int) -> None:
    """Be a graph impossible alone, or in the step only, its products are in the way."""
    torch.manual_seed(0)
    blocks = nn.ModuleList(Block(width) for width in (256, 256, 512))
    with (
        config.patch(QUICK_KERNELS),
        functorch_config.patch(enable_autograd_cache=False),
        mock.patch.object(SplitFront, "fill", side_effect=AssertionError),
    ):
        regions = [torch.compile(x, options=options(peak=peak, time_limit=1)) for x in blocks]
        # What these ops save is held beside the calls, and each block alone fits the larger peak.
        calls = [*regions[:2], torch.tanh, torch.exp, regions[2]]
        gradients(blocks, calls)
        begun = time.process_time()
        for _ in range(4):
            gradients(blocks, calls)
        assert time.process_time() - begun < 5
    line = plugins.explain().splitlines()[-1]
    assert line.startswith(f"step of 3 calls of 2 graphs: asked {peak:,} bytes, held "), line
    assert ", as no choice of splits fits: in the backward graph of " in line
    assert re.search(r" op 'mm_\d+' alone reads and writes [0-9,]+", line)


@pytest.mark.slow
def test_a_single_graph_takes_a_percentage_and_the_least() -> None:
    torch.manual_seed(0)
    blocks, x = nn.Sequential(Block(256), Block(512)), torch.randn(256, 64)

    def planned(peak: int | str) -> int:
        torch._dynamo.reset()
        plugins.forget()
        with config.patch(QUICK_KERNELS), functorch_config.patch(enable_autograd_cache=False):
            compiled = torch.compile(blocks, options=options(peak=peak, time_limit=2))
            for _ in range(3):
                compiled(x).square().mean().backward()
        assert "step of" not in plugins.explain()
        return max(row.planned or 0 for row in plugins.records() if "joint" not in row.name)

    least = planned("min")
    assert least < planned("80%") < planned("100%")
    # Bytes that are asked for find no smaller step.
    for part in (97, 90, 75):
        assert planned(least * part // 100) >= least


SCRIPT = """
import sys, torch
from optsched import plugins
from optsched.plugins.inductor import options
from tests.frameworks.inductor.test_step_peak import Block, gradients
from tests.support.compiled_memory import QUICK_KERNELS
count, peak = map(int, sys.argv[1:])
torch.manual_seed(0)
blocks = torch.nn.ModuleList(Block(256) for _ in range(count))
wanted = [x.clone() for x in gradients(blocks, [*blocks])]
quick = {**QUICK_KERNELS, "force_disable_caches": False}
with torch._inductor.config.patch(quick):
    regions = [torch.compile(x, options=options(peak=peak, time_limit=2)) for x in blocks]
    for _ in range(7):
        for one, other in zip(wanted, gradients(blocks, regions), strict=True):
            torch.testing.assert_close(one, other)
print(plugins.explain().splitlines()[-1])
"""


@pytest.mark.slow
def test_a_later_process_begins_with_the_splits_of_an_earlier_one() -> None:
    """With PyTorch's caches on; a model with more such layers gets a choice of its own."""

    def line(count: int) -> str:
        argv = [sys.executable, "-c", SCRIPT, str(count), "1600000"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600)
        found = done.stdout.splitlines()[-1]
        assert found.startswith(f"step of {count} calls of 1 graph: asked 1,600,000 bytes, held ")
        held = re.findall(r"held ([0-9,]+)", found)[0]
        assert int(held.replace(",", "")) <= 1_600_000, found
        return found

    assert "with their splits" in line(3)
    assert line(3).endswith("with the splits that an earlier process chose")
    assert "with their splits" in line(4)
