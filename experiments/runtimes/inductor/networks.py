"""The training steps of the study: real networks, narrow enough for two cores."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from experiments.capture_inductor import convolutional as cnn
from experiments.capture_inductor.recurrent import LstmLanguageModel, lstm
from optsched.plugins.inductor.capture import Build, Built


def _heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Attention as its formula says, so that the compiler sees all of it."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    mixed = torch.softmax(scores if mask is None else scores + mask, -1) @ v
    batch, heads, length, width = mixed.shape
    return mixed.transpose(1, 2).reshape(batch, length, heads * width)


class EncoderBlock(nn.Module):
    """A block as in BERT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend, then feed forward."""
        q, k, v = (_heads(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        x = self.first(x + self.out(_attend(q, k, v)))
        return self.second(x + self.down(F.gelu(self.up(x), approximate="tanh")))


class Albert(nn.Module):
    """Layers of the same weights, each recomputed in the backward pass."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width // 4)
        self.widen, self.narrow = nn.Linear(width // 4, width), nn.Linear(width, width // 4)
        self.block, self.layers = EncoderBlock(width, heads), layers
        self.head = nn.Linear(width // 4, vocabulary)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Predict masked tokens."""
        x = self.widen(self.embedding(tokens))
        for _ in range(self.layers):
            x = checkpoint(self.block, x, use_reentrant=False)
        return F.cross_entropy(self.head(F.gelu(self.narrow(x))).flatten(0, 1), targets.flatten())


class LlamaBlock(nn.Module):
    """A block as in Llama: rotary positions, gated feed forward, norms without mean."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_scale = nn.Parameter(torch.ones(width))
        self.feed_scale = nn.Parameter(torch.ones(width))
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(
        self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Attend, then feed forward."""
        y = _rms(x, self.attention_scale)
        q, k, v = (_heads(layer(y), self.heads) for layer in (self.query, self.key, self.value))
        q, k = (t * cosine + _rotate(t) * sine for t in (q, k))
        x = x + self.out(_attend(q, k, v, mask))
        y = _rms(x, self.feed_scale)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _rms(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * scale


def _rotate(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


class Llama(nn.Module):
    """A decoder whose mask and positions are buffers."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, length: int) -> None:
        super().__init__()
        hidden = 11 * width // 4
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, hidden) for _ in range(layers))
        self.scale = nn.Parameter(torch.ones(width))
        self.head = nn.Linear(width, vocabulary, bias=False)
        rates = 1e4 ** (-torch.arange(0, width // heads, 2) * heads / width)
        angles = torch.outer(torch.arange(length), rates).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        self.register_buffer("mask", torch.full((length, length), -1e9).triu(1))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Predict next tokens."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine, self.mask)
        scores = self.head(_rms(x, self.scale)).flatten(0, 1)
        return F.cross_entropy(scores[:-1], targets.flatten()[1:])


class MixtureOfExperts(nn.Module):
    """Blocks whose experts choose their tokens, so that all shapes are static."""

    def __init__(self, layers: int, width: int, heads: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.heads = heads
        self.mix = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.gate = nn.ModuleList(nn.Linear(width, experts) for _ in range(layers))
        self.experts = nn.ModuleList(
            nn.ModuleList(
                nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                for _ in range(experts)
            )
            for _ in range(layers)
        )

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Attend, then let each expert work on the tokens it scores highest."""
        for mix, out, gate, experts in zip(
            self.mix, self.out, self.gate, self.experts, strict=True
        ):
            q, k, v = (_heads(t, self.heads) for t in mix(x).chunk(3, -1))
            x = x + out(_attend(q, k, v))
            tokens = x.flatten(0, 1)
            scores = torch.softmax(gate(tokens), -1)
            total = torch.zeros_like(tokens)
            for number, expert in enumerate(experts):
                weight, index = scores[:, number].topk(self.chosen)
                total = total.index_add(0, index, expert(tokens[index]) * weight[:, None])
            x = x + total.view_as(x)
        return F.mse_loss(x, targets)


def _language(network: nn.Module, batch: int, length: int, vocabulary: int) -> Built:
    tokens = torch.randint(0, vocabulary, (batch, length))
    return network, (tokens, tokens), {}


def _unet() -> Built:
    images, masks = torch.randn(2, 3, 128, 128), torch.randint(0, 2, (2, 128, 128))
    return cnn.Classifier(cnn.UNet(width=8)), (images, masks), {}


def _experts() -> Built:
    x = torch.randn(2, 128, 128)
    return MixtureOfExperts(2, 128, 4, experts=8, chosen=64), (x, torch.randn(2, 128, 128)), {}


def _without_dropout(build: Build) -> Build:
    """Compiled and eager steps draw other random numbers."""

    def built() -> Built:
        network, args, kwargs = build()
        for layer in network.modules():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.0
        return network, args, kwargs

    return built


class ListLstm(LstmLanguageModel):
    """A form of the model that is often written: hidden states and cells in two lists."""

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Weigh the scores against the targets."""
        embedded = self.embedding(tokens)
        empty = embedded.shape[0], embedded.shape[2]
        hidden = [torch.zeros(empty) for _ in self.from_below]
        cells = [torch.zeros(empty) for _ in self.from_below]
        tops = []
        for step in range(tokens.shape[1]):
            x = embedded[:, step]
            for layer, (below, before) in enumerate(
                zip(self.from_below, self.from_before, strict=True)
            ):
                gates = below(x) + before(hidden[layer])
                new, old, candidate, show = gates.chunk(4, 1)
                cells[layer] = old.sigmoid() * cells[layer] + new.sigmoid() * candidate.tanh()
                hidden[layer] = show.sigmoid() * cells[layer].tanh()
                x = hidden[layer]
            tops.append(x)
        scores = self.head(torch.stack(tops, 1))
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def _list_lstm() -> Built:
    tokens = torch.randint(0, 10_000, (20, 35))
    return ListLstm(10_000, 650, layers=2), (tokens, tokens), {}


STEPS: dict[str, Build] = {
    "lstm": lstm(20, steps=35),
    "lstm_lists": _list_lstm,
    "albert_checkpointed": lambda: _language(Albert(4, 256, 8, 1000), 4, 256, 1000),
    "llama_2l": lambda: _language(Llama(2, 256, 8, 8000, 512), 1, 512, 8000),
    "alexnet_bs16": _without_dropout(cnn.on_images(cnn.alexnet, 16)),
    "vgg16_bs4": _without_dropout(cnn.on_images(cnn.vgg16, 4, side=96)),
    "unet": _unet,
    "resnet50_bs4": cnn.on_images(cnn.resnet50, 4, side=96),
    "experts": _experts,
}
"""By name; what a step takes is in its name or above."""
