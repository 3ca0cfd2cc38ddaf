"""Steps that do something unusual: outputs, writes, gradients of gradients, types, breaks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.support.steps.catalog import Step, loss_of, step, train
from tests.support.steps.modules import IMAGE, ROWS, SEQUENCE, Fn, Residual, S, mlp


def _rows() -> Any:
    return torch.randn(*ROWS)


@step
def retain_graph() -> Step:
    module, x = mlp(), _rows().requires_grad_()
    compiled = torch.compile(module)

    def run() -> None:
        loss = compiled(x).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()

    return run


@step
def gradient_of_two_losses() -> Step:
    module, x = Fn(lambda m, x: (m.a(x), m.b(x.sin())), a=mlp(), b=mlp()), _rows()
    compiled = torch.compile(module)

    def run() -> None:
        first, second = compiled(x)
        torch.autograd.grad(first.sum(), list(module.a.parameters()), retain_graph=True)
        second.square().sum().backward()

    return run


@step
def many_outputs() -> Step:
    return train(
        Fn(lambda m, x: (m.a(x), [m.b(x), m.a(x).relu()], {"s": x.sum()}), a=mlp(), b=mlp()),
        _rows(),
    )


@step
def held_outputs() -> Step:
    module, x, kept = mlp(), _rows(), []
    compiled = torch.compile(module)

    def run() -> None:
        output = compiled(x)
        kept[:] = [output]
        output.square().mean().backward()

    return run


@step
def views_as_outputs() -> Step:
    def views(m: Any, x: Any) -> Any:
        y = m.a(x)
        return y[:, :8], y.view(-1, 2), y.t(), x[1:]

    return train(Fn(views, a=mlp()), _rows())


@step
def writes_into_inputs() -> Step:
    compiled = torch.compile(lambda x, y: (x.mul_(0.5), y[:, :4].add_(1), x.sum() + y.sum()))
    x, y = _rows(), _rows()

    def run() -> Any:
        with torch.no_grad():
            return compiled(x, y)

    return run


@step
def writes_into_values() -> Step:
    def run(m: Any, x: Any) -> Any:
        y = m.a(x).clone()
        y[:, 3:5].zero_()
        y.masked_fill_(x > 1, 0.5).clamp_(min=-2)
        y[torch.arange(8) * 3] += 1
        return y.cumsum(0).index_fill(1, torch.arange(3), 0.0)

    return train(Fn(run, a=mlp()), _rows())


@step
def running_average() -> Step:
    class Average(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 32)
            self.register_buffer("mean", torch.zeros(32))
            self.register_buffer("seen", torch.zeros((), dtype=torch.long))

        def forward(self, x: Any) -> Any:
            self.seen += 1
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), 0.1)
            return self.layer(x - self.mean)

    return train(Average(), _rows())


@step
def spectral_filter() -> Step:
    def run(m: Any, x: Any) -> Any:
        modes = torch.fft.rfft(m.a(x), dim=1)
        return torch.fft.irfft(
            modes * torch.view_as_complex(m.b.weight.view(1, -1, 2)), n=32, dim=1
        )

    return train(Fn(run, a=mlp(), b=nn.Linear(34, 1)), _rows())


@step
def complex_rotation() -> Step:
    def run(m: Any, x: Any) -> Any:
        pairs = torch.view_as_complex(m.a(x).view(-1, 16, 2))
        angles = torch.polar(torch.ones(16), torch.arange(16.0))
        return torch.view_as_real(pairs * angles.conj()).flatten(1)

    return train(Fn(run, a=mlp()), _rows())


@step
def meta_learning() -> Step:
    """Gradients inside of the compiled function, which change the weights of the loss."""
    module = mlp()
    x, y = _rows(), _rows()

    def adapted(weights: Any, x: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            return (torch.func.functional_call(module, w, (x,)) - y).square().mean()

        gradients = torch.func.grad(loss)(weights)
        moved = {k: w - 0.1 * gradients[k] for k, w in weights.items()}
        return loss(moved)

    compiled = torch.compile(adapted)

    def run() -> None:
        module.zero_grad()
        compiled(dict(module.named_parameters()), x, y).backward()

    return run


@step
def hessian_product() -> Step:
    compiled = torch.compile(
        lambda x, v: torch.func.jvp(torch.func.grad(lambda y: y.sin().square().sum()), (x,), (v,))
    )
    x, v = _rows(), _rows()
    return lambda: compiled(x, v)


@step
def per_sample_gradients() -> Step:
    module = nn.Linear(32, 8)

    def loss(w: Any, x: Any) -> Any:
        return torch.func.functional_call(module, w, (x[None],)).square().sum()

    compiled = torch.compile(torch.func.vmap(torch.func.grad(loss), (None, 0)))
    weights, x = {k: w.detach() for k, w in module.named_parameters()}, _rows()
    return lambda: compiled(weights, x)


@step
def own_gradient() -> Step:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.save_for_backward(x, w)
            return x * w.tanh()

        @staticmethod
        def backward(ctx: Any, given: Any) -> Any:
            x, w = ctx.saved_tensors
            return given * w.tanh(), (given * x * (1 - w.tanh().square())).sum(0)

    module = mlp()
    scale = nn.Parameter(torch.randn(32))
    module.register_parameter("scale", scale)
    return train(Fn(lambda m, x: Scale.apply(m.a(x), m.a.scale), a=module), _rows())


@step
def adam() -> Step:
    """The optimizer's step is compiled, too, and writes into parameters and moments."""
    module = mlp()
    optimizer = torch.optim.Adam(module.parameters(), capturable=False)
    forward, x = torch.compile(module), _rows()
    update = torch.compile(optimizer.step)

    def run() -> None:
        optimizer.zero_grad()
        forward(x).square().mean().backward()
        update()

    return run


