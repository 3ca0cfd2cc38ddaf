"""Full-size jax functions that others recorded what XLA made of, written again."""

from __future__ import annotations

from typing import Any

from tests.support.xla_models import floats


def _conv(x: Any, filters: Any, stride: int = 1) -> Any:
    from jax import lax

    axes = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, filters, (stride,) * 2, "SAME", dimension_numbers=axes)


def nas_cell() -> Any:
    """Five cells of four sums of convolutions, as architecture search finds them."""
    import jax
    import jax.numpy as jnp

    def run(ks: Any, x: Any) -> Any:
        def conv(value: Any, number: int) -> Any:
            return jax.nn.relu(_conv(value, ks[number]))

        before = now = x
        for _ in range(5):
            a = conv(now, 0) + conv(before, 1)
            b = conv(before, 2) + conv(a, 3)
            c = conv(a, 4) + conv(b, 5)
            d = conv(b, 6) + conv(c, 7)
            before, now = now, jnp.concatenate([a, b, c, d], -1)[..., ::4]
        return before + now

    filters = [floats(n, n, 64, 64) for n in (1, 3, 5, 1, 3, 5, 1, 3)]
    return jax.jit(run).lower(filters, floats(1, 64, 64, 64))


def resnet18() -> Any:
    """A residual network whose batch norms work out their statistics."""
    import jax
    from jax import lax

    def norm(x: Any, p: Any) -> Any:
        mean, spread = x.mean((0, 1, 2), keepdims=True), x.var((0, 1, 2), keepdims=True)
        return (x - mean) * lax.rsqrt(spread + 1e-5) * p["g"] + p["o"]

    def block(x: Any, p: Any) -> Any:
        stride = 2 if "sc" in p else 1
        y = jax.nn.relu(norm(_conv(x, p["c1"], stride), p["n1"]))
        y = norm(_conv(y, p["c2"]), p["n2"])
        return jax.nn.relu(y + (_conv(x, p["sc"], stride) if "sc" in p else x))

    def run(P: Any, x: Any) -> Any:  # noqa: N803 (XLA calls its parameters by this name)
        x = jax.nn.relu(norm(_conv(x, P["stem"]), P["stembn"]))
        for each in P["b"]:
            x = block(x, each)
        return x.mean((1, 2)) @ P["fc"]["w"] + P["fc"]["b"]

    def gains(width: int) -> dict[str, Any]:
        return {"g": floats(width), "o": floats(width)}

    given: dict[str, Any] = {"stem": floats(3, 3, 3, 32), "stembn": gains(32), "b": []}
    given["fc"] = {"w": floats(256, 10), "b": floats(10)}
    width = 32
    for wider in (32, 32, 64, 64, 128, 128, 256, 256):
        made = {"c1": floats(3, 3, width, wider), "c2": floats(3, 3, wider, wider)}
        made |= {"n1": gains(wider), "n2": gains(wider)}
        if wider != width:
            made["sc"] = floats(1, 1, width, wider)
        given["b"].append(made)
        width = wider
    return jax.jit(run).lower(given, floats(8, 64, 64, 3))


def gpt(remat: bool) -> Any:
    """A step of gradient descent on a decoder of four layers, perhaps with rematerialization."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    width, heads, steps, batch, words = 256, 4, 128, 4, 1024

    def norm(x: Any, p: Any) -> Any:
        mean, spread = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(spread + 1e-5) * p["g"] + p["o"]

    def dense(x: Any, p: Any) -> Any:
        return x @ p["w"] + p["b"]

    def layer(x: Any, p: Any) -> Any:
        parts = jnp.split(dense(norm(x, p["l1"]), p["qkv"]), 3, -1)
        q, k, v = (y.reshape(batch, steps, heads, -1).transpose(0, 2, 1, 3) for y in parts)
        scores = jnp.where(
            jnp.tril(jnp.ones((steps, steps), bool)), q @ k.transpose(0, 1, 3, 2) / 8.0, -1e9
        )
        mixed = (jax.nn.softmax(scores, -1) @ v).transpose(0, 2, 1, 3)
        x = x + dense(mixed.reshape(x.shape), p["pr"])
        return x + dense(jax.nn.gelu(dense(norm(x, p["l2"]), p["f1"])), p["f2"])

    def loss(P: Any, t: Any, y: Any) -> Any:  # noqa: N803
        x = P["e"][t] + P["p"]
        for each in P["b"]:
            x = (jax.checkpoint(layer) if remat else layer)(x, each)
        scores = jax.nn.log_softmax(norm(x, P["lf"]) @ P["e"].T, -1)
        return -jnp.take_along_axis(scores, y[..., None], -1).mean()

    def step(P: Any, t: Any, y: Any) -> Any:  # noqa: N803
        value, slopes = jax.value_and_grad(loss)(P, t, y)
        return value, jax.tree.map(lambda old, slope: old - 1e-3 * slope, P, slopes)

    def linear(before: int, after: int) -> dict[str, Any]:
        return {"w": floats(before, after), "b": floats(after)}

    gains = {"g": floats(width), "o": floats(width)}
    each = {"qkv": linear(width, 3 * width), "pr": linear(width, width), "l1": gains, "l2": gains}
    each |= {"f1": linear(width, 4 * width), "f2": linear(4 * width, width)}
    given = {"e": floats(words, width), "p": floats(steps, width), "lf": gains, "b": [each] * 4}
    numbers = jax.ShapeDtypeStruct((batch, steps), jnp.int32)
    return jax.jit(step).lower(given, numbers, numbers)
