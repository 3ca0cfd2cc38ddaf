"""Training steps for the fake device, one for each rule or kind of network.

All have shapes of real networks where a rule depends on sizes: with fake tensors they need no
memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from tests.support.cuda.lowering import Build

HALF, BRAIN = torch.float16, torch.bfloat16


@contextlib.contextmanager
def default_type(dtype: torch.dtype) -> Iterator[None]:
    """Make tensors of a type unless a call gives another."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


_placed: list[str] = ["cuda"]
"""The device of steps that are built, the innermost last."""


@contextlib.contextmanager
def placed_on(device: str) -> Iterator[None]:
    """Build steps on another device, such as a real GPU or the CPU."""
    _placed.append(device)
    try:
        yield
    finally:
        _placed.pop()


def on_gpu(
    network: Callable[[], nn.Module],
    inputs: Callable[[], tuple[Any, ...]],
    dtype: torch.dtype = torch.float32,
) -> Build:
    """Return a build whose tensors are on the GPU; integers keep their type."""

    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        with torch.device(_placed[-1]), default_type(dtype):
            return network(), inputs()

    return build


class Attention(nn.Module):
    """Heads that attend by formula, or with a kernel that a GPU would choose."""

    def __init__(self, width: int, heads: int, kind: str, dropout: float) -> None:
        super().__init__()
        self.heads, self.kind, self.dropout = heads, kind, dropout
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend to earlier positions."""
        batch, length, width = x.shape
        heads = self.mix(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        aten = torch.ops.aten
        if self.kind == "flash":
            # Called by name: on a fake device torch's own choice would be that of the CPU.
            found = aten._scaled_dot_product_flash_attention(q, k, v, self.dropout, True)[0]
        elif self.kind == "efficient":
            attend = aten._scaled_dot_product_efficient_attention
            found = attend(q, k, v, None, True, self.dropout, True)[0]
        else:
            found = F.scaled_dot_product_attention(q, k, v, None, self.dropout, True)
        return self.out(found.transpose(1, 2).reshape(batch, length, width))


class Decoder(nn.Module):
    """A transformer as GPT, whose blocks may be recomputed or split by a graph break."""

    def __init__(
        self,
        kind: str,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 4,
        dropout: float = 0.0,
        recompute: bool = False,
        breaks: bool = False,
        shared: bool = False,
        words: int = 1000,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        blocks = [self._block(width, heads, kind, dropout) for _ in range(1 if shared else layers)]
        # Shared blocks add up gradients of several uses, as tied weights do.
        self.blocks = nn.ModuleList(blocks * layers if shared else blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)
        self.recompute, self.breaks, self.dropout = recompute, breaks, dropout

    @staticmethod
    def _block(width: int, heads: int, kind: str, dropout: float) -> nn.Module:
        feed = [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
        return nn.ModuleDict(
            {
                "attention": Attention(width, heads, kind, dropout),
                "feed": nn.Sequential(*feed),
                "first": nn.LayerNorm(width),
                "second": nn.LayerNorm(width),
            }
        )

    def _run(self, block: Any, x: torch.Tensor) -> torch.Tensor:
        x = x + F.dropout(block["attention"](block["first"](x)), self.dropout, self.training)
        return x + block["feed"](block["second"](x))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Predict the targets."""
        x = self.embedding(tokens)
        for number, block in enumerate(self.blocks):
            # A break between blocks: each block becomes a graph of its own.
            if self.breaks and number:
                torch._dynamo.graph_break()
            run = partial(self._run, block)
            x = checkpoint(run, x, use_reentrant=False) if self.recompute else run(x)
        # The loss in single precision, as training in half precision does it.
        scores = self.head(self.norm(x)).float()
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def decoder(
    kind: str, batch: int = 4, length: int = 64, dtype: torch.dtype = torch.float32, **more: Any
) -> Build:
    """Return a step of :class:`Decoder`."""
    words = more.get("words", 1000)

    def inputs() -> tuple[Any, ...]:
        tokens = torch.randint(0, words, (batch, length))
        return tokens, tokens

    return on_gpu(partial(Decoder, kind, **more), inputs, dtype)


