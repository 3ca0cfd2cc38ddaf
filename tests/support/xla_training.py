"""Jax functions of the sizes of small training steps, each with its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Step = tuple[Callable[..., Any], tuple[Any, ...]]
RATE = 0.1


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    """Return the description of an array of numbers."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def labels(*shape: int) -> jax.ShapeDtypeStruct:
    """Return the description of an array of classes."""
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def filled(shapes: Any) -> Any:
    """Return arrays of random content for a tree of descriptions."""
    random = np.random.default_rng(0)

    def fill(shape: jax.ShapeDtypeStruct) -> Any:
        if shape.dtype == jnp.int32:
            return jnp.asarray(random.integers(0, 10, shape.shape), jnp.int32)
        return jnp.asarray(random.standard_normal(shape.shape) * 0.05, jnp.float32)

    return jax.tree.map(fill, shapes)


def cross_entropy(scores: Any, classes: Any) -> Any:
    """Return the mean loss of scores."""
    chances = jax.nn.log_softmax(scores, -1)
    return -jnp.take_along_axis(chances, classes[..., None], -1).mean()


def _normal(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def _attention(x: Any, weights: Any, heads: int) -> Any:
    batch, length, width = x.shape
    query, key, value = (
        part.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)
        for part in jnp.split(_normal(x) @ weights["in"], 3, -1)
    )
    mixed = jax.nn.softmax(query @ key.transpose(0, 1, 3, 2) / 8.0, -1) @ value
    return x + mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ weights["out"]


def _block(x: Any, weights: Any) -> Any:
    x = _attention(x, weights, 4)
    return x + jax.nn.gelu(_normal(x) @ weights["up"]) @ weights["down"]


def language_model(*, layers: int, remat: bool, shared: bool = False, width: int = 128) -> Step:
    """Loss and gradients of a transformer; with `remat`, blocks are computed twice."""
    one = {
        "in": floats(width, 3 * width),
        "out": floats(width, width),
        "up": floats(width, 4 * width),
        "down": floats(4 * width, width),
    }
    weights = {
        "embed": floats(500, width),
        "blocks": [one] * (1 if shared else layers),
        "head": floats(width, 500),
    }
    block = jax.checkpoint(_block) if remat else _block

    def loss(weights: Any, tokens: Any, classes: Any) -> Any:
        x = weights["embed"][tokens]
        for number in range(layers):
            x = block(x, weights["blocks"][0 if shared else number])
        return cross_entropy(x @ weights["head"], classes)

    return jax.value_and_grad(loss), filled((weights, labels(2, 128), labels(2, 128)))


def residual_net() -> Step:
    """Loss and gradients of a convolutional net with residual blocks."""
    weights = [floats(3, 3, 3, 16), *[floats(3, 3, 16, 16)] * 6, floats(16, 10)]

    def convolve(x: Any, kernel: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout)

    def loss(weights: Any, images: Any, classes: Any) -> Any:
        x = jax.nn.relu(convolve(images, weights[0]))
        for first, second in zip(weights[1:7:2], weights[2:7:2], strict=True):
            x = x + convolve(jax.nn.relu(convolve(x, first)), second)
        return cross_entropy(x.mean((1, 2)) @ weights[-1], classes)

    return jax.value_and_grad(loss), filled((weights, floats(8, 32, 32, 3), labels(8)))


def scanned() -> Step:
    """Loss and gradients of layers that a scan goes through."""
    weights = {"layers": floats(6, 128, 128), "head": floats(128, 500)}

    def loss(weights: Any, x: Any, classes: Any) -> Any:
        x, _ = lax.scan(lambda x, layer: (jnp.tanh(x @ layer) + x, None), x, weights["layers"])
        return cross_entropy(x @ weights["head"], classes)

    return jax.value_and_grad(loss), filled((weights, floats(256, 128), labels(256)))


def looped() -> Step:
    """Iterations of a loop on a state of two arrays, then wide branches."""

    def run(x: Any, weight: Any, up: Any, down: Any) -> Any:
        def advance(_: int, state: Any) -> Any:
            x, total = state
            x = jnp.tanh(x @ weight)
            return x, total + x

        x, total = lax.fori_loop(0, 8, advance, (x, x))
        return sum(jnp.sin(total @ up[i]) @ down[i] for i in range(5)) + x

    return run, filled((floats(64, 64), floats(64, 64), floats(5, 64, 512), floats(5, 512, 64)))


