"""Steps as other people write them: several models, optimizers, and state between steps."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.support.steps.catalog import Step, step
from tests.support.steps.modules import Attention, S, mlp, unrolled


def _optimize(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(module.parameters(), 1e-3)


def _advance(optimizer: torch.optim.Optimizer, loss: Any) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


class Language(nn.Module):
    """A language model with tied weights, and a checkpoint around each second block."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(64, 32), nn.Embedding(16, 32)
        self.blocks = nn.ModuleList(
            S(nn.LayerNorm(32), Attention("fused"), nn.Dropout(0.1), mlp()) for _ in range(3)
        )
        self.norm = nn.LayerNorm(32)

    def forward(self, tokens: Any, targets: Any) -> Any:
        x = self.embedding(tokens) + self.places(torch.arange(tokens.shape[1]))
        for i, block in enumerate(self.blocks):
            x = x + (checkpoint(block, x, use_reentrant=False) if i % 2 else block(x))
        logits = functional.linear(self.norm(x), self.embedding.weight)
        return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


@step
def script_language() -> Step:
    model = Language()
    compiled, optimizer = torch.compile(model), _optimize(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    def run() -> None:
        tokens = torch.randint(0, 64, (4, 17))
        _, loss = compiled(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    return run


@step
def script_autoencoder() -> Step:
    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = S(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 16)), mlp(8)
            self.out = nn.Linear(8, 64)

        def forward(self, x: Any) -> Any:
            mean, spread = self.encoder(x).chunk(2, 1)
            hidden = mean + torch.randn_like(mean) * (0.5 * spread).exp()
            lost = -0.5 * (1 + spread - mean.square() - spread.exp()).sum()
            return self.out(self.decoder(hidden)), lost

    model = Variational()
    compiled, optimizer = torch.compile(model), _optimize(model)

    def run() -> None:
        x = torch.rand(32, 64)
        made, lost = compiled(x)
        _advance(optimizer, functional.binary_cross_entropy_with_logits(made, x) + lost / 32)

    return run


@step
def script_adversaries() -> Step:
    maker = S(nn.Linear(16, 64), nn.LeakyReLU(0.2), nn.Linear(64, 32), nn.Tanh())
    judge = S(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(64, 1))
    make, decide = torch.compile(maker), torch.compile(judge)
    first, second = _optimize(maker), _optimize(judge)

    def run() -> None:
        real, noise = torch.randn(24, 32), torch.randn(24, 16)
        made = make(noise)
        _advance(second, functional.softplus(decide(made.detach())).mean() - decide(real).mean())
        _advance(first, functional.softplus(-decide(made)).mean())

    return run


@step
def script_reinforcement() -> Step:
    online = S(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
    target = copy.deepcopy(online)
    value, later, optimizer = torch.compile(online), torch.compile(target), _optimize(online)

    def run() -> None:
        state, after, reward = torch.randn(32, 8), torch.randn(32, 8), torch.randn(32)
        action = torch.randint(0, 4, (32, 1))
        with torch.no_grad():
            wanted = reward + 0.99 * later(after).max(1).values
        got = value(state).gather(1, action).squeeze(1)
        _advance(optimizer, functional.smooth_l1_loss(got, wanted))
        for new, old in zip(online.parameters(), target.parameters(), strict=True):
            old.data.lerp_(new.data, 0.05)

    return run


@step
def script_diffusion() -> Step:
    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.middle = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, padding=1)
            self.up, self.norm = nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.GroupNorm(2, 8)
            self.time = nn.Linear(16, 8)

        def forward(self, x: Any, t: Any) -> Any:
            angles = t[:, None] * torch.arange(8) * 0.1
            embedded = self.time(torch.cat([angles.sin(), angles.cos()], 1))
            y = functional.silu(self.down(x)) + embedded[..., None, None]
            return self.up(y + functional.silu(self.norm(self.middle(y)))) + x

    model = Denoiser()
    average = copy.deepcopy(model)
    compiled, optimizer = torch.compile(model), _optimize(model)

    def run() -> None:
        x, noise, t = torch.randn(4, 3, 16, 16), torch.randn(4, 3, 16, 16), torch.rand(4)
        shape = t[:, None, None, None]
        _advance(optimizer, (compiled(x * (1 - shape) + noise * shape, t) - noise).square().mean())
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)

    return run