class Norms(nn.Module):
    """Layers whose backward pass sums along both axes of a tensor."""

    def __init__(self, kind: type[nn.Module], width: int = 512, layers: int = 3) -> None:
        super().__init__()
        self.norms = nn.ModuleList(kind(width) for _ in range(layers))  # type: ignore[call-arg]
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add a gated layer after each norm."""
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + F.silu(layer(norm(x)))
        return x.float().square().mean()


def norms(kind: type[nn.Module], rows: int, dtype: torch.dtype = torch.float32) -> Build:
    """Return a step of :class:`Norms`."""
    return on_gpu(partial(Norms, kind), lambda: (torch.randn(rows, 512),), dtype)


class Scan(nn.Module):
    """Running sums along an axis."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Weigh, sum, and mix with the input."""
        return (torch.cumsum(x * self.weight, -1).sin() * x).float().sum()


class Convolutions(nn.Module):
    """Two branches of convolutions with batch norms, and an overlapping max-pool."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        layer = self._layer
        # Windows overlap, so the backward pass adds up gradients and needs the chosen positions.
        self.stem = nn.Sequential(layer(3, width, 2), nn.MaxPool2d(3, 2, 1))
        self.long = nn.Sequential(layer(width, 2 * width), layer(2 * width, 2 * width))
        self.short, self.down = layer(width, 2 * width), layer(2 * width, 2 * width, 2)
        self.head = nn.Linear(2 * width, 100)

    @staticmethod
    def _layer(before: int, after: int, stride: int = 1) -> nn.Module:
        convolution = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(after), nn.ReLU())

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Classify images."""
        x = self.stem(x)
        x = self.down(F.dropout(self.long(x) + self.short(x), 0.1, self.training))
        return F.cross_entropy(self.head(x.mean((2, 3))).float(), targets)


def convolutions(dtype: torch.dtype = torch.float32) -> Build:
    """Return a step of :class:`Convolutions`."""
    return on_gpu(
        Convolutions, lambda: (torch.randn(8, 3, 64, 64), torch.randint(0, 100, (8,))), dtype
    )


class Recurrent(nn.Module):
    """An LSTM cell, unrolled."""

    def __init__(self, width: int = 64, steps: int = 12) -> None:
        super().__init__()
        self.cell, self.steps = nn.LSTMCell(width, width), steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run along the sequence."""
        hidden = cell = torch.zeros_like(x[:, 0])
        shown = []
        for step in range(self.steps):
            hidden, cell = self.cell(x[:, step], (hidden, cell))
            shown.append(hidden)
        return torch.stack(shown, 1).square().mean()


class Experts(nn.Module):
    """Experts that choose their tokens."""

    def __init__(self, width: int = 128, experts: int = 4, chosen: int = 64) -> None:
        super().__init__()
        self.chosen, self.gate = chosen, nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what each expert makes of its tokens."""
        scores, total = self.gate(x).softmax(-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            # A fixed number of tokens for each expert keeps shapes static.
            weight, index = scores[:, number].topk(self.chosen)
            total = total.index_add(0, index, expert(x[index]) * weight[:, None])
        return (x + total).square().mean()


STEPS: dict[str, Build] = {
    "gpt": decoder("formula"),
    "gpt_flash_half": decoder("flash", dtype=HALF),
    "gpt_efficient": decoder("efficient"),
    "gpt_bf16": decoder("flash", dtype=BRAIN),
    "gpt_dropout": decoder("formula", dropout=0.1),
    "gpt_flash_dropout": decoder("flash", dtype=HALF, dropout=0.1),
    "gpt_checkpointed": decoder("formula", recompute=True),
    "gpt_bf16_checkpointed": decoder("formula", dtype=BRAIN, recompute=True),
    "gpt_breaks": decoder("formula", breaks=True, layers=3),
    "gpt_shared_checkpointed": decoder("formula", recompute=True, shared=True, layers=3),
    # Sizes of a real network: some of Inductor's rules depend on them.
    "gpt_large_flash": decoder("flash", 16, 512, HALF, width=768, heads=12, words=8000),
    "layer_norms": norms(nn.LayerNorm, 2048),
    "layer_norms_mixed": norms(nn.LayerNorm, 16384),
    "rms_norms_mixed": norms(nn.RMSNorm, 16384),
    "layer_norms_mixed_bf16": norms(nn.LayerNorm, 16384, BRAIN),
    "scan": on_gpu(Scan, lambda: (torch.randn(1 << 20),)),
    "scan_bf16": on_gpu(Scan, lambda: (torch.randn(4, 1 << 18),), BRAIN),
    "convolutions": convolutions(),
    "convolutions_half": convolutions(HALF),
    "lstm": on_gpu(Recurrent, lambda: (torch.randn(20, 12, 64),)),
    "experts": on_gpu(Experts, lambda: (torch.randn(256, 128),)),
}
"""By name."""
