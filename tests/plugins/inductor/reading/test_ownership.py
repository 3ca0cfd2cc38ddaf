"""Inputs that go while a backward graph runs: those that its call alone holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import nn  # noqa: E402

from optsched import plugins  # noqa: E402
from optsched.plugins.inductor.reading.live_arguments import _find_shared, _storage  # noqa: E402
from tests.support.planned_calls import plan_and_measure  # noqa: E402

BATCH, WIDTH = 16, 32
OUTPUT = BATCH * WIDTH * 4
"""Bytes of the output, and of its gradient."""

Step = Callable[[], object]


def network() -> Any:
    """A net that saves its output: the gradient of `tanh` needs it."""
    layers = [nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, WIDTH)]
    return nn.Sequential(*layers, nn.Tanh())


def loss_inside() -> Step:
    net, x = network(), torch.randn(BATCH, WIDTH)
    compiled = torch.compile(lambda x: net(x).square().sum())
    return lambda: compiled(x).backward()


def loss_outside() -> Step:
    compiled, x = torch.compile(network()), torch.randn(BATCH, WIDTH)
    return lambda: compiled(x).square().mean().backward()


def output_held(dynamic: bool | None = None) -> Step:
    compiled, x = torch.compile(network(), dynamic=dynamic), torch.randn(BATCH, WIDTH)

    def step() -> object:
        output = compiled(x)
        output.square().mean().backward()
        return output

    return step


def symbolic() -> Step:
    return output_held(dynamic=True)


def gradient_passed() -> Step:
    compiled, x = torch.compile(network()), torch.randn(BATCH, WIDTH)
    gradient = torch.randn(BATCH, WIDTH)
    return lambda: compiled(x).backward(gradient)


def broken(first: Any, second: Any, x: Any) -> Step:
    @torch.compile
    def model(x: Any) -> Any:
        hidden = first(x)
        torch._dynamo.graph_break()
        return second(hidden)

    return lambda: model(x).square().mean().backward()


def graph_break() -> Step:
    return broken(network(), network(), torch.randn(BATCH, WIDTH))


def graph_break_behind_a_view() -> Step:
    """The gradient that crosses the break is a view, whose base autograd made for it alone."""
    second = nn.Sequential(nn.LayerNorm(WIDTH), network())
    return broken(network(), second, torch.randn(4, BATCH // 4, WIDTH))


def one_gradient_of_two_outputs() -> Step:
    first, second, x = network(), network(), torch.randn(BATCH, WIDTH)
    compiled = torch.compile(lambda x: (first(x), second(x)))

    def step() -> None:
        one, other = compiled(x)
        (one + other).square().mean().backward()

    return step


STEPS = [
    loss_inside,
    loss_outside,
    output_held,
    gradient_passed,
    graph_break,
    graph_break_behind_a_view,
    one_gradient_of_two_outputs,
    symbolic,
]


@pytest.mark.parametrize("make", STEPS, ids=lambda make: make.__name__)
def test_what_goes_within_the_call_is_planned_so(make: Callable[[], Step]) -> None:
    calls = plan_and_measure(make)
    assert {call.record.name.split()[1] for call in calls} == {"forward", "backward"}
    assert all(call.is_as_planned for call in calls), calls
    # What follows the first part is about the upper ends of sizes with a range.
    notes = {call.record.note.partition("; at the upper ends")[0] for call in calls} - {""}
    # Compiled before it is called: the gradient and the saved output may be the caller's or not.
    expected = {f"its caller may hold {3 * OUTPUT:,} bytes more or fewer"}
    assert notes == (expected if make is symbolic else set())


def test_the_call_releases_what_it_alone_holds() -> None:
    """A gradient and an output that the program holds stay; that is what the counts tell."""
    held = _released(gradient_passed)
    assert _released(output_held) - held == OUTPUT
    assert _released(loss_outside) - held == 2 * OUTPUT


def _released(make: Callable[[], Step]) -> int:
    (_, backward) = plan_and_measure(make)
    return backward.stock.released


def shared(make: Callable[[], tuple[list[Any], object]]) -> list[bool]:
    """Return for each argument if something beside the call refers to its storage."""
    arguments, kept = make()
    found = _find_shared(arguments)
    del kept
    return [_storage(argument) in found for argument in arguments]


def held_by_the_call() -> tuple[list[Any], object]:
    base = torch.empty(4, 4)
    parts = [base[:2], base.view(16)]
    del base
    whole = torch.empty(6)
    arguments = [torch.empty(3), torch.empty(8).view(2, 4), *parts, whole, whole.view(3, 2)]
    return [*arguments, arguments[0]], None


def held_elsewhere() -> tuple[list[Any], object]:
    """By a name, by the name of a base, by a name of another view, by C++ alone."""
    named, base, other = torch.empty(3), torch.empty(8), torch.empty(8)
    part, saved = other[:4], torch.empty(5, requires_grad=True)
    arguments = [named, base.view(2, 4), other.view(4, 2), saved.detach()]
    output = saved * saved
    return arguments, (named, base, part, output)


def test_views_that_the_call_alone_holds_go_with_their_base() -> None:
    assert shared(held_by_the_call) == [False] * 7
    assert shared(held_elsewhere) == [True] * 4


class Heads(nn.Module):
    """A trunk and heads, whose losses are taken outside."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(16, 32), nn.GELU())
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 4 + k)) for k in range(4)
        )

    def forward(self, x: Any) -> Any:
        x = self.trunk(x)
        return [head(x) for head in self.heads]


def losses_outside() -> Step:
    compiled, x = torch.compile(Heads()), torch.randn(16, 16)
    return lambda: sum(y.square().mean() for y in compiled(x)).backward()


def test_losses_outside_of_the_model() -> None:
    """Gradients that count as the caller's made a worse order look like a gain."""
    calls = plan_and_measure(losses_outside)
    assert all(call.is_as_planned for call in calls)
    assert all(call.ours.rise <= call.stock.rise for call in calls)


def test_a_small_gain_is_left_and_explained() -> None:
    (_, backward) = plan_and_measure(losses_outside, min_gain="1MiB")
    assert backward.ours.rise == backward.stock.rise
    assert "bytes only, the minimum gain is 1.0 MiB" in plugins.explain()
    (_, backward) = plan_and_measure(losses_outside)
    assert backward.ours.rise < backward.stock.rise
