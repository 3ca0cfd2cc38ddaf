"""Memory of extern kernels is planned: scratch, undeclared views, copies of full storages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import nn  # noqa: E402

from optsched import plugins  # noqa: E402
from tests.support.planned_calls import plan_and_measure  # noqa: E402

Step = Callable[[], object]


def spectral() -> Step:
    """Two layers in Fourier space: views of complex numbers, whose full storage is copied."""
    weights = [torch.randn(4, 4, 4, 4, 2, requires_grad=True) for _ in range(2)]

    def model(x: Any) -> Any:
        for weight in map(torch.view_as_complex, weights):
            modes = torch.fft.rfft2(x)[:, :, :4, :4]
            filtered = torch.zeros(2, 4, 16, 9, dtype=torch.cfloat)
            filtered[:, :, :4, :4] = torch.einsum("bixy,ioxy->boxy", modes, weight)
            x = torch.fft.irfft2(filtered, s=(16, 16)) + x
        return x

    compiled, x = torch.compile(model), torch.randn(2, 4, 16, 16)
    return lambda: compiled(x).square().mean().backward()


def conjugated() -> Step:
    """A product copies an operand that is still to be conjugated."""

    def model(x: Any, y: Any) -> Any:
        z = torch.complex(x, y)
        return torch.view_as_real(z @ z.mH).sum(0), (z.conj() * z + z.conj()).imag

    compiled, x, y = torch.compile(model), torch.randn(16, 24), torch.randn(16, 24)

    def step() -> None:
        with torch.no_grad():
            compiled(x, y)

    return step


def half_precision() -> Step:
    """A product of bfloat16 matrices has scratch on some processors."""
    net = nn.Sequential(nn.Linear(32, 96), nn.GELU(), nn.Linear(96, 32), nn.LayerNorm(32))
    compiled, x = torch.compile(net), torch.randn(16, 32)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            output = compiled(x)
        output.float().square().mean().backward()

    return step


def positions() -> Step:
    """Gradients of rows that are chosen by position are put back by kernels with scratch."""
    table = nn.Embedding(40, 16)
    places = torch.arange(24) % 40

    def model(x: Any) -> Any:
        rows = table(places).to(torch.bfloat16)
        spread = torch.zeros(24, 16).scatter_reduce(0, x.long().abs() % 24, x, "amax")
        return rows.float()[places % 24].cumsum(0) + spread

    compiled, x = torch.compile(model), torch.randn(24, 16)
    return lambda: compiled(x).square().mean().backward()


def masked() -> Step:
    """Attention takes its mask by keyword, and has scratch."""
    mix = nn.Linear(64, 192)
    mask = torch.zeros(64, 64).masked_fill(torch.ones(64, 64).triu(1) > 0, -torch.inf)

    def model(x: Any) -> Any:
        q, k, v = (y.unflatten(-1, (4, 16)).transpose(1, 2) for y in mix(x).chunk(3, -1))
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    compiled, x = torch.compile(model), torch.randn(8, 64, 64)
    return lambda: compiled(x).square().mean().backward()


def unread() -> Step:
    """Nobody asks for the positions, but the tuple that a sort returns holds them."""
    compiled, x = torch.compile(lambda x: x.sort(1)[0].cumsum(1)), torch.randn(16, 24)

    def step() -> None:
        with torch.no_grad():
            compiled(x)

    return step


@pytest.mark.parametrize("make", [spectral, conjugated, half_precision, positions, masked, unread])
def test_planned_is_measured(make: Callable[[], Step]) -> None:
    calls = plan_and_measure(make)
    assert calls
    assert all(call.is_as_planned for call in calls), calls
    assert all(call.record.bound <= call.record.after for call in calls if call.record.bound)
    assert not any(call.record.note for call in calls)


def test_a_kernel_that_is_not_called_is_named() -> None:
    """Operators of other packages are not called to measure them."""
    with contextlib.ExitStack() as stack:
        library = stack.enter_context(torch.library._scoped_library("optsched_test", "FRAGMENT"))
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CPU")
        library.impl("twice", torch.empty_like, "Meta")
        twice = torch.ops.optsched_test.twice

        def make() -> Step:
            compiled, x = torch.compile(lambda x: twice(x.sin()).cos()), torch.randn(16, 16)
            return lambda: compiled(x)

        (call,) = plan_and_measure(make)
    assert call.is_as_planned
    assert "allocate while they run is not counted: torch.ops.optsched_test" in call.record.note
    assert call.record.note in plugins.explain()
