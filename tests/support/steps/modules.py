"""Steps of one module each: norms, attention, convolutions, recurrence, embeddings, experts."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.support.steps.catalog import module_step

S = nn.Sequential


class Fn(nn.Module):
    """A module of a function of its layers and the inputs."""

    def __init__(self, run: Any, **layers: nn.Module) -> None:
        super().__init__()
        self.run = run
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: Any) -> Any:
        return self.run(self, *inputs)


def mlp(width: int = 32) -> nn.Module:
    return S(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Attention(nn.Module):
    """Self-attention with optional causal mask, shared keys, a bias of distances, or no softmax."""

    def __init__(self, kind: str, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.kind, self.heads = kind, heads
        kept = 1 if kind == "grouped" else heads
        self.q, self.o = nn.Linear(width, width), nn.Linear(width, width)
        self.k, self.v = (nn.Linear(width, width // heads * kept) for _ in range(2))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = (
            y.view(batch, length, -1, size).transpose(1, 2)
            for y in (self.q(x), self.k(x), self.v(x))
        )
        if self.kind == "grouped":
            k, v = (y.expand(-1, self.heads, -1, -1) for y in (k, v))
        if self.kind == "fused":
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif self.kind == "linear":
            mixed = (functional.elu(q) + 1) @ ((functional.elu(k) + 1).transpose(-1, -2) @ v)
        else:
            scores = q @ k.transpose(-1, -2) * size**-0.5
            if self.kind == "biased":
                places = torch.arange(length)
                scores = scores - (places[None] - places[:, None]).abs() * 0.1
            mixed = torch.softmax(scores, -1) @ v
        return self.o(mixed.transpose(1, 2).reshape(batch, length, width))


class Residual(nn.Module):
    """A block of two convolutions with a norm each, on a path beside the identity."""

    def __init__(self, channels: int, norm: Any) -> None:
        super().__init__()
        self.path = S(
            nn.Conv2d(channels, channels, 3, padding=1),
            norm(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            norm(channels),
        )

    def forward(self, x: Any) -> Any:
        return torch.relu(x + self.path(x))


def unet(_: Any, x: Any) -> Any:
    m = _
    a = torch.relu(m.a(x))
    b = torch.relu(m.b(functional.max_pool2d(a, 2)))
    return m.c(torch.cat([a, functional.interpolate(b, scale_factor=2)], 1))


def unrolled(m: Any, x: Any) -> Any:
    states = tuple(torch.zeros(x.shape[0], 24) for _ in range(2))
    outputs = []
    for t in range(x.shape[1]):
        if isinstance(m.cell, nn.LSTMCell):
            states = m.cell(x[:, t], states)
        else:
            states = (m.cell(x[:, t], states[0]),)
        outputs.append(states[0])
    return torch.stack(outputs, 1)


def experts(m: Any, x: Any) -> Any:
    gates = torch.softmax(m.gate(x), -1)
    best, places = gates.topk(2, -1)
    made = torch.stack([m.a(x), m.b(x), m.c(x)], 1)
    chosen = made.gather(1, places[..., None].expand(-1, -1, x.shape[1]))
    return (chosen * best[..., None]).sum(1)


def routed(m: Any, x: Any) -> Any:
    """Tokens are put into buckets of their experts, and back."""
    score, expert = torch.softmax(m.gate(x), -1).max(-1)
    order = expert.argsort(stable=True)
    half = x.shape[0] // 2
    made = torch.cat([m.a(x[order][:half]), m.b(x[order][half:])])
    return torch.zeros_like(x).index_add(0, order, made) * score[:, None]


def checkpointed(m: Any, x: Any) -> Any:
    for layer in (m.a, m.b):
        x = checkpoint(layer, x, use_reentrant=False)
    return x


def nested(m: Any, x: Any) -> Any:
    def inner(y: Any) -> Any:
        return checkpoint(m.b, m.a(y).sin(), use_reentrant=False)

    return checkpoint(inner, x, use_reentrant=False).cos()


def weight_norm(m: Any, x: Any) -> Any:
    direction = m.a.weight / m.a.weight.norm(dim=1, keepdim=True)
    return functional.linear(x, direction * m.b.weight.norm(dim=1, keepdim=True), m.a.bias)


def graph(m: Any, x: Any) -> Any:
    places = torch.arange(96) * 7 % 48, torch.arange(96) * 5 % 48
    for layer in (m.a, m.b):
        sums = torch.zeros_like(x).index_add(0, places[0], x[places[1]])
        x = torch.relu(layer(sums))
    return x


def capsules(m: Any, x: Any) -> Any:
    votes = m.a(x).view(x.shape[0], 8, 4, 8)
    weights = torch.zeros(x.shape[0], 8, 4)
    for _ in range(3):
        mixed = (weights.softmax(2)[..., None] * votes).sum(1)
        squared = mixed.square().sum(-1, keepdim=True)
        mixed = mixed * squared / (1 + squared) / (squared + 1e-6).sqrt()
        weights = weights + (votes * mixed[:, None]).sum(-1)
    return mixed


IMAGE, SEQUENCE, ROWS = (4, 8, 16, 16), (4, 12, 32), (48, 32)
TOKENS = torch.arange(48).view(4, 12) % 20

module_step("layer_norm", lambda: S(nn.LayerNorm(32), mlp(), nn.LayerNorm(32)), SEQUENCE)
module_step("group_norm", lambda: Residual(8, lambda c: nn.GroupNorm(4, c)), IMAGE)
module_step("batch_norm", lambda: Residual(8, nn.BatchNorm2d), IMAGE)
module_step("instance_norm", lambda: Residual(8, nn.InstanceNorm2d), IMAGE)
module_step("rms_norm", lambda: S(nn.RMSNorm(32), mlp(), nn.RMSNorm(32)), SEQUENCE)
module_step("weight_norm", lambda: Fn(weight_norm, a=nn.Linear(32, 32), b=nn.Linear(8, 32)), ROWS)
for kind in ("plain", "fused", "grouped", "biased", "linear"):
    module_step(f"attention_{kind}", lambda kind=kind: Attention(kind), SEQUENCE)
module_step(
    "encoder_layer",
    lambda: nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True),
    SEQUENCE,
)
module_step(
    "decoder_layer",
    lambda: nn.TransformerDecoderLayer(32, 4, 64, dropout=0.1, batch_first=True),
    SEQUENCE,
    SEQUENCE,
)
module_step(
    "multihead",
    lambda: Fn(
        lambda m, x: x + m.a(x, x, x, need_weights=False)[0],
        a=nn.MultiheadAttention(32, 4, batch_first=True),
    ),
    SEQUENCE,
)
module_step(
    "unet",
    lambda: Fn(
        unet,
        a=nn.Conv2d(8, 8, 3, padding=1),
        b=nn.Conv2d(8, 8, 3, padding=1),
        c=nn.Conv2d(16, 4, 1),
    ),
    IMAGE,
)
module_step(
    "depthwise",
    lambda: S(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Hardswish(), nn.Conv2d(8, 16, 1)),
    IMAGE,
)
module_step(
    "transposed",
    lambda: S(nn.ConvTranspose2d(8, 6, 4, 2, 1), nn.BatchNorm2d(6), nn.Tanh()),
    IMAGE,
)
module_step(
    "overlapping_pools",
    lambda: S(
        nn.Conv2d(8, 8, 3),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(8, 8, 3),
        nn.MaxPool2d(3, 1),
        nn.Flatten(),
        nn.Linear(32, 5),
    ),
    (4, 8, 16, 16),
)
module_step(
    "temporal",
    lambda: S(nn.Conv1d(12, 16, 3, dilation=2, padding=2), nn.ReLU(), nn.Conv1d(16, 12, 1)),
    SEQUENCE,
)
module_step(
    "volume", lambda: S(nn.Conv3d(2, 4, 3), nn.ELU(), nn.AdaptiveAvgPool3d(2)), (2, 2, 8, 8, 8)
)
module_step("pixel_shuffle", lambda: S(nn.Conv2d(8, 16, 3), nn.PixelShuffle(2), nn.PReLU()), IMAGE)
module_step("lstm_cell", lambda: Fn(unrolled, cell=nn.LSTMCell(32, 24)), SEQUENCE)
module_step("gru_cell", lambda: Fn(unrolled, cell=nn.GRUCell(32, 24)), SEQUENCE)
module_step("rnn_cell", lambda: Fn(unrolled, cell=nn.RNNCell(32, 24)), SEQUENCE)
module_step("embedding", lambda: S(nn.Embedding(20, 32, padding_idx=0), mlp()), TOKENS)
module_step("embedding_bag", lambda: S(nn.EmbeddingBag(20, 32, mode="mean"), mlp()), TOKENS)
module_step(
    "tied_embedding",
    lambda: Fn(
        lambda m, t: functional.linear(m.b(m.a(t)), m.a.weight), a=nn.Embedding(20, 32), b=mlp()
    ),
    TOKENS,
)
module_step("experts", lambda: Fn(experts, gate=nn.Linear(32, 3), a=mlp(), b=mlp(), c=mlp()), ROWS)
module_step("routed", lambda: Fn(routed, gate=nn.Linear(32, 2), a=mlp(), b=mlp()), ROWS)
module_step("dropout", lambda: S(mlp(), nn.Dropout(0.2), mlp(), nn.AlphaDropout(0.1)), ROWS)
module_step("checkpointed", lambda: Fn(checkpointed, a=mlp(), b=S(nn.LayerNorm(32), mlp())), ROWS)
module_step("nested_checkpoint", lambda: Fn(nested, a=mlp(), b=mlp()), ROWS)
module_step("graph_network", lambda: Fn(graph, a=nn.Linear(32, 32), b=nn.Linear(32, 32)), ROWS)
module_step("capsules", lambda: Fn(capsules, a=nn.Linear(32, 256)), ROWS)
module_step(
    "mixer", lambda: Fn(lambda m, x: x + m.b(x + m.a(x.mT).mT), a=mlp(12), b=mlp()), SEQUENCE
)