@step
def script_contrast() -> Step:
    encoder = S(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    compiled, optimizer, queue = torch.compile(encoder), _optimize(encoder), torch.randn(64, 16)

    def run() -> None:
        x = torch.randn(16, 32)
        first, second = (
            functional.normalize(compiled(x + 0.1 * torch.randn_like(x)), dim=1) for _ in range(2)
        )
        logits = torch.cat([(first * second).sum(1, keepdim=True), first @ queue.t()], 1) / 0.1
        _advance(optimizer, functional.cross_entropy(logits, torch.zeros(16, dtype=torch.long)))
        queue.copy_(torch.cat([second.detach(), queue[:-16]]))

    return run


@step
def script_characters() -> Step:
    class Characters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.cell = nn.Embedding(32, 32), nn.LSTMCell(32, 24)
            self.head = nn.Linear(24, 32)

        def forward(self, tokens: Any) -> Any:
            return self.head(unrolled(self, self.embedding(tokens)))

    model = Characters()
    compiled, optimizer = torch.compile(model), torch.optim.SGD(model.parameters(), 0.1, 0.9)

    def run() -> None:
        tokens = torch.randint(0, 32, (8, 9))
        logits = compiled(tokens[:, :-1])
        _advance(optimizer, functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))

    return run


@step
def script_graphs() -> Step:
    class Convolution(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line, self.score = nn.Linear(16, 16), nn.Linear(32, 1)

        def forward(self, x: Any, edges: Any) -> Any:
            x = self.line(x)
            source, target = edges
            weight = self.score(torch.cat([x[source], x[target]], 1)).exp()
            total = torch.zeros(x.shape[0], 1).index_add(0, target, weight)
            return torch.zeros_like(x).index_add(0, target, x[source] * weight) / (
                total[...] + 1e-6
            )

    first, second = Convolution(), Convolution()
    head = nn.Linear(16, 3)
    parameters = [p for m in (first, second, head) for p in m.parameters()]
    optimizer = torch.optim.Adam(parameters)

    def forward(x: Any, edges: Any) -> Any:
        return head(second(functional.elu(first(x, edges)), edges))

    compiled, edges = torch.compile(forward), torch.randint(0, 40, (2, 120))

    def run() -> None:
        x, y = torch.randn(40, 16), torch.randint(0, 3, (40,))
        _advance(optimizer, functional.cross_entropy(compiled(x, edges)[:20], y[:20]))

    return run


@step
def script_translation() -> Step:
    model = nn.Transformer(32, 4, 1, 1, 64, 0.1, batch_first=True)
    source, target = nn.Embedding(40, 32), nn.Embedding(40, 32)
    head = nn.Linear(32, 40)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    mask = nn.Transformer.generate_square_subsequent_mask(7)

    def forward(x: Any, y: Any) -> Any:
        return head(model(source(x), target(y), tgt_mask=mask, tgt_is_causal=True))

    compiled = torch.compile(forward)

    def run() -> None:
        x, y = torch.randint(0, 40, (4, 9)), torch.randint(0, 40, (4, 8))
        logits = compiled(x, y[:, :-1])
        _advance(optimizer, functional.cross_entropy(logits.flatten(0, 1), y[:, 1:].flatten()))

    return run


@step
def script_distillation() -> Step:
    teacher = S(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).eval()
    student = S(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
    known, learned, optimizer = torch.compile(teacher), torch.compile(student), _optimize(student)

    def run() -> None:
        x = torch.randn(8, 3, 8, 8)
        with torch.no_grad():
            wanted = (known(x) / 2).softmax(1)
        for _ in range(2):
            _advance(optimizer, functional.kl_div((learned(x) / 2).log_softmax(1), wanted))

    return run
