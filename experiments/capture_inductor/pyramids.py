"""Convolutional networks that mix several resolutions; each maker takes no argument."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from experiments.capture_inductor.irregular import Headed, separable, unit


def resize_as(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return `x` with the side lengths of `like`."""
    return x if x.shape[2:] == like.shape[2:] else F.interpolate(x, size=like.shape[2:])


class HighResolution(nn.Module):
    """HRNet: branches of several resolutions, all exchanged after each stage."""

    def __init__(self, width: int, branches: int, stages: int) -> None:
        super().__init__()
        self.widths = [width << i for i in range(branches)]
        self.down = nn.ModuleList(
            unit(a, b, 3, 2) for a, b in zip(self.widths, self.widths[1:], strict=False)
        )
        self.blocks = nn.ModuleList(
            nn.ModuleList(unit(w, w) for w in self.widths) for _ in range(stages)
        )
        self.mix = nn.ModuleList(
            nn.ModuleList(unit(a, b, 1) for a in self.widths for b in self.widths)
            for _ in range(stages)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the finest branch with all others added."""
        values = [x]
        for down in self.down:
            values.append(down(values[-1]))
        for blocks, mix in zip(self.blocks, self.mix, strict=True):
            done = [block(value) for block, value in zip(blocks, values, strict=True)]
            n = len(done)
            values = [
                sum(resize_as(mix[a * n + b](done[a]), done[b]) for a in range(n)) for b in range(n)
            ]
        return values[0]


def hrnet() -> nn.Module:
    return Headed(HighResolution(32, 3, 3), 32, 32)


class BiFpn(nn.Module):
    """Feature pyramid of EfficientDet: down and up again, with weighted sums."""

    def __init__(self, width: int, levels: int, repeats: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(unit(width, width, 3, 2) for _ in range(levels - 1))
        self.levels, self.repeats = levels, repeats
        self.ops = nn.ModuleList(separable(width, width) for _ in range(2 * levels * repeats))
        self.weights = nn.Parameter(torch.ones(2 * levels * repeats, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of all levels at the finest resolution."""
        values = [x]
        for down in self.down:
            values.append(down(values[-1]))
        at = 0

        def fuse(*parts: torch.Tensor) -> torch.Tensor:
            nonlocal at
            weights = F.relu(self.weights[at])
            total = sum(weights[i] * resize_as(part, parts[0]) for i, part in enumerate(parts))
            at += 1
            return self.ops[at - 1](total / (weights.sum() + 1e-4))

        for _ in range(self.repeats):
            inner = list(values)
            for i in reversed(range(self.levels - 1)):
                inner[i] = fuse(values[i], inner[i + 1])
            values[0] = inner[0]
            for i in range(1, self.levels):
                values[i] = fuse(values[i], inner[i], values[i - 1])
        return sum(resize_as(value, values[0]) for value in values)


def bifpn() -> nn.Module:
    return Headed(BiFpn(64, 4, 3), 64, 64)


class NestedUnet(nn.Module):
    """U-Net++: a triangle of blocks, each of all earlier ones at its level."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.blocks = nn.ModuleDict()
        for j in range(depth):
            for i in range(depth - j):
                inputs = width << i if j else (width << max(0, i - 1))
                wide = j * (width << i) + (width << (i + 1)) if j else inputs
                self.blocks[f"{i}_{j}"] = unit(wide, width << i)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last block at the finest level."""
        done: dict[tuple[int, int], torch.Tensor] = {}
        for j in range(self.depth):
            for i in range(self.depth - j):
                if j:
                    up = resize_as(done[i + 1, j - 1], done[i, 0])
                    given = torch.cat([*(done[i, k] for k in range(j)), up], dim=1)
                else:
                    given = F.max_pool2d(done[i - 1, 0], 2) if i else x
                done[i, j] = self.blocks[f"{i}_{j}"](given)
        return done[0, self.depth - 1]


def unet_nested() -> nn.Module:
    return Headed(NestedUnet(32, 4), 32, 32)


class Hourglass(nn.Module):
    """Down and up again, with a skip at each resolution."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.skip, self.low, self.last = (unit(width, width) for _ in range(3))
        self.inner = Hourglass(width, depth - 1) if depth > 1 else unit(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what the lower resolutions say to the skip."""
        low = self.last(self.inner(self.low(F.max_pool2d(x, 2))))
        return self.skip(x) + resize_as(low, x)


class StackedHourglass(nn.Module):
    """Hourglasses in a row; each gives maps."""

    def __init__(self, width: int, stacks: int) -> None:
        super().__init__()
        self.stacks = nn.ModuleList(Hourglass(width, 3) for _ in range(stacks))
        self.maps = nn.ModuleList(unit(width, 16, 1) for _ in range(stacks))
        self.back = nn.ModuleList(unit(16, width, 1) for _ in range(stacks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the maps of all stacks, joined."""
        found = []
        for stack, to_map, back in zip(self.stacks, self.maps, self.back, strict=True):
            y = stack(x)
            found.append(to_map(y))
            x = x + y + back(found[-1])
        return torch.cat(found, dim=1)


def hourglass() -> nn.Module:
    return Headed(StackedHourglass(64, 3), 64, 48)
