"""Convolutional networks whose blocks divide, gate or collect channels; makers take no argument."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from experiments.capture_inductor.convolutional import conv_norm
from experiments.capture_inductor.irregular import Headed, separable, unit

DARTS = (
    ((0, "separable"), (1, "separable")),
    ((0, "separable"), (1, "separable")),
    ((1, "separable"), (0, "skip")),
    ((0, "skip"), (2, "dilated")),
)
"""Normal cell of DARTS (second order): per node, two earlier values and what is done to each."""


def _dilated(width: int) -> nn.Module:
    depthwise = nn.Conv2d(width, width, 3, 1, 2, dilation=2, groups=width, bias=False)
    return nn.Sequential(nn.ReLU(), depthwise, *conv_norm(width, width, 1))


def _separable_twice(width: int) -> nn.Module:
    return nn.Sequential(separable(width, width), separable(width, width))


DARTS_OPS: dict[str, Callable[[int], nn.Module]] = {
    "separable": _separable_twice,
    "dilated": _dilated,
    "skip": lambda _: nn.Identity(),
}


class DartsCell(nn.Module):
    """Cell of DARTS: each node adds two earlier values, all nodes are joined."""

    def __init__(self, before: int, inputs: int, width: int) -> None:
        super().__init__()
        self.fit = nn.ModuleList([unit(before, width, 1), unit(inputs, width, 1)])
        self.ops = nn.ModuleList(
            nn.ModuleList(DARTS_OPS[kind](width) for _, kind in node) for node in DARTS
        )

    def forward(self, before: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """Join the nodes along the channels."""
        values = [self.fit[0](before), self.fit[1](last)]
        for (first, second), ops in zip(DARTS, self.ops, strict=True):
            values.append(ops[0](values[first[0]]) + ops[1](values[second[0]]))
        return torch.cat(values[2:], dim=1)


class Darts(nn.Module):
    """Cells in a row, each fed from the last two."""

    def __init__(self, width: int, cells: int) -> None:
        super().__init__()
        sizes = [width, width, *(len(DARTS) * width for _ in range(cells))]
        pairs = itertools.pairwise(sizes[:-1])
        self.cells = nn.ModuleList(DartsCell(before, last, width) for before, last in pairs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Feed each cell from the last two."""
        before, last = x, x
        for cell in self.cells:
            before, last = last, cell(before, last)
        return last


def darts() -> nn.Module:
    return Headed(Darts(32, 4), 32, 128)


class Collected(nn.Module):
    """Block of VoVNet: units in a row, whose results are joined once at the end."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.ops = nn.ModuleList(unit(width, width) for _ in range(units))
        self.join = unit((units + 1) * width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Join the input and all results, and add the input."""
        values = [x]
        for op in self.ops:
            values.append(op(values[-1]))
        return self.join(torch.cat(values, dim=1)) + x


def vovnet() -> nn.Module:
    return Headed(nn.Sequential(*(Collected(64, 5) for _ in range(3))), 64, 64)


