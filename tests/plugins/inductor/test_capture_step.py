"""The joint graph of an eager model's training step, as PyTorch's own partitioner gets it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="captures need torch: pip install '.[torch]'")

from optsched import Graph, capture_step, recompute, solve  # noqa: E402
from optsched.errors import FormatError, UsageError  # noqa: E402
from optsched.model.training import find_loss, forward_ops  # noqa: E402


def mlp() -> Any:
    layers = (torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))
    return torch.nn.Sequential(*layers)


def pair() -> Any:
    return torch.randn(32, 16), torch.randint(4, (32,))


def ops_of(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


def test_a_step_has_a_loss_and_the_gradients_of_all_parameters() -> None:
    model = mlp()
    graph = capture_step(model, pair(), torch.nn.CrossEntropyLoss())
    outputs = [b.size for b in graph.buffers if b.output is not None]
    # Storages of views of gradients are as large as the gradients.
    assert sorted(outputs) == sorted([4, *(4 * p.numel() for p in model.parameters())])
    loss = find_loss(graph)
    assert len(loss) == 1
    assert 0 < len(forward_ops(graph, loss)) < len(graph.ops)


def test_repeats_lower_its_peak_below_every_order() -> None:
    model = torch.nn.Sequential(
        *(x for _ in range(4) for x in (torch.nn.Linear(64, 64), torch.nn.GELU()))
    )
    graph = capture_step(model, torch.randn(2048, 64), lambda y: y.sum())
    least = solve(graph, objective="peak").peak
    found = recompute(graph, peak=least - 1, time_limit=5)
    assert found.sequence is not None
    assert found.extra > 0
    assert found.peak < least


def test_forms_of_a_batch_give_one_graph() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 4)

        def forward(self, x: Any, scale: float = 1.0) -> Any:
            return (self.layer(x) * scale).sum()

    model, x = Model(), torch.randn(8, 16)
    forms = [x, (x,), {"x": x}, (x, 1.0), {"x": x, "scale": 1.0}]
    assert len({tuple(ops_of(capture_step(model, form))) for form in forms}) == 1


def test_a_loss_that_the_model_returns_is_found() -> None:
    class Output(dict[str, Any]):
        @property
        def loss(self) -> Any:
            return self["loss"]

    class Returning(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            return Output(loss=self.layer(x).sum())

    assert len(find_loss(capture_step(Returning(), torch.randn(8, 16)))) == 1


def test_tensors_that_a_loss_or_a_model_holds_are_the_callers() -> None:
    """Labels in a closure and an unregistered mask add no bytes to the peak."""
    model, (inputs, labels) = mlp(), pair()
    given = capture_step(model, (inputs, labels), torch.nn.CrossEntropyLoss())
    held = capture_step(model, inputs, lambda y: torch.nn.functional.cross_entropy(y, labels))
    assert solve(given).peak == solve(held).peak
    assert ops_of(given) == ops_of(held)

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.mask = torch.nn.Linear(16, 4), torch.ones(4)

        def forward(self, x: Any) -> Any:
            return (self.layer(x) * self.mask).sum()

    masked = capture_step(Masked(), torch.randn(8, 16))
    assert not any("constant" in masked.buffers[b].name for op in masked.ops for b in op.writes)


def test_a_weight_with_two_names_has_one_gradient() -> None:
    tied = torch.nn.Sequential(torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50, bias=False))
    tied[1].weight = tied[0].weight
    graph = capture_step(tied, torch.randint(50, (4, 7)), lambda y: y.sum())
    assert sorted(b.size for b in graph.buffers if b.output is not None) == [4, 4 * 50 * 16]


def test_a_compiled_model_is_traced_as_it_is_in_eager_mode() -> None:
    def traced(model: Any) -> Graph:
        return capture_step(model, pair(), torch.nn.CrossEntropyLoss())

    plain, model = mlp(), mlp()
    part = torch.nn.Sequential(plain[0], torch.compile(plain[1]), plain[2])
    model.compile()
    for compiled in (torch.compile(plain), part, model):
        assert solve(traced(compiled)).peak == solve(traced(plain)).peak
    assert traced(torch.compile(plain)) == traced(plain)


def test_a_gpu_need_not_exist() -> None:
    here, there = (
        capture_step(mlp(), pair(), torch.nn.CrossEntropyLoss(), fake_cuda=fake)
        for fake in (False, True)
    )
    assert [b.size for b in here.buffers] == [b.size for b in there.buffers]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: capture_step("model", 1), UsageError, "model must be a torch.nn.Module, got str"),
        (
            lambda: capture_step(mlp(), torch.randn(32, 16)),
            UsageError,
            r"the loss must be one number, but it is of shape \[32, 4\]: give a function as loss",
        ),
        (
            lambda: capture_step(mlp(), torch.randn(32, 16), torch.nn.CrossEntropyLoss()),
            UsageError,
            r"batch must be a pair \(inputs, target\)",
        ),
        (
            lambda: capture_step(torch.nn.ReLU(), torch.randn(4), lambda y: y.sum()),
            UsageError,
            "the loss does not depend on a parameter that requires a gradient",
        ),
        (
            lambda: capture_step(mlp(), torch.randn(32, 17), lambda y: y.sum()),
            FormatError,
            "cannot trace a step of Sequential: ",
        ),
        (
            lambda: capture_step(mlp(), torch.randn(32, 16), lambda y: y.sum() / y.sum().item()),
            FormatError,
            "op aten._local_scalar_dense.default makes a number or a size of values that only",
        ),
    ],
)
def test_wrong_calls_are_one_line(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