def experts() -> Step:
    """Return loss and gradients of a mixture of experts that all run."""
    weights = {"gate": floats(64, 6), "up": floats(6, 64, 256), "down": floats(6, 256, 64)}

    def loss(weights: Any, x: Any, classes: Any) -> Any:
        shares = jax.nn.softmax(x @ weights["gate"], -1)
        parts = [
            jax.nn.gelu(x @ weights["up"][i]) @ weights["down"][i] * shares[:, i : i + 1]
            for i in range(6)
        ]
        return cross_entropy(sum(parts), classes)

    return jax.value_and_grad(loss), filled((weights, floats(256, 64), labels(256)))


def recurrent() -> Step:
    """Loss and gradients of a recurrent net, its steps written one after the other."""
    weights = {"in": floats(32, 256), "state": floats(64, 256), "head": floats(64, 10)}

    def loss(weights: Any, x: Any, classes: Any) -> Any:
        hidden = cell = jnp.zeros((16, 64))
        for step in range(12):
            gates = x[step] @ weights["in"] + hidden @ weights["state"]
            keep, take, show, new = jnp.split(gates, 4, -1)
            cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(take) * jnp.tanh(new)
            hidden = jax.nn.sigmoid(show) * jnp.tanh(cell)
        return cross_entropy(hidden @ weights["head"], classes)

    return jax.value_and_grad(loss), filled((weights, floats(12, 16, 32), labels(16)))


def descent(step: Step) -> Step:
    """A step that returns new weights: the old ones can be donated."""
    gradient, arguments = step

    def train(weights: Any, *rest: Any) -> Any:
        loss, slopes = gradient(weights, *rest)
        return loss, jax.tree.map(lambda w, slope: w - RATE * slope, weights, slopes)

    return train, arguments


def mixed(seed: int) -> Step:
    """Value and gradients of a random function: branches, views, loops, choices, dropout."""
    random = np.random.default_rng(seed)
    kinds = ["product", "sum", "wave", "turn", "update", "loop", "choice", "dropout", "wide"]
    steps = [
        (kinds[random.integers(len(kinds))], *random.integers(0, i + 2, 2).tolist())
        for i in range(14)
    ]

    def run(x: Any, weight: Any) -> Any:
        values = [x, x * 2]
        for number, (kind, first, second) in enumerate(steps):
            a, b = values[first], values[second]
            if kind == "product":
                values.append(a @ weight)
            elif kind == "sum":
                values.append(a + b)
            elif kind == "wave":
                values.append(jnp.sin(a))
            elif kind == "turn":
                values.append(a.T.reshape(a.shape))
            elif kind == "update":
                values.append(lax.dynamic_update_slice(a, b[:4], (number, 0)))
            elif kind == "loop":
                values.append(lax.fori_loop(0, 3, lambda _, y: jnp.tanh(y @ weight), a))
            elif kind == "choice":
                values.append(lax.cond(a.sum() > 0, lambda y: y @ weight, lambda y: y - 1, b))
            elif kind == "dropout":
                mask = jax.random.bernoulli(jax.random.key(number), 0.5, a.shape)
                values.append(jnp.where(mask, a, 0))
            else:
                values.append(jnp.concatenate([a, b], 1) @ jnp.concatenate([weight, weight], 0))
        return sum(values[-3:]).sum(), values[-1]

    gradient = jax.value_and_grad(run, argnums=(0, 1), has_aux=True)
    return gradient, filled((floats(64, 64), floats(64, 64)))


STEPS: dict[str, Callable[[], Step]] = {
    "transformer": lambda: language_model(layers=3, remat=False),
    "transformer, remat": lambda: language_model(layers=3, remat=True),
    "shared layers, remat": lambda: language_model(layers=4, remat=True, shared=True),
    "residual net": residual_net,
    "scan": scanned,
    "loop and branches": looped,
    "experts": experts,
    "recurrent": recurrent,
    "transformer, remat, donated": lambda: descent(language_model(layers=3, remat=True)),
    "residual net, donated": lambda: descent(residual_net()),
}
DONATED = {"transformer, remat, donated", "residual net, donated"}
"""Of these the first argument is donated."""
