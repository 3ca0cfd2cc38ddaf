"""A training step that is compiled and run."""

from __future__ import annotations

from collections.abc import Callable

import torch

from experiments.runtimes.inductor.networks import STEPS


def compiled_step(name: str) -> tuple[Callable[[], None], torch.nn.Module]:
    """Return a step that is compiled when it first runs, and its network."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    network, args, kwargs = STEPS[name]()
    compiled = torch.compile(network)

    def step() -> None:
        network.zero_grad(set_to_none=True)
        compiled(*args, **kwargs).backward()

    return step, network
