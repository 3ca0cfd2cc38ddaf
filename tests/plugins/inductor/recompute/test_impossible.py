"""A peak below what a call returns is refused at once, with the bytes in the way."""

from __future__ import annotations

from typing import Any

import pytest

from optsched import plugins

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch._inductor import config  # noqa: E402

from optsched.plugins.inductor import enabled  # noqa: E402
from optsched.plugins.inductor.recompute.joint_step import JointStep  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402


@pytest.mark.parametrize(
    ("width", "peak", "words"),
    [
        # A weight of 64 x 256 and one of 256 x 8, and their biases.
        (8, 70_000, "the gradients alone need 74,784"),
        # 1,000 results of 2,048 floats; the gradients need less.
        (2048, 4_000_000, "the results of the forward graph alone need 8,192,000"),
    ],
)
def test_bytes_in_the_way_are_named(
    width: int, peak: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JointStep, "memory", lambda *_: pytest.fail("a split was simulated"))
    torch._dynamo.reset()
    plugins.forget()
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, width)
    )
    with no_kernels(), config.patch(NO_CACHE), enabled(peak=peak, time_limit=60):
        compiled: Any = torch.compile(network)
        compiled(torch.randn(1000, 64)).square().mean().backward()
    (record,) = (r for r in plugins.records() if "joint" in r.name)
    assert record.answer == f"no step fits {peak:,} bytes: {words}"
    assert record.seconds < 5
    assert record.answer in plugins.explain()