@step
def accumulation() -> Step:
    module = S(mlp(), nn.LayerNorm(32), mlp())
    compiled, parts = torch.compile(module), [_rows() for _ in range(3)]

    def run() -> None:
        module.zero_grad(set_to_none=True)
        for part in parts:
            compiled(part).square().mean().backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)

    return run


@step
def half_precision() -> Step:
    module, x = S(mlp(), nn.LayerNorm(32), nn.Linear(32, 8)), _rows()
    compiled = torch.compile(module)

    def run() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            output = compiled(x)
        output.float().square().mean().backward()

    return run


@step
def double_precision() -> Step:
    return train(S(nn.Linear(32, 48), nn.Softplus(), nn.Linear(48, 3)).double(), _rows().double())


@step
def quantized() -> Step:
    def run(x: Any, w: Any, scale: Any) -> Any:
        small = torch.clamp((x / scale).round(), -128, 127).to(torch.int8)
        return (small.to(torch.float32) * scale) @ (w.to(torch.float32) * scale)

    compiled, w = torch.compile(run), torch.randint(-128, 127, (32, 24), dtype=torch.int8)
    x, scale = _rows(), torch.tensor(0.1)
    return lambda: compiled(x, w, scale)


@step
def graph_breaks() -> Step:
    def run(m: Any, x: Any) -> Any:
        y = m.a(x).relu()
        torch._dynamo.graph_break()
        z = m.b(y) + y
        torch._dynamo.graph_break()
        return m.c(z) * y

    return train(Fn(run, a=mlp(), b=mlp(), c=mlp()), _rows())


@step
def regions() -> Step:
    """Layers that are compiled one by one, so that tensors pass between their graphs."""
    layers = nn.ModuleList([S(nn.LayerNorm(32), mlp()) for _ in range(3)])
    compiled = [torch.compile(layer) for layer in layers]

    def run() -> None:
        x = torch.randn(*ROWS)
        for layer in compiled:
            x = layer(x)
        x.square().mean().backward()

    return run


@step
def dynamic() -> Step:
    module = S(mlp(), nn.LayerNorm(32))
    compiled = torch.compile(module, dynamic=True)
    return lambda: compiled(_rows()).square().mean().backward()


@step
def hooked() -> Step:
    """A hook reads the gradient that goes back into the compiled graph."""
    module, x, seen = mlp(), _rows(), []
    compiled = torch.compile(module)

    def run() -> None:
        output = compiled(x)
        output.register_hook(lambda gradient: seen.__setitem__(slice(None), [gradient.norm()]))
        output.square().mean().backward()

    return run


@step
def passed_gradient() -> Step:
    """The program passes a gradient and keeps it."""
    module, x, gradient = mlp(), _rows(), _rows()
    compiled = torch.compile(module)
    return lambda: compiled(x).backward(gradient)


def _with_backward(backward: Any) -> Step:
    """Return a step of a function with a gradient of its own."""

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, given: Any) -> Any:
            return backward(given, *ctx.saved_tensors)

    x = _rows().requires_grad_()
    compiled = torch.compile(Own.apply)

    def run() -> None:
        x.grad = None
        (compiled(x) * 3).sum().backward()

    return run


@step
def multiplied_gradient() -> Step:
    """The gradient is overwritten and returned."""
    return _with_backward(lambda given, x: given.mul_(x))


@step
def replaced_gradient() -> Step:
    """The gradient is overwritten and returned, but never read."""
    return _with_backward(lambda given, x: given.copy_(x))


