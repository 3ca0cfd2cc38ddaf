"""Random training steps: the loss inside and outside, breaks, several outputs, half precision."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.support.random_modules import RandomModule

KINDS = ("plain", "breaks", "outputs", "bfloat16", "complex", "dynamic")
LOSSES = ("inside", "outside", "held", "passed")
"""Place of the loss; if the program keeps its outputs; gradients that it passes itself."""


class StepModule(RandomModule):
    """A random program that returns some of its values, or a loss of them."""

    rows = 48
    widths = (32, 64, 96)

    def __init__(self, seed: int, ops: int, kind: str) -> None:
        self.kind = kind
        super().__init__(seed, ops)
        count = len(self.shapes)
        self.returned = sorted({count - 1, *self.choose.sample(range(2, count), 2)})
        if kind != "outputs":
            self.returned = self.returned[-1:]

    def kinds(self) -> list[Any]:
        """Return the kinds of any random module that fit, and convolutions and recomputation."""
        # Both have tensors with a fixed number of rows.
        fixed = [self._scatter, self._remember] if self.kind == "dynamic" else []
        added = [self._convolve, self._recompute]
        if self.kind == "complex":
            added += [self._filter, self._rotate] * 3
        return [kind for kind in super().kinds() if kind not in fixed] + added

    def forward(self, *inputs: Any) -> Any:
        """Run the program; with graph breaks after each third of it."""
        third = -(-len(self.program) // 3) if self.kind == "breaks" else len(self.program)
        values = self._run(list(inputs), 0, third)
        if self.kind == "breaks":
            torch._dynamo.graph_break()
            values = self._run(values, third, 2 * third)
            torch._dynamo.graph_break()
            values = self._run(values, 2 * third, len(self.program))
        return [values[i] for i in self.returned]

    def _run(self, values: list[Any], begin: int, end: int) -> list[Any]:
        for op in self.program[begin:end]:
            values.append(op(values))
        return values

    def _convolve(self) -> Callable[[list[Any]], Any]:
        i = self._operand()
        self.shapes.append(self.shapes[i])
        weight = torch.nn.Conv1d(1, 1, 5, padding=2)
        self.layers.append(weight)
        return lambda values: weight(values[i][:, None])[:, 0]

    def _recompute(self) -> Callable[[list[Any]], Any]:
        i = self._operand()
        self.shapes.append(self.shapes[i])

        def block(x: Any) -> Any:
            return functional.gelu(x).sin() * torch.softmax(x, 1)

        return lambda values: checkpoint(block, values[i], use_reentrant=False)

    def _filter(self) -> Callable[[list[Any]], Any]:
        i = self._operand()
        width = self.shapes[i]
        self.shapes.append(width)

        def pass_some(values: list[Any]) -> Any:
            modes = torch.fft.rfft(values[i].float(), dim=1)
            # High frequencies are dropped, as in Fourier neural operators.
            kept = torch.zeros_like(modes)
            kept[:, : width // 4] = modes[:, : width // 4] * 0.5
            return torch.fft.irfft(kept, n=width, dim=1)

        return pass_some

    def _rotate(self) -> Callable[[list[Any]], Any]:
        i = self._operand()
        width = self.shapes[i]
        self.shapes.append(width)

        def rotate(values: list[Any]) -> Any:
            pairs = torch.view_as_complex(values[i].float().reshape(-1, width // 2, 2))
            turned = pairs.conj() * pairs[:, :1] + pairs
            return torch.view_as_real(turned).reshape(-1, width)

        return rotate


@dataclass(frozen=True)
class RandomStep:
    """A random training step."""

    seed: int
    """Equal seeds give equal steps; they go through all kinds, and all losses of each."""
    ops: int = 10
    """Of its module."""

    @property
    def kind(self) -> str:
        """Return what is special in the step."""
        return KINDS[self.seed % len(KINDS)]

    @property
    def loss(self) -> str:
        """Return where its loss is taken."""
        return LOSSES[self.seed // len(KINDS) % len(LOSSES)]

    def make(self) -> Callable[[], object]:
        """Return the step, to be compiled when it first runs."""
        module = StepModule(self.seed, self.ops, self.kind)
        run = _with_loss(module) if self.loss == "inside" else module
        compiled = torch.compile(run, dynamic=True if self.kind == "dynamic" else None)
        tensors = [*module.parameters(), *module.inputs]
        for given in module.inputs:
            # Gradients of inputs too, so that the backward graph has no dead end.
            given.requires_grad_()
        gradients = [torch.randn(module.rows, module.shapes[i]) for i in module.returned]

        def step() -> object:
            for tensor in tensors:
                tensor.grad = None
            half = torch.autocast("cpu", torch.bfloat16)
            with half if self.kind == "bfloat16" else contextlib.nullcontext():
                outputs = compiled(*module.inputs)
            return _go_back(self.loss, outputs, gradients)

        return step


def _with_loss(module: StepModule) -> Callable[..., Any]:
    return lambda *inputs: sum(value.float().square().mean() for value in module(*inputs))


def _go_back(loss: str, outputs: Any, gradients: list[Any]) -> object:
    if loss == "inside":
        outputs.backward()
    elif loss == "passed":
        torch.autograd.backward(
            outputs, [g.to(value.dtype) for g, value in zip(gradients, outputs, strict=True)]
        )
    else:
        # A program that keeps its outputs owns their bytes during the backward pass.
        held = outputs if loss == "held" else None
        total = sum(value.float().square().mean() for value in outputs)
        del outputs
        total.backward()
        return held
    return None
