"""A network of one transformer layer that is applied several times, as ALBERT's is.

With an activation memory budget its backward pass computes the layers again, and Inductor fuses
what looks alike across layers: the lives of large buffers are tied together.
"""

from __future__ import annotations

import torch
from torch import nn


class SharedLayers(nn.Module):
    """Attention and a feed-forward layer with weights common to all repeats."""

    def __init__(self, repeats: int = 3, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.repeats, self.heads = repeats, heads
        self.inputs, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of squares of the last layer."""
        for _ in range(self.repeats):
            x = self.first(x + self.attend(x))
            x = self.second(x + self.narrow(nn.functional.gelu(self.wide(x))))
        return x.square().sum()

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Return attention with its scores written out."""
        batch, length, width = x.shape
        parts = self.inputs(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        scores = torch.softmax(query @ key.transpose(-1, -2) / 4, -1)
        return self.mix((scores @ value).transpose(1, 2).reshape(batch, length, width))
