"""A recurrent language model, unrolled in time."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from optsched.plugins.inductor.capture import Build, Built


class LstmLanguageModel(nn.Module):
    """Stacked LSTM cells written out, so that the compiler sees every step."""

    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.from_below = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.from_before = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Predict the token after each, or weigh the scores against the targets."""
        embedded = self.embedding(tokens)
        zero = torch.zeros_like(embedded[:, 0])
        state = [(zero, zero) for _ in self.from_below]
        tops = []
        for x in embedded.unbind(dim=1):
            for layer, (hidden, cell) in enumerate(state):
                state[layer] = self._step(
                    layer, x if layer == 0 else state[layer - 1][0], hidden, cell
                )
            tops.append(state[-1][0])
        scores = self.head(torch.stack(tops, dim=1))
        if not self.training:
            return scores
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    def _step(
        self, layer: int, below: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gates = self.from_below[layer](below) + self.from_before[layer](hidden)
        keep_new, keep_old, show, candidate = gates.chunk(4, dim=1)
        new_cell = torch.sigmoid(keep_old) * cell + torch.sigmoid(keep_new) * candidate.tanh()
        return torch.sigmoid(show) * new_cell.tanh(), new_cell


def lstm(batch: int, steps: int, width: int = 650, vocabulary: int = 10_000) -> Build:
    """Build the medium model of Zaremba et al. (2014), by default."""

    def build() -> Built:
        tokens = torch.randint(0, vocabulary, (batch, steps))
        return LstmLanguageModel(vocabulary, width, layers=2), (tokens, tokens), {}

    return build