@step
def cut_gradient() -> Step:
    def cut(given: Any, x: Any) -> Any:
        given[:, :4].zero_()
        return given.clamp_(-1, 1)

    return _with_backward(cut)


@step
def inference() -> Step:
    module, x = (
        S(Residual(8, nn.BatchNorm2d), nn.Flatten(), nn.Linear(2048, 5)).eval(),
        torch.randn(*IMAGE),
    )
    compiled = torch.compile(module)

    def run() -> Any:
        with torch.inference_mode():
            return compiled(x)

    return run


@step
def cached_generation() -> Step:
    """A token at a time, with keys and values that are written in place."""
    q, k, v = (nn.Linear(32, 32) for _ in range(3))
    keys, values = torch.zeros(12, 32), torch.zeros(12, 32)

    def decode(x: Any, place: Any) -> Any:
        keys.index_copy_(0, place, k(x))
        values.index_copy_(0, place, v(x))
        weights = (q(x) @ keys.t()).masked_fill(torch.arange(12) > place, -1e9).softmax(-1)
        return weights @ values

    compiled = torch.compile(decode)

    def run() -> None:
        with torch.no_grad():
            x = torch.randn(1, 32)
            for place in range(3):
                x = compiled(x, torch.tensor([place]))

    return run


@step
def sorted_rows() -> Step:
    return train(
        Fn(lambda m, x: m.a(x).sort(1)[0].cumsum(1) + m.a(x).topk(32)[0], a=mlp()), _rows()
    )


@step
def linear_algebra() -> Step:
    def run(m: Any, x: Any) -> Any:
        a = m.a(x)[:32]
        spd = a @ a.t() + 32 * torch.eye(32)
        return torch.linalg.solve(spd, x[:32]) + torch.linalg.inv(spd).sum()

    return train(Fn(run, a=mlp()), _rows())


@step
def cross_entropy_inside() -> Step:
    module, x, y = S(mlp(), nn.Linear(32, 7)), _rows(), torch.arange(48) % 7
    compiled = torch.compile(lambda x, y: functional.cross_entropy(module(x), y))
    return lambda: compiled(x, y).backward()


@step
def physics() -> Step:
    """A derivative with respect to the input is part of the loss."""
    module, x = S(nn.Linear(32, 48), nn.Tanh(), nn.Linear(48, 1)), _rows()

    def loss(x: Any) -> Any:
        slope = torch.func.grad(lambda y: module(y).sum())(x)
        return (slope.sum(1) - x.sin().sum(1)).square().mean() + module(x).square().mean()

    compiled = torch.compile(loss)
    return lambda: compiled(x).backward()


@step
def flow() -> Step:
    def run(m: Any, x: Any) -> Any:
        logdet = x.new_zeros(x.shape[0])
        for layer in (m.a, m.b):
            first, second = x.chunk(2, 1)
            scale, shift = layer(first).chunk(2, 1)
            x = torch.cat([second * scale.tanh().exp() + shift, first], 1)
            logdet = logdet + scale.tanh().sum(1)
        return x, logdet

    return train(Fn(run, a=nn.Linear(16, 32), b=nn.Linear(16, 32)), _rows())


@step
def neural_ode() -> Step:
    def run(m: Any, x: Any) -> Any:
        for _ in range(3):
            a = m.a(x)
            x = x + 0.1 * m.a(x + 0.05 * a)
        return x

    return train(Fn(run, a=S(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32))), _rows())


@step
def averaged_weights() -> Step:
    """An average of the weights is updated in one compiled call of many writes."""
    source, target = mlp(), mlp()

    def update() -> None:
        for new, old in zip(source.parameters(), target.parameters(), strict=True):
            old.mul_(0.99).add_(new, alpha=0.01)

    compiled = torch.compile(update)

    def run() -> None:
        with torch.no_grad():
            compiled()

    return run


@step
def einsum() -> Step:
    def run(m: Any, x: Any) -> Any:
        y = m.a(x)
        return torch.einsum("bti,bsi,bsj->btj", y, x, y).flip(1).roll(1, 2)

    return train(Fn(run, a=mlp()), torch.randn(*SEQUENCE))


@step
def sparse_update() -> Step:
    def run(m: Any, x: Any) -> Any:
        y = m.a(x)
        spread = torch.zeros(40, 32).scatter_reduce(0, (x > 0).long() * 3, y, "amax")
        return spread.index_select(0, torch.arange(20) * 2).unfold(1, 4, 2).sum(-1), loss_of(y)

    return train(Fn(run, a=mlp()), _rows())
