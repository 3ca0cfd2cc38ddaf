"""Small random modules: branches, views, mutations, dropout, ops of several outputs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional

_Values = list[Any]


class RandomModule(nn.Module):
    """A program of random ops on matrices of a few widths; its result is a scalar.

    `seed`: equal seeds give equal modules. `ops`: number of ops of the program. `control`: True to
    include loops and choices.
    """

    rows = 12
    widths = (8, 16, 24)

    def __init__(self, seed: int, ops: int = 12, *, control: bool = False) -> None:
        super().__init__()
        # Not torch's generator: it draws weights, and a test that sets its seed must not change
        # the program.
        self.choose = random.Random(seed)
        self.layers = nn.ModuleList()
        self.register_buffer("seen", torch.zeros(self.rows, self.widths[0]))
        self.register_buffer("places", torch.randint(0, self.rows, (self.rows,)))
        self.shapes = [self.choose.choice(self.widths) for _ in range(2)]
        self.inputs = tuple(torch.randn(self.rows, width) for width in self.shapes)
        kinds = self.kinds() + [self._branch, self._scan] * (3 if control else 0)
        self.program = [self.choose.choice(kinds)() for _ in range(ops)]

    def kinds(self) -> list[Callable[[], Callable[[_Values], Any]]]:
        """Return what the ops are drawn from."""
        return [
            self._linear,
            self._pointwise,
            self._combine,
            self._softmax,
            self._views,
            self._attention,
            self._overwrite,
            self._scatter,
            self._remember,
            self._dropout,
            self._best,
            self._normalize,
        ]

    def forward(self, *inputs: Any) -> Any:
        """Run the program; every value is part of the result, so that no value is dead."""
        values = list(inputs)
        for op in self.program:
            values.append(op(values))
        return sum((v * v).mean() for v in values[len(inputs) :])

    def _operand(self) -> int:
        """Choose a value, a late one rather than an early one."""
        count = len(self.shapes)
        # The larger of two draws: programs are deep, while a few values still live long.
        return max(self.choose.randrange(count), self.choose.randrange(count))

    def _same(self, width: int) -> int:
        return self.choose.choice([i for i, w in enumerate(self.shapes) if w == width])

    def _linear(self) -> Callable[[_Values], Any]:
        i, width = self._operand(), self.choose.choice(self.widths)
        layer = nn.Linear(self.shapes[i], width)
        self.layers.append(layer)
        self.shapes.append(width)
        return lambda values: layer(values[i])

    def _pointwise(self) -> Callable[[_Values], Any]:
        i = self._operand()
        self.shapes.append(self.shapes[i])
        function = self.choose.choice([torch.tanh, functional.gelu, torch.sigmoid, torch.sin])
        return lambda values: function(values[i])

    def _combine(self) -> Callable[[_Values], Any]:
        i = self._operand()
        j = self._same(self.shapes[i])
        self.shapes.append(self.shapes[i])
        return lambda values: values[i] * torch.sigmoid(values[j]) + values[j]

    def _softmax(self) -> Callable[[_Values], Any]:
        i = self._operand()
        self.shapes.append(self.shapes[i])
        return lambda values: torch.softmax(values[i], dim=1)

    def _views(self) -> Callable[[_Values], Any]:
        i, j = self._operand(), self._operand()
        half = min(self.shapes[i], self.shapes[j]) // 2
        self.shapes.append(2 * half)
        return lambda values: torch.cat([values[i][:, :half], values[j].flip(0)[:, -half:]], 1)

    def _attention(self) -> Callable[[_Values], Any]:
        i = self._operand()
        j = self._same(self.shapes[i])
        self.shapes.append(self.shapes[i])
        return lambda values: torch.softmax(values[i] @ values[j].t(), 1) @ values[j]

    def _overwrite(self) -> Callable[[_Values], Any]:
        i = self._operand()
        self.shapes.append(self.shapes[i])

        def overwrite(values: _Values) -> Any:
            # Written in place, but on a copy: autograd refuses to overwrite what other ops need.
            copy = values[i].clone()
            copy[2:5] *= 2.0
            copy[:, 1].add_(copy[:, 0])
            return copy

        return overwrite

    def _scatter(self) -> Callable[[_Values], Any]:
        i = self._operand()
        j = self._same(self.shapes[i])
        self.shapes.append(self.shapes[i])
        return lambda values: values[i].index_add(0, self.places, values[j].tanh())

    def _remember(self) -> Callable[[_Values], Any]:
        i = self._operand()
        self.shapes.append(self.widths[0])

        def remember(values: _Values) -> Any:
            self.seen.mul_(0.5).add_(values[i][:, : self.widths[0]].detach())
            # A product would need the old state for its gradient: stock torch gets that wrong.
            return self.seen.clone() + values[i][:, : self.widths[0]].tanh()

        return remember

    def _dropout(self) -> Callable[[_Values], Any]:
        i = self._operand()
        self.shapes.append(self.shapes[i])
        return lambda values: functional.dropout(values[i], 0.25)

    def _best(self) -> Callable[[_Values], Any]:
        i = self._operand()
        self.shapes.append(self.widths[0])

        def best(values: _Values) -> Any:
            largest, _ = values[i].sort(dim=1)
            return largest[:, : self.widths[0]].cumsum(1)

        return best

    def _normalize(self) -> Callable[[_Values], Any]:
        i = self._operand()
        self.shapes.append(self.shapes[i])
        return lambda values: functional.layer_norm(values[i], values[i].shape[1:])

    def _branch(self) -> Callable[[_Values], Any]:
        i = self._operand()
        self.shapes.append(self.shapes[i])
        return lambda values: torch.cond(values[i].sum() > 0, torch.tanh, torch.sin, (values[i],))

    def _scan(self) -> Callable[[_Values], Any]:
        i = self._operand()
        self.shapes.append(self.shapes[i])

        def advance(carried: Any, row: Any) -> tuple[Any, Any]:
            total = carried + row.tanh()
            # torch 2.13 refuses a carried value that the gradient needs as well.
            return total * 0.5, total.sin()

        return lambda values: scan(advance, torch.zeros_like(values[i][0]), values[i])[1]
