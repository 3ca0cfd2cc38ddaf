"""Random programs of PyTorch, and what its own interpreter holds while it runs one."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Step = Callable[[random.Random, list[Tensor]], list[Tensor]]


def _one(change: Callable[[Tensor], Any]) -> Step:
    """Return a step that applies a function to some tensor."""

    def step(rng: random.Random, given: list[Tensor]) -> list[Tensor]:
        made = change(rng.choice(given))
        return list(made) if isinstance(made, tuple | list) else [made]

    return step


def _two(change: Callable[[Tensor, Tensor], Tensor]) -> Step:
    """Return a step that applies a function to two tensors of one shape."""

    def step(rng: random.Random, given: list[Tensor]) -> list[Tensor]:
        first = rng.choice(given)
        alike = [x for x in given if x.shape == first.shape and x.dtype == first.dtype]
        return [change(first, rng.choice(alike))]

    return step


def _swapped(x: Tensor) -> Tensor:
    return x.transpose(0, -1) if x.dim() else x.unsqueeze(0)


def _copied_over(first: Tensor, second: Tensor) -> Tensor:
    return first.copy_(second)


SHAPE = (4, 3)
STEPS: list[Step] = [
    *map(_one, (torch.relu, torch.sigmoid, torch.exp, torch.clone, lambda x: x + 1)),
    *map(_one, (lambda x: x.reshape(-1), lambda x: x.contiguous(), lambda x: x.flatten())),
    *map(_one, (lambda x: x.unsqueeze(0), lambda x: x.squeeze(), _swapped, lambda x: x.detach())),
    *map(_one, (lambda x: x.to(torch.float32), lambda x: x.to(torch.float64), lambda x: x.float())),
    *map(
        _one, (lambda x: x[..., ::2], lambda x: x[..., 1:], lambda x: x.flip(0) if x.dim() else x)
    ),
    *map(_one, (lambda x: x.unsqueeze(0).expand(3, *x.shape), lambda x: x.type_as(x))),
    *map(
        _one, (lambda x: x.chunk(2, -1) if x.dim() else x, lambda x: x.unbind() if x.dim() else x)
    ),
    *map(_one, (lambda x: x.max(-1) if x.dim() and x.shape[-1] else x, lambda x: x.sum())),
    *map(_one, (lambda x: functional.dropout(x, 0.5, False), lambda x: functional.pad(x, (0, 1)))),
    *map(_one, (lambda x: x.mul_(2), lambda x: x.relu_(), lambda x: x.neg().abs_())),
    *map(_one, (lambda x: x[..., :1].add_(1), lambda x: x.view(-1) if x.is_contiguous() else x)),
    *map(
        _two, (operator.add, operator.mul, lambda x, y: torch.cat([x.reshape(-1), y.reshape(-1)]))
    ),
    *map(_two, (lambda x, y: x.add_(y.clone()), lambda x, y: _copied_over(x.clone(), y))),
    *map(_one, (lambda x: torch.einsum("ij->ji", x) if x.dim() == 2 else x, lambda x: x.tile(2))),
    *map(_two, (lambda x, y: torch.stack([x, y]), lambda x, y: torch.where(x > y, x, y))),
]


class RandomProgram(torch.nn.Module):
    """Steps in an order that the seed decides.

    `seed`: decides all of it. `steps`: number of steps.
    """

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__()
        self.seed, self.steps = seed, steps
        self.weight = torch.nn.Parameter(torch.ones(SHAPE), requires_grad=False)
        self.register_buffer("state", torch.zeros(SHAPE))

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return some of the values made."""
        rng = random.Random(self.seed)
        # Nothing writes into what has several elements at one place, and nothing grows for ever.
        given = [x, x * self.weight, self.state + 1]
        while len(given) < self.steps:
            made = rng.choice(STEPS)(rng, given)
            given += [y for y in made if y.is_floating_point() and 0 < y.numel() < 400]
        return [*rng.sample(given[3:], min(3, len(given) - 3)), given[-1] + 1]


def program_of(seed: int, steps: int = 14) -> Any:
    """Return an exported program of a seed, None where no program of that seed can be exported."""
    try:
        with torch.no_grad():
            return torch.export.export(RandomProgram(seed, steps), (torch.rand(SHAPE),))
    except Exception:  # writing into an expanded tensor, say
        return None


def interpreted(
    module: torch.fx.GraphModule,
    order: Sequence[Any],
    inputs: Sequence[Any] | None = None,
    outside: Collection[int] = (),
    sizes: dict[str, int] | None = None,
) -> tuple[int, list[Any]]:
    """Run the nodes of a graph in an order; return what they held at most, and the results.

    A value dies with the last node that takes it, as in `torch.fx.Interpreter`; counted are the
    bytes of all storages but those outside, after each node, before anything dies. Without inputs,
    these are random and stay outside. `sizes` gets the bytes of each tensor's storage.
    """
    sequence = [part for node in order for part in (node, *_parts(node))]
    output = next(node for node in module.graph.nodes if node.op == "output")
    last = {value: node for node in (*sequence, output) for value in node.all_input_nodes}
    torch.manual_seed(0)
    given = [node for node in module.graph.nodes if node.op == "placeholder"]
    made = [torch.rand(SHAPE) for _ in given] if inputs is None else inputs
    # Held here, so that no other storage gets the number of one of these.
    kept = [] if inputs is not None else made
    outside = {*outside, *(key for value in kept for key in storages(value))}
    environment: dict[Any, Any] = dict(zip(given, made, strict=True))
    for node in module.graph.nodes:
        if node.op == "get_attr":
            environment[node] = getattr(module, node.target)
            outside |= storages(environment[node]).keys()
    peak = _held(environment, outside)
    for node in sequence:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), environment.__getitem__)
        environment[node] = node.target(*args, **kwargs)
        if sizes is not None:
            values = environment.items()
            sizes |= {x.name: sum(storages(v).values()) for x, v in values if isinstance(v, Tensor)}
        peak = max(peak, _held(environment, outside))
        for value in (*node.all_input_nodes, node):
            if last.get(value, node) is node:
                environment.pop(value, None)
    results = torch.fx.node.map_arg(output.args[0], environment.__getitem__)
    return peak, [x.clone() if inputs is None else x for x in results]


def _held(environment: Mapping[Any, Any], outside: Collection[int]) -> int:
    held = {k: n for value in environment.values() for k, n in storages(value).items()}
    return sum(n for key, n in held.items() if key not in outside)


def _parts(node: Any) -> list[Any]:
    """Return the nodes that take results out of a list, also out of a list in a list."""
    taken = [user for user in node.users if user.target is operator.getitem]
    return [part for user in taken for part in (user, *_parts(user))]


def storages(value: Any) -> dict[int, int]:
    if isinstance(value, Tensor):
        storage = value.untyped_storage()
        return {storage._cdata: storage.nbytes()}
    if isinstance(value, tuple | list):
        return {key: size for each in value for key, size in storages(each).items()}
    return {}
