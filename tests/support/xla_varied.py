"""Random jitted functions and training steps: donation, several results, control flow, types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

WIDTH = 48
"""Of square arrays: large enough for XLA to share memory among them, small enough to compile."""


@dataclass(frozen=True)
class Varied:
    """A function to compile."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    """`function` and `arguments`: of `jax.jit`."""
    donated: tuple[int, ...]
    """Numbers of the arguments that are given up."""
    features: tuple[str, ...]
    """Kinds of things in it, for a table."""

    def lower(self) -> Any:
        """Return the function as jax hands it to XLA."""
        return jax.jit(self.function, donate_argnums=self.donated).lower(*self.arguments)


def array(random: np.random.Generator, *shape: int, kind: Any = jnp.float32) -> Any:
    """Return an array of small random numbers."""
    numbers = random.standard_normal(shape) * 0.1
    if jnp.issubdtype(kind, jnp.complexfloating):
        numbers = numbers + 1j * random.standard_normal(shape) * 0.1
    return jnp.asarray(numbers, kind)


def _scan(a: Any, w: Any, _: int) -> Any:
    last, rows = lax.scan(lambda x, row: (jnp.tanh(x @ w) + row, x.sum(0)), a, a[:4])
    return last + rows.sum()


def _while(a: Any, w: Any, number: int) -> Any:
    state = lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] @ w, s[2] + s[1]), (number % 2, a, a * 2)
    )
    return state[1] + state[2]


def _cond(a: Any, w: Any, _: int) -> Any:
    return lax.cond(jnp.real(a).sum() > 0, lambda x: x @ w, lambda x: jnp.sin(x) * 2, a)


def _update(a: Any, w: Any, number: int) -> Any:
    return lax.dynamic_update_slice(a, w[:5], (number, 0))


def _sort(a: Any, w: Any, _: int) -> Any:
    order = jnp.argsort(jnp.real(a).sum(1))
    return a[order] + w


def _switch(a: Any, w: Any, number: int) -> Any:
    branches = [lambda x: x + 1, lambda x: x @ w, lambda x: x.T * 3]
    return lax.switch(number % 3, branches, a)


def _scatter(a: Any, w: Any, _: int) -> Any:
    return a.at[jnp.array([1, 3, 3])].add(w[:3])


PIECES: dict[str, Callable[[Any, Any, int], Any]] = {
    "product": lambda a, w, _: a @ w,
    "wave": lambda a, w, _: jnp.sin(a) + w,
    "turn": lambda a, w, _: a.T.reshape(a.shape),
    "softmax": lambda a, w, _: jax.nn.softmax(jnp.real(a), -1).astype(a.dtype) @ w,
    "wide": lambda a, w, _: jnp.concatenate([a, w], 1) @ jnp.concatenate([w, a], 0),
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "switch": _switch,
    "update": _update,
    "sort": _sort,
    "scatter": _scatter,
}


def _fft(a: Any, _w: Any, _: int) -> Any:
    return jnp.fft.ifft(jnp.fft.fft(a, axis=0), axis=0)


def function(seed: int) -> Varied:
    """Return a random function of two or three arrays of one type, with one to four results."""
    random = np.random.default_rng([seed, 1])
    kind = (jnp.float32, jnp.bfloat16, jnp.complex64)[seed % 3]
    pieces = {**PIECES, "fft": _fft} if kind == jnp.complex64 else PIECES
    names = [str(x) for x in random.choice(list(pieces), 10)]
    reads = random.integers(0, 100, (10, 2))
    results = int(random.integers(1, 5))

    def run(x: Any, y: Any, w: Any) -> Any:
        values = [x, y]
        for number, (name, (a, b)) in enumerate(zip(names, reads.tolist(), strict=True)):
            made = pieces[name](values[a % len(values)], w, number)
            values.append((made + values[b % len(values)]).astype(kind))
        return sum(values[2:]), *values[-results:]

    arguments = tuple(array(random, WIDTH, WIDTH, kind=kind) for _ in range(3))
    donated = tuple(i for i in range(2) if random.random() < 0.5)
    features = [jnp.dtype(kind).name, *sorted(set(names) - {"product", "wave", "turn", "wide"})]
    return Varied(run, arguments, donated, (*features, f"{results + 1} results"))


def step(seed: int) -> Varied:
    """Return a training step with momentum, whose weights and moments may be donated."""
    random = np.random.default_rng([seed, 2])
    kind = (jnp.float32, jnp.bfloat16)[seed % 2]
    layers = int(random.integers(2, 6))
    scanned, remat = random.random() < 0.5, random.random() < 0.5
    weights = array(random, layers, WIDTH, WIDTH, kind=kind)
    if not scanned:
        weights = list(weights)

    def layer(x: Any, w: Any) -> Any:
        return x + jnp.tanh(x @ w) @ w.T

    block = jax.checkpoint(layer) if remat else layer

    def loss(weights: Any, x: Any) -> Any:
        if scanned:
            x, _ = lax.scan(lambda x, w: (block(x, w), None), x, weights)
        else:
            for w in weights:
                x = block(x, w)
        return (x.astype(jnp.float32) ** 2).mean()

    def train(weights: Any, moments: Any, x: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, x)
        moments = jax.tree.map(lambda m, s: (0.9 * m + s).astype(kind), moments, slopes)
        weights = jax.tree.map(lambda w, m: (w - 0.1 * m).astype(kind), weights, moments)
        return weights, moments, value

    moments = jax.tree.map(jnp.zeros_like, weights)
    x = array(random, 4 * WIDTH, WIDTH, kind=kind)
    donated = ((), (0,), (0, 1))[int(random.integers(3))]
    named = {"scan": scanned, "remat": remat}
    features = ["training step", jnp.dtype(kind).name, *(x for x, there in named.items() if there)]
    return Varied(train, (weights, moments, x), donated, tuple(features))


def varied(seed: int) -> Varied:
    """Return a random function, or a training step for each third seed."""
    return step(seed // 3) if seed % 3 == 2 else function(seed // 3 * 2 + seed % 3)
