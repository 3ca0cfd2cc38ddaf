"""The table of all steps by name.

A step is made by a function without arguments, which returns what runs once per iteration. It is
compiled when it first runs, with `torch.compile` as a program would use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

Step = Callable[[], object]
STEPS: dict[str, Callable[[], Step]] = {}


def step(make: Callable[[], Step]) -> Callable[[], Step]:
    """Enter a step in the table under the name of the function that makes it."""
    STEPS[make.__name__] = make
    return make


def module_step(name: str, make: Callable[[], torch.nn.Module], *shapes: Any) -> None:
    """Enter the training step of a module: floating-point inputs of these shapes, mean of squares.

    A shape may be a tensor, which is passed as it is.
    """

    def build() -> Step:
        module = make()
        inputs = [x if isinstance(x, torch.Tensor) else torch.randn(*x) for x in shapes]
        return train(module, *inputs)

    STEPS[name] = build


def train(module: torch.nn.Module, *inputs: Any, **settings: Any) -> Step:
    """Return a step that compiles a module, and takes its loss outside."""
    compiled = torch.compile(module, **settings)

    def run() -> None:
        module.zero_grad(set_to_none=True)
        loss_of(compiled(*inputs)).backward()

    return run


def loss_of(outputs: Any) -> Any:
    """Return the sum of mean squares of all tensors that have a gradient."""
    return sum(
        (x.abs() if x.is_complex() else x.float()).square().mean() for x in _differentiable(outputs)
    )


def _differentiable(outputs: Any) -> Iterator[Any]:
    leaves = torch.utils._pytree.tree_leaves(outputs)
    return (x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad)