class Dense(nn.Module):
    """Block of DenseNet: each layer reads all earlier values."""

    def __init__(self, inputs: int, growth: int, layers: int) -> None:
        super().__init__()
        widths = [inputs + growth * i for i in range(layers)]
        self.ops = nn.ModuleList(
            nn.Sequential(unit(width, 4 * growth, 1), unit(4 * growth, growth)) for width in widths
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Join the input and the results of all layers."""
        values = [x]
        for op in self.ops:
            values.append(op(torch.cat(values, dim=1)))
        return torch.cat(values, dim=1)


class CrossStage(nn.Module):
    """Block of CSPDenseNet: one half of the channels goes through a dense block."""

    def __init__(self, width: int, growth: int, layers: int) -> None:
        super().__init__()
        self.half = width // 2
        wide = self.half + growth * layers
        self.dense, self.fit = Dense(self.half, growth, layers), unit(wide, self.half, 1)
        self.join = unit(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Join both halves and mix them."""
        kept, done = x[:, : self.half], self.fit(self.dense(x[:, self.half :]))
        return self.join(torch.cat([kept, done], dim=1))


def cspnet() -> nn.Module:
    return Headed(nn.Sequential(*(CrossStage(64, 16, 4) for _ in range(3))), 64, 64)


def densenet() -> nn.Module:
    blocks = [Dense(64, 16, 6), unit(160, 64, 1), nn.AvgPool2d(2), Dense(64, 16, 6)]
    return Headed(nn.Sequential(*blocks), 64, 160)


class ResidualBranches(nn.Module):
    """Block of Inception-ResNet: three branches, joined and added to the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            [
                unit(width, 32, 1),
                nn.Sequential(unit(width, 32, 1), unit(32, 32)),
                nn.Sequential(unit(width, 32, 1), unit(32, 48), unit(48, 64)),
            ]
        )
        self.join = nn.Conv2d(128, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add a small share of the joined branches."""
        joined = torch.cat([branch(x) for branch in self.branches], dim=1)
        return F.relu(x + 0.2 * self.join(joined))


def inception_resnet() -> nn.Module:
    return Headed(nn.Sequential(*(ResidualBranches(96) for _ in range(6))), 96, 96)


class Gate(nn.Module):
    """Squeeze and excitation: channels weighed by what the whole image says."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ops = nn.Sequential(
            nn.Conv2d(width, width // 4, 1), nn.SiLU(), nn.Conv2d(width // 4, width, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Weigh the channels."""
        return x * self.ops(x.mean((2, 3), keepdim=True)).sigmoid()


class GatedResidual(nn.Module):
    """Block of EfficientNet: widen, filter per channel, gate, narrow."""

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        wide = width * expansion
        self.ops = nn.Sequential(
            *(*conv_norm(width, wide, 1), nn.SiLU()),
            *(*conv_norm(wide, wide, 5, groups=wide), nn.SiLU(), Gate(wide)),
            *conv_norm(wide, width, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the block to its input."""
        return x + self.ops(x)


def efficientnet() -> nn.Module:
    return Headed(nn.Sequential(*(GatedResidual(40, 4) for _ in range(5))), 40, 40)


class Selective(nn.Module):
    """Block of SKNet: two kernels, mixed per channel by what both say together."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.narrow, self.wide = unit(width, width, 3, groups=8), unit(width, width, 5, groups=8)
        self.squeeze = nn.Sequential(nn.Linear(width, 32), nn.ReLU())
        self.choose = nn.Linear(32, 2 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the mixture to the input."""
        a, b = self.narrow(x), self.wide(x)
        chosen = self.choose(self.squeeze((a + b).mean((2, 3))))
        weights = chosen.view(len(x), 2, -1, 1, 1).softmax(1)
        return x + a * weights[:, 0] + b * weights[:, 1]


def sknet() -> nn.Module:
    return Headed(nn.Sequential(*(Selective(64) for _ in range(5))), 64, 64)


class Shuffled(nn.Module):
    """Block of ShuffleNetV2: one half of the channels is kept, then the halves are interleaved."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.ops = nn.Sequential(unit(half, half, 1), separable(half, half))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Work on one half and interleave."""
        kept, rest = x.chunk(2, dim=1)
        return torch.stack([kept, self.ops(rest)], dim=2).flatten(1, 2)


def shufflenet() -> nn.Module:
    return Headed(nn.Sequential(*(Shuffled(96) for _ in range(6))), 96, 96)


class NormFree(nn.Module):
    """Block of NFNet: scaled and gated residual without batch norm."""

    def __init__(self, width: int, before: Sequence[float]) -> None:
        super().__init__()
        self.scale = sum(before) ** -0.5
        self.ops = nn.Sequential(
            *(nn.Conv2d(width, width // 2, 1), nn.GELU()),
            *(nn.Conv2d(width // 2, width // 2, 3, padding=1, groups=4), nn.GELU()),
            *(nn.Conv2d(width // 2, width, 1), Gate(width)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add a small share of the block to its input."""
        return x + 0.4 * self.ops(F.gelu(x * self.scale))


def nfnet() -> nn.Module:
    return Headed(nn.Sequential(*(NormFree(96, [1, 0.04 * i]) for i in range(6))), 96, 96)
