"""Small jax functions whose compiled modules show one feature of HLO each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any


def floats(*shape: int) -> Any:
    """Return the description of an array."""
    import jax
    import jax.numpy as jnp

    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _network(weights: Any, x: Any) -> Any:
    import jax.numpy as jnp

    for weight in weights:
        x = jnp.tanh(x @ weight)
    return (x * x).sum()


def network() -> Any:
    """Value and gradient of three layers: no loop, several results."""
    import jax

    return jax.jit(jax.value_and_grad(_network)).lower([floats(64, 64)] * 3, floats(32, 64))


def donated() -> Any:
    """A training step whose weights are donated: parameters are free after their last use."""
    import jax

    def step(weights: Any, x: Any) -> Any:
        slopes = jax.grad(_network)(weights, x)
        return [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)]

    return jax.jit(step, donate_argnums=0).lower([floats(64, 64)] * 3, floats(32, 64))


def branches() -> Any:
    """Return wide branches of one input; all could be made before any is narrowed."""
    import jax
    import jax.numpy as jnp

    def run(x: Any, up: Any, down: Any) -> Any:
        return sum(jnp.sin(x @ up[i]) @ down[i] for i in range(5))

    return jax.jit(run).lower(floats(16, 32), floats(5, 32, 512), floats(5, 512, 32))


def update() -> Any:
    """Part of an array is overwritten, which needs no second one."""
    import jax
    from jax import lax

    def run(x: Any, part: Any, weight: Any) -> Any:
        whole = lax.sort(x @ weight, dimension=0)
        return lax.dynamic_update_slice(whole, part, (3, 0)) @ weight

    return jax.jit(run).lower(floats(64, 64), floats(8, 64), floats(64, 64))


def scan() -> Any:
    """A loop whose state is overwritten and whose body has buffers of its own."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def body(state: Any, row: Any) -> Any:
        state = jnp.tanh(state @ row)
        return state, state.sum(1)

    run: Callable[..., Any] = jax.jit(lambda state, rows: lax.scan(body, state, rows))
    return run.lower(floats(32, 64), floats(10, 64, 64))


def choice() -> Any:
    """A conditional: the larger branch is workspace."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def run(flag: Any, x: Any) -> Any:
        return lax.cond(flag, lambda x: jnp.exp(x) @ x, lambda x: jnp.sin(x) + x.T, x)

    return jax.jit(run).lower(jax.ShapeDtypeStruct((), jnp.bool_), floats(64, 64))


def nested_loops() -> Any:
    """A loop in a loop, and a conditional in that: the state of each is overwritten."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def inner(state: Any, row: Any) -> Any:
        branches = lambda s: jnp.tanh(s @ s) @ s, lambda s: s + s.T
        state = lax.cond(row.sum() > 0, *branches, state)
        return state, (state * row).sum()

    def outer(state: Any, rows: Any) -> Any:
        state, found = lax.scan(inner, state, rows)
        return jnp.sort(state, axis=0) @ state, found

    run: Callable[..., Any] = jax.jit(lambda state, rows: lax.scan(outer, state, rows))
    return run.lower(floats(48, 48), floats(3, 4, 48, 48))


def search() -> Any:
    """A loop that ends when it has found something, then one of three branches."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def step(state: Any) -> Any:
        x, n = state
        wide = jnp.concatenate([x @ x.T, x], axis=1)
        return jnp.tanh(wide[:, :64]) @ x / 8, n + 1

    def run(x: Any) -> Any:
        x, n = lax.while_loop(lambda s: (s[0].sum() < 100) & (s[1] < 9), step, (x, 0))
        branches = [
            lambda x: x @ x.T @ x,
            jnp.sin,
            lambda x: (x @ x.T).sum(1, keepdims=True) * x,
        ]
        return lax.switch(n, branches, x), n

    return jax.jit(run).lower(floats(64, 64))


def recurrent() -> Any:
    """Loss and gradient of a gated recurrent net: a loop forward and one back."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def cell(weights: Any, state: Any, row: Any) -> Any:
        gate = jax.nn.sigmoid(state @ weights[0] + row @ weights[1])
        wide = jnp.tanh(jnp.concatenate([state, row], 1) @ weights[2].reshape(128, 64))
        state = gate * state + (1 - gate) * wide
        return state, state

    def loss(weights: Any, rows: Any) -> Any:
        state, found = lax.scan(lambda s, row: cell(weights, s, row), rows[0] * 0, rows)
        return (found**2).mean() + state.sum()

    shapes = [floats(64, 64), floats(64, 64), floats(2, 64, 64)]
    return jax.jit(jax.value_and_grad(loss)).lower(shapes, floats(12, 32, 64))


