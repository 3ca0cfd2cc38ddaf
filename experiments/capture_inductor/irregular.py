"""Convolutional networks whose wiring is irregular; each maker takes no argument."""

from __future__ import annotations

import random

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from experiments.capture_inductor.convolutional import conv_norm, relu


def unit(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Module:
    """Convolution, batch norm, ReLU."""
    return nn.Sequential(*conv_norm(inputs, outputs, kernel, stride, groups), relu())


def separable(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Module:
    """Filter per channel, then mix the channels."""
    depthwise = nn.Conv2d(inputs, inputs, kernel, stride, kernel // 2, groups=inputs, bias=False)
    return nn.Sequential(depthwise, *conv_norm(inputs, outputs, 1), relu())


class Headed(nn.Module):
    """A stem that halves the sides twice, a body, and a linear classifier."""

    def __init__(self, body: nn.Module, inputs: int, outputs: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(unit(3, inputs, 3, 2), unit(inputs, inputs, 3, 2))
        self.body = body
        self.head = nn.Linear(outputs, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Score a batch of images."""
        return self.head(self.body(self.stem(images)).mean((2, 3)))


class RandomWiring(nn.Module):
    """Stage of RandWire: a Watts-Strogatz graph, directed from lower to higher numbers."""

    def __init__(self, width: int, nodes: int, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        pairs = set()
        for v in range(nodes):
            for step in (1, 2):
                w = (v + step) % nodes
                if rng.random() < 0.75:
                    w = rng.choice([x for x in range(nodes) if x != v])
                pairs.add((min(v, w), max(v, w)))
        self.sources = [[u for u, w in sorted(pairs) if w == v] for v in range(nodes)]
        read = {u for sources in self.sources for u in sources}
        self.ends = [v for v in range(nodes) if v not in read]
        self.ops = nn.ModuleList(separable(width, width) for _ in range(nodes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the graph from the stage's input, and average what no node reads."""
        values: list[torch.Tensor] = []
        for op, sources in zip(self.ops, self.sources, strict=True):
            values.append(op(sum(values[u] for u in sources) if sources else x))
        return sum(values[v] for v in self.ends) / len(self.ends)


def randwire() -> nn.Module:
    return Headed(nn.Sequential(RandomWiring(64, 12, 0), RandomWiring(64, 12, 1)), 64, 64)


class NasCell(nn.Module):
    """Normal cell of NASNet-A: five pairs of ops on the last two cells, joined."""

    def __init__(self, before: int, inputs: int, width: int) -> None:
        super().__init__()
        self.fit = nn.ModuleList([unit(before, width, 1), unit(inputs, width, 1)])
        self.three = nn.ModuleList(separable(width, width, 3) for _ in range(3))
        self.five = nn.ModuleList(separable(width, width, 5) for _ in range(2))

    def forward(self, before: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """Join the pairs along the channels."""
        a, b = self.fit[0](before), self.fit[1](last)
        pool_a = F.avg_pool2d(a, 3, 1, 1, count_include_pad=False)
        pool_b = F.avg_pool2d(b, 3, 1, 1, count_include_pad=False)
        pairs = [
            self.three[0](b) + b,
            self.three[1](a) + self.five[0](b),
            pool_b + a,
            pool_a + pool_a,
            self.five[1](a) + self.three[2](a),
        ]
        return torch.cat([a, *pairs], dim=1)


class NasNet(nn.Module):
    """Cells in a row, each fed from the last two."""

    def __init__(self, width: int, cells: int) -> None:
        super().__init__()
        sizes = [width, width]
        self.cells = nn.ModuleList()
        for _ in range(cells):
            self.cells.append(NasCell(sizes[-2], sizes[-1], width))
            sizes.append(6 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Feed each cell from the last two."""
        before, last = x, x
        for cell in self.cells:
            before, last = last, cell(before, last)
        return last


def nasnet() -> nn.Module:
    return Headed(NasNet(32, 4), 32, 192)


class Fractal(nn.Module):
    """Block of FractalNet: columns of depths 1, 2, 4, averaged wherever they meet."""

    def __init__(self, width: int, columns: int) -> None:
        super().__init__()
        self.short = unit(width, width)
        twice = [Fractal(width, columns - 1) for _ in range(2)] if columns > 1 else []
        self.twice = nn.Sequential(*twice)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Average the short column and the fractal of the others."""
        return (self.short(x) + self.twice(x)) / 2 if len(self.twice) else self.short(x)


def fractalnet() -> nn.Module:
    return Headed(nn.Sequential(Fractal(64, 3), nn.MaxPool2d(2), Fractal(64, 3)), 64, 64)


class Aggregation(nn.Module):
    """Tree of deep layer aggregation: each node joins all below it."""

    def __init__(self, width: int, depth: int, extra: int = 0) -> None:
        super().__init__()
        self.depth = depth
        if depth:
            self.left = Aggregation(width, depth - 1)
            self.right = Aggregation(width, depth - 1, extra + 1)
        else:
            self.left, self.right = unit(width, width), unit(width, width)
            self.join = unit((2 + extra) * width, width, 1)

    def forward(self, x: torch.Tensor, others: tuple[torch.Tensor, ...] = ()) -> torch.Tensor:
        """Run the left half, then the right half with all that it joins."""
        left = self.left(x)
        if self.depth:
            return self.right(left, (*others, left))
        return self.join(torch.cat([left, self.right(left), *others], dim=1)) + x


def dla() -> nn.Module:
    return Headed(nn.Sequential(Aggregation(64, 2), Aggregation(64, 2)), 64, 64)


class DualPath(nn.Module):
    """Block of a dual path network: one part is added, the other joined."""

    def __init__(self, width: int, inputs: int, growth: int) -> None:
        super().__init__()
        self.width = width
        self.ops = nn.Sequential(
            unit(inputs, 96, 1), unit(96, 96, 3, groups=8), unit(96, width + growth, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum and the joined channels."""
        y, w = self.ops(x), self.width
        return torch.cat([x[:, :w] + y[:, :w], x[:, w:], y[:, w:]], dim=1)


def dual_path() -> nn.Module:
    blocks = [DualPath(64, 64 + 16 * i, 16) for i in range(8)]
    return Headed(nn.Sequential(*blocks), 64, 64 + 16 * 8)


class Res2Block(nn.Module):
    """Block of Res2Net: groups of channels, each added to the next one's input."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.first, self.last = unit(width, width, 1), unit(width, width, 1)
        self.ops = nn.ModuleList(unit(width // groups, width // groups) for _ in range(groups - 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the groups one after another."""
        parts = self.first(x).chunk(len(self.ops) + 1, dim=1)
        done = [parts[0]]
        for op, part in zip(self.ops, parts[1:], strict=True):
            done.append(op(part + done[-1]))
        return x + self.last(torch.cat(done, dim=1))


def res2net() -> nn.Module:
    return Headed(nn.Sequential(*(Res2Block(96, 4) for _ in range(5))), 96, 96)