def layers() -> Any:
    """Loss and gradient of six layers of attention in a loop, recomputed on the way back."""
    import jax
    from jax import lax

    def layer(x: Any, weights: Any) -> Any:
        query, key, value = (x @ weights[i] for i in range(3))
        scores = jax.nn.softmax(query @ key.T / 8.0, -1)
        return x + jax.nn.gelu(scores @ value @ weights[3]) @ weights[4], None

    def loss(weights: Any, x: Any) -> Any:
        x, _ = lax.scan(jax.checkpoint(layer), x, weights)
        return (x**2).mean()

    return jax.jit(jax.grad(loss)).lower(floats(6, 5, 64, 64), floats(96, 64))


def attention() -> Any:
    """Loss and gradient of a layer of attention, recomputed in the backward pass: barriers."""
    import jax
    import jax.numpy as jnp

    def layer(weights: Any, x: Any) -> Any:
        query, key, value = (x @ weights[i] for i in range(3))
        scores = jax.nn.softmax(query @ key.T / 8.0, -1)
        return x + jnp.tanh(scores @ value) @ weights[3]

    def loss(weights: Any, x: Any) -> Any:
        for each in weights:
            x = jax.checkpoint(layer)(each, x)
        return (x**2).mean()

    return jax.jit(jax.grad(loss)).lower([floats(4, 32, 32)] * 2, floats(64, 32))


def training_step() -> Any:
    """A step of plain gradient descent on a classifier of four layers, full size."""
    import jax
    import jax.numpy as jnp

    widths = (784, 512, 512, 256, 10)
    layers = [{"w": floats(one, other), "b": floats(other)} for one, other in pairwise(widths)]

    def loss(layers: Any, x: Any, labels: Any) -> Any:
        for layer in layers[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        scores = jax.nn.log_softmax(x @ layers[-1]["w"] + layers[-1]["b"])
        return -(jax.nn.one_hot(labels, 10) * scores).sum(-1).mean()

    def step(p: Any, x: Any, y: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(p, x, y)
        return jax.tree.map(lambda old, slope: old - 0.1 * slope, p, slopes), value

    labels = jax.ShapeDtypeStruct((128,), jnp.int32)
    return jax.jit(step).lower(layers, floats(128, 784), labels)


def random_graph(seed: int) -> Any:
    """Return a random graph of a few dozen operations on arrays of several shapes."""
    import random

    import jax
    import jax.numpy as jnp

    draw = random.Random(seed)

    def run(x: Any, weight: Any) -> Any:
        made = [x, x @ weight]
        for _ in range(25):
            one, other = draw.choice(made), draw.choice(made)
            rows = min(one.shape[0], other.shape[0])
            made.append(
                draw.choice(
                    (
                        lambda one, other, rows: one[:rows] + other[:rows],
                        lambda one, other, rows: jnp.sort(one, axis=0),
                        lambda one, other, rows: jnp.tanh(one) @ weight,
                        lambda one, other, rows: one[:rows] @ other[:rows].T @ other[:rows],
                        lambda one, other, rows: jnp.concatenate([one, other[:rows]])[:96],
                        lambda one, other, rows: one[::-1] * one.sum(),
                    )
                )(one, other, rows)
            )
        return [draw.choice(made) for _ in range(2)], sum(x.sum() for x in made)

    return jax.jit(run).lower(floats(48, 32), floats(32, 32))


LOOP_FREE = (network, donated, branches, update, attention)
MODELS = (*LOOP_FREE, scan, choice)
CALLING = (scan, choice, nested_loops, search)
"""Models whose modules have computations that others call."""
TRAINING = (recurrent, layers)
"""Gradients through loops."""
